"""The words behind Kafka's programs: `--option value`, `--option=value`, `-option value`, in any order."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

_NAMES: Final = """
list describe create delete alter help version if-exists if-not-exists exclude-internal from-beginning
force all-groups all-topics ignore-formatted standalone no-initial-controllers members offsets state verbose
unavailable-partitions under-replicated-partitions topics-with-overrides sync daemon enable-systest-events
all add remove reset-offsets execute dry-run to-earliest to-latest
"""
_FLAGS: Final = frozenset(_NAMES.split())
"""Options of Kafka's programs that have no value."""


class Words(NamedTuple):
    """Options by name, without dashes, each with its values; and words that belong to none."""

    options: dict[str, list[str]]
    rest: list[str]

    def has(self, *names: str) -> bool:
        """True if one of these options was given."""
        return any(name in self.options for name in names)

    def one(self, *names: str, default: str = "") -> str:
        """The last value of the first of these options that was given."""
        return next((self.options[name][-1] for name in names if self.options.get(name)), default)

    def all(self, *names: str) -> list[str]:
        """All values of these options."""
        return [value for name in names for value in self.options.get(name, [])]

    @property
    def pairs(self) -> dict[str, str]:
        """The values `NAME=VALUE` of --property and its like."""
        texts = self.all("property", "reader-property", "formatter-property")
        return {name: value for name, _, value in (each.partition("=") for each in texts)}


def parse_words(arguments: Sequence[str], *, flags: Collection[str] = ()) -> Words:
    """Read the words of a program; `flags` are options of this one that have no value."""
    options: dict[str, list[str]] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        values = options.setdefault(name, [])
        if equals:
            values.append(value)
        elif name not in _FLAGS and name not in flags and words and not words[0].startswith("--"):
            values.append(words.pop(0))
    return Words(options, rest)
