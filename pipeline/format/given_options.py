"""The options that a reader or writer of Spark was given: which of them are known, and what is wrong with them.

Always true: every problem is found before anything is read or written, and all of them are told in one error; an option
of Spark's own Kafka source or sink that Eosin does without is refused with the reason, never ignored.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from eosin.client.addresses import parse_bootstrap
from eosin.client.security.settings import USED, SecuritySettingError, SecuritySettings, security_settings
from eosin.client.security.tls import context_of, with_content
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.security import OPTION, PLAIN, carried_settings
from eosin.pipeline.common.settings import number

KAFKA: Final = "kafka."
"""The prefix of settings that Spark passes on to Kafka's clients."""
BOOTSTRAP: Final = "kafka.bootstrap.servers"
TIMEOUTS: Final = ("kafka.request.timeout.ms", "kafka.retry.backoff.ms", "task.timeout.ms")
SECURITY: Final = tuple(f"{KAFKA}{name}" for name in sorted(USED))
_SYNONYMS: Final[Mapping[str, str]] = {
    name: f"{KAFKA}{name}"
    for name in ("bootstrap.servers", "isolation.level", "request.timeout.ms", "retry.backoff.ms")
} | {"maxrowspertrigger": "maxOffsetsPerTrigger"}
"""Names of `txnlog`, in lower case, and those of Spark's own source."""
_OF_SPARK: Final = frozenset({"path", "queryname", "checkpointlocation"})
"""Options, in lower case, by which Spark passes on what has methods of its own."""
T = TypeVar("T")


class GivenOptions:
    """Options by name, in any case. Problems are gathered until `check`."""

    def __init__(self, kind: str, given: Mapping[str, str], known: Iterable[str], without: Mapping[str, str]) -> None:
        """`kind` is "source" or "sink", for sentences. `without` has options that only Spark's own has, and what to do
        without each: the end of a sentence."""
        self._kind = kind
        self._problems: list[str] = []
        names = [BOOTSTRAP, OPTION, *TIMEOUTS, *SECURITY, *known]
        by_lower = {name.lower(): name for name in names}
        reasons = {name.lower(): reason for name, reason in without.items()}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            lower = name.lower()
            full = by_lower.get(lower) or by_lower.get(_SYNONYMS.get(lower, "").lower())
            if full is not None:
                if self._values.get(full, value) != value:
                    self.refuse(f"{full} is given twice, with different values")
                self._values[full] = value
            elif lower in reasons:
                self.refuse(f"option {name} of Spark's own Kafka {kind} is not supported: {reasons[lower]}")
            elif lower not in _OF_SPARK:
                self.refuse(self._unknown(name, names))

    def _unknown(self, name: str, names: list[str]) -> str:
        near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], n=1, cutoff=0.75)
        if near:
            meant = next(each for each in names if each.lower() == near[0])
            return f"there is no option {name} (did you mean {meant}?)"
        if name.lower().startswith(KAFKA):
            return f"{name} has no meaning for Eosin's own client: leave it out"
        return f"there is no option {name}: leave it out, or see docs/pipelines.md for all options"

    def refuse(self, problem: str) -> None:
        """Note a problem: a clause without a full stop."""
        self._problems.append(problem)

    def check(self) -> None:
        """Raise ConflictingSettings with every problem that was found."""
        if self._problems:
            raise ConflictingSettings(f'format("eosin"), as a {self._kind}: {"; ".join(self._problems)}')

    def names(self) -> set[str]:
        """The known options that were given."""
        return set(self._values)

    def text(self, name: str) -> str | None:
        """The value of an option without spaces around it; None if it is not given or empty."""
        return self._values.get(name, "").strip() or None

    def number(self, name: str, default: T, *, least: int) -> int | T:
        """The value of an option that is a number."""
        text = self.text(name)
        if text is None:
            return default
        try:
            return number(name, text, least=least)
        except ConflictingSettings as error:
            self.refuse(str(error))
            return default

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        """The value that a word stands for; words may have any case."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            self.refuse(f"{name} is {text!r}, and can be {' or '.join(choices)}")
        return choices.get(text.lower(), default)

    def json_object(self, name: str, example: str) -> dict[str, Any] | None:
        """The value of an option that is a JSON object; None without the option, {} for a wrong value."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        self.refuse(f"{name} is {text!r}, and must be JSON like {example}")
        return {}

    def bootstrap(self) -> str:
        """The brokers to begin with."""
        text = self.text(BOOTSTRAP)
        if text is None:
            self.refuse(f"the option {BOOTSTRAP} is missing: give the brokers as host:port,host:port")
            return ""
        try:
            parse_bootstrap(text)
        except ValueError as error:
            self.refuse(f"{BOOTSTRAP}: {error}")
        return text

    def security(self) -> SecuritySettings:
        """The settings for TLS and a login: of a file of this machine, or of single options."""
        single = {name.removeprefix(KAFKA): value for name, value in self._values.items() if name in SECURITY}
        file = self.text(OPTION)
        if file is not None and single:
            self.refuse(f"{OPTION} and {KAFKA}{min(single)} are both given: leave out one")
        if file is not None:
            return self._tried(lambda: carried_settings(file), PLAIN)
        if not single:
            return PLAIN

        def complete() -> SecuritySettings:
            try:
                settings = with_content(security_settings(single))
                if settings.tls is not None:
                    context_of(settings.tls)
            except SecuritySettingError as error:
                raise ConflictingSettings(str(error)) from error
            return settings

        return self._tried(complete, PLAIN)

    def _tried(self, work: Callable[[], T], default: T) -> T:
        try:
            return work()
        except ConflictingSettings as error:
            self.refuse(str(error))
            return default
