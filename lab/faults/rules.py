"""`RuleText`: a rule as a test, a scenario or JSON writes it: what it matches, at which point, how often, what happens.

Always true: a rule that could never fire as it is written is refused before it is armed: names of APIs, fields, error
codes, points and actions are checked here, with the nearest one that exists.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from eosin.lab.common.errors import LabError, unknown
from eosin.lab.history.matching import api_called
from eosin.lab.history.requests import spelled
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of

REQUEST: Final = "request"
"""Decoded, nothing executed."""
HANDLED: Final = "handled"
"""Executed, the answer is built."""
ANSWER: Final = "answer"
"""The answer is the next of its connection to leave."""
APPENDED: Final = "appended"
"""Bytes are in a log, and not durable yet."""
DURABLE: Final = "durable"
"""They are durable, and nobody has been told."""
POINTS: Final = (REQUEST, HANDLED, ANSWER, APPENDED, DURABLE, "prepared", "marker", "complete", "disk")

ALWAYS: Final = "always"
PER: Final = ("connection", "client_id", "transactional_id")


class Match(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The requests that a rule is about. Texts are patterns (`inv-*`); what is absent means any."""

    api: str | tuple[str, ...] = ()
    versions: tuple[int, int] | None = None
    """The lowest and the highest."""
    client_id: str | None = None
    software: str | None = None
    software_version: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | tuple[int, ...] | None = None
    producer_epoch: int | None = None
    listener: str | None = None
    node: int | None = None
    peer: str | None = None
    connection: int | None = None
    fields: dict[str, Any] = {}
    """Values of the request's own fields, by the names in its schema."""
    call: str | None = None
    """At the point `disk`: `sync`, `append`, `rename` and so on."""
    path: str | None = None
    """At the point `disk`."""

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that are named."""
        return (self.api,) if isinstance(self.api, str) else self.api

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that are named."""
        if self.partition is None:
            return frozenset()
        return frozenset((self.partition,) if isinstance(self.partition, int) else self.partition)

    def __str__(self) -> str:
        named = [f"{name} {value}" for name, value in msgspec.to_builtins(self).items() if name != "api"]
        return ", ".join([" or ".join(self.apis) or "any request", *named])


class When(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The matches at which a rule fires, counted from 1."""

    times: int | Literal["always"] | None = None
    """Firings at most. By default 1, as many as `nth` has numbers, or always with `every` and `probability`."""
    nth: tuple[int, ...] = ()
    after: int = 0
    """Matches that pass before any other number counts."""
    every: int = 0
    probability: float | None = None
    from_ms: int | None = msgspec.field(name="from", default=None)
    """By the broker's clock, ms since the epoch."""
    until_ms: int | None = msgspec.field(name="until", default=None)
    per: Literal["connection", "client_id", "transactional_id"] | None = None
    """Counts apart for each of them."""
    occurrences: dict[str, tuple[int, ...]] | None = None
    """The matches of each client id at which it fires, and no others, as a replay has them; "" is for no client."""

    @property
    def most(self) -> int | None:
        """Firings at most; None for any number."""
        if self.times == ALWAYS or self.occurrences is not None:
            return None
        if self.times is not None:
            return self.times
        if self.nth:
            return len(self.nth)
        return None if self.every or self.probability is not None else 1


class RuleText(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One rule. `do` has the action's name as `action`, and the fields of that action."""

    do: dict[str, Any]
    match: Match = Match()
    at: str | None = None
    """By default the point that the action implies."""
    when: When = When()
    optional: bool = False
    """True if it does not matter whether it ever fires."""
    name: str | None = None
    id: str | None = None


def rule_in(text: Mapping[str, Any]) -> RuleText:
    """The rule that somebody has written, with names as Kafka spells them. Raises LabError."""
    _check_names("field of a rule", text, RuleText)
    if not isinstance(text.get("do"), Mapping) or "action" not in text["do"]:
        raise LabError('a rule has an action, as {"do": {"action": "delay", "ms": 50}}')
    match = match_in(text.get("match", {}))
    when = when_in(text.get("when", {}))
    at = text.get("at")
    if at is not None and at not in POINTS:
        raise unknown("point", str(at), POINTS)
    rest = {name: value for name, value in text.items() if name not in ("match", "when")}
    rule: RuleText = converted("a rule", rest, RuleText)
    return msgspec.structs.replace(rule, match=match, when=when)


def match_in(text: Mapping[str, Any] | str | Match) -> Match:
    """A match that somebody has written; a text is the name of an API. Raises LabError."""
    if isinstance(text, str):
        text = {"api": text}
    written: Mapping[str, Any] = msgspec.to_builtins(text) if isinstance(text, Match) else text
    _check_names("field of a match", written, Match)
    match: Match = converted("a match", written, Match)
    keys = {name: _BY_NAME[name] for name in map(api_called, match.apis)}
    if match.versions is not None:
        first, last = match.versions
        for name, key in keys.items():
            schema = schema_of(key)
            if schema is None or not set(range(first, last + 1)).intersection(schema.versions):
                there = "none" if schema is None else f"{schema.versions[0]} to {schema.versions[-1]}"
                raise LabError(f"{name} has the versions {there}, and none of {first} to {last}")
    fields = {_snake(name): value for name, value in match.fields.items()}
    if fields and not keys:
        raise LabError("fields are those of a request: name its api beside them")
    for name, key in keys.items():
        for field in fields:
            _check_field(name, key, field, match.versions)
    return msgspec.structs.replace(match, api=tuple(keys), fields=fields)


def when_in(text: Mapping[str, Any]) -> When:
    """The occurrences that somebody has written. Raises LabError."""
    names = ("times", "nth", "after", "every", "probability", "from", "until", "per", "occurrences")
    for name in text:
        if name not in names:
            raise unknown("field of when", name, names)
    if "nth" in text and isinstance(text["nth"], int):
        text = {**text, "nth": (text["nth"],)}
    when: When = converted("when", text, When)
    if isinstance(when.times, int) and when.times < 1:
        raise LabError(f'times is 1 or more, or "always", not {when.times}')
    if when.after < 0 or when.every < 0 or any(each < 1 for each in when.nth):
        raise LabError("matches are counted from 1: after and every are 0 or more, nth 1 or more")
    if when.probability is not None and not 0 < when.probability <= 1:
        raise LabError(f"a probability is above 0 and at most 1, not {when.probability:g}")
    return when


def error_named(code: str) -> ErrorCode:
    """The error code of a name. Raises LabError."""
    try:
        return ErrorCode[code]
    except KeyError:
        raise unknown("error code", str(code), ErrorCode.__members__) from None


def converted(what: str, text: Any, kind: Any) -> Any:
    """`text` as a struct of this kind. Raises LabError."""
    try:
        return msgspec.convert(text, kind)
    except msgspec.ValidationError as wrong:
        raise LabError(f"{what} cannot be read: {wrong}") from None


def _check_names(kind: str, text: Mapping[str, Any], struct: type[msgspec.Struct]) -> None:
    known = [each.encode_name for each in msgspec.structs.fields(struct)]
    for name in text:
        if name not in known:
            raise unknown(kind, name, known)


def _check_field(api: str, key: ApiKey, field: str, versions: tuple[int, int] | None) -> None:
    schema = schema_of(key)
    known: Iterable[str] = () if schema is None else schema.request.__struct_fields__
    if field not in known:
        raise unknown(f"field of {api}", field, known)
    if schema is None or versions is None:
        return
    asked = [each for each in schema.versions if versions[0] <= each <= versions[1]]
    if not any(field in _names_in(schema.request_layout(each)) for each in asked):
        raise LabError(f"{api} has no field {field} at the versions {versions[0]} to {versions[1]}")


def _names_in(layout: Any) -> set[str]:
    return {each.name for each in (*layout.plain, *layout.tagged)}


def _snake(name: str) -> str:
    """A field as the schemas of this broker spell it, also where it is written as in Kafka's own."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


_BY_NAME: Final = {spelled(key): key for key in ApiKey}
