"""The words of `faults.on(...)`: conditions before and after the action, and the actions.

Always true: each word changes a rule that is a plain dictionary, the same as in JSON; a rule is checked when it is
armed, by the broker.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from eosin.lab.faults.armed import Function
from eosin.lab.faults.rules import ALWAYS, Match
from eosin.protocol.errors import ErrorCode

Armed = TypeVar("Armed")
"""The thing that an action makes."""
Behind = Match | str | Mapping[str, Any]
"""A match; a text is the name of an API."""
Text = dict[str, Any]


About = str | Iterable[str] | Match | None
"""The requests that a rule begins with: an API, several, or a match; None for any."""


def rule_on(about: About, match: Mapping[str, Any]) -> Text:
    """The beginning of a rule: what it matches. The facts in `match` are stronger than those of a `Match`."""
    named = {name: list(value) if isinstance(value, tuple) else value for name, value in match.items()}
    if isinstance(about, Match):
        return {"match": {**msgspec.to_builtins(about), **named}}
    if about is not None:
        named["api"] = about if isinstance(about, str) else list(about)
    return {"match": named}


class Conditions:
    """The words that say when a rule fires."""

    def _with(self, change: Text) -> Self:
        """The same with a change in the rule, by the names of its fields; those of `when` are added."""
        raise NotImplementedError

    def _when(self, **change: Any) -> Self:
        return self._with({"when": change})

    def after(self, matches: int) -> Self:
        """Let so many matches pass first."""
        return self._when(after=matches)

    def nth(self, *numbers: int) -> Self:
        """Fire at these matches, counted from 1."""
        return self._when(nth=list(numbers))

    def every(self, matches: int) -> Self:
        """Fire at every so many-th match, for as long as the rule is there."""
        return self._when(every=matches)

    def with_probability(self, probability: float) -> Self:
        """Fire by chance, as the broker's seed will have it."""
        return self._when(probability=probability)

    def times(self, number: int) -> Self:
        """Fire so often at most."""
        return self._when(times=number)

    def once(self) -> Self:
        """Fire once, which is what a rule does that says nothing else."""
        return self._when(times=1)

    def always(self) -> Self:
        """Fire at every match."""
        return self._when(times=ALWAYS)

    def between(self, from_ms: int | None = None, until_ms: int | None = None) -> Self:
        """Fire within this time by the broker's clock, in ms since the epoch."""
        return self._when(**{"from": from_ms, "until": until_ms})

    def per(self, what: Literal["connection", "client_id", "transactional_id"]) -> Self:
        """Count apart for each connection, client id or transactional id."""
        return self._when(per=what)

    def at(self, point: str) -> Self:
        """Fire at another point than the one that the action implies."""
        return self._with({"at": point})

    def named(self, name: str) -> Self:
        """Give it a name for reports and for its luck."""
        return self._with({"name": name})

    def optional(self) -> Self:
        """It does not matter whether it ever fires."""
        return self._with({"optional": True})


class ActionWords(Generic[Armed]):
    """The words that say what a rule does."""

    def _do(self, action: str, fields: Text, function: Function | None = None) -> Armed:
        raise NotImplementedError

    def do(self, action: str, **fields: Any) -> Armed:
        """Do this, an action by its name with its fields."""
        return self._do(action, fields)

    def error(self, code: str | ErrorCode, *, after: bool = False, scope: str = "matched") -> Armed:
        """Answer with this error: in the partitions that match, while the others are executed, or with the scope `all`
        in the whole request. With `after` all of it is executed first."""
        name = code.name if isinstance(code, ErrorCode) else code
        return self._do("error", {"code": name, "after": after, "scope": scope})

    def delay(self, ms: float, *, virtual: bool = False) -> Armed:
        """Wait so long, on real time; with `virtual` on the broker's clock."""
        return self._do("delay", {"ms": ms, "virtual": virtual})

    def hold(self, name: str = "", *, until: int | None = None) -> Armed:
        """Wait until the rule is released, also by this name; with `until` that happens when so many wait."""
        return self._do("hold", {"name": name, "until": until})

    def lose(self, what: Literal["request", "answer"], how: Literal["reset", "fin", "stall"] = "reset") -> Armed:
        """Lose the `request`, which is not executed, or the `answer` to one that is. `how` the client finds out: its
        connection is reset or ended, or it stalls until the rule is released."""
        return self._do("lose", {"what": what, "how": how})

    def duplicate(self, n: int = 1, *, gap_ms: float = 0, elsewhere: bool = False) -> Armed:
        """Execute it `n` times more, and send the first answer alone. `elsewhere`: as from another connection, so that
        what follows on this one may overtake it."""
        return self._do("duplicate", {"n": n, "gap_ms": gap_ms, "elsewhere": elsewhere})

    def reorder(self, behind: Behind, *, timeout_ms: float = 2000) -> Armed:
        """Execute it after a request that fits `behind`, or after so long."""
        return self._do("reorder", {"behind": _behind(behind), "timeout_ms": timeout_ms})

    def detour(self, behind: Behind) -> Armed:
        """Reset its connection now, and execute it after a request that fits `behind`: the network has kept it."""
        return self._do("detour", {"behind": _behind(behind)})

    def close(self, how: Literal["fin", "rst"] = "rst", *, bytes: int | None = None) -> Armed:
        """Close its connection before it is executed; with `bytes`, after so many of its answer."""
        return self._do("close", {"how": how, "bytes": bytes})

    def trickle(self, bytes: int, every_ms: float) -> Armed:
        """Send its answer in pieces of so many bytes."""
        return self._do("trickle", {"bytes": bytes, "every_ms": every_ms})

    def throttle(self, ms: int) -> Armed:
        """Throttle its client for so long, in its answer and by not reading its connection."""
        return self._do("throttle", {"ms": ms})

    def crash(self, how: Literal["kill", "power"] = "kill", *, restart_after_ms: float = 0) -> Armed:
        """End the broker in the middle of it, and start it again."""
        return self._do("crash", {"how": how, "restart_after_ms": restart_after_ms})

    def rewrite(self, function: Function) -> Armed:
        """Answer with what the function returns, which gets the request with its `response`, in the broker's loop."""
        return self._do("rewrite", {}, function)

    def call(self, function: Function) -> Armed:
        """Run the function, which gets the request, in the broker's loop; what it returns is awaited if it can be."""
        return self._do("call", {}, function)


def changed(text: Text, change: Text) -> Text:
    """A rule with a change in it."""
    when = {**text.get("when", {}), **change.get("when", {})}
    return {**text, **change, **({"when": when} if when else {})}


def done(text: Text, action: str, fields: Text) -> Text:
    """A rule with its action."""
    return {**text, "do": {"action": action, **fields}}


def _behind(match: Behind) -> Any:
    if isinstance(match, Match):
        return msgspec.to_builtins(match)
    return {"api": match} if isinstance(match, str) else dict(match)
