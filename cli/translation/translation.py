"""Translates a command line in the words of another tool into the own words of a command.

Pure. Always true: a line that has only own words stays as it is; a word that is neither an own one nor a known one is
left for the command to refuse.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_OPTION: Final = re.compile(r"--?[A-Za-z]")


class Untranslatable(Exception):
    """A known option has no counterpart; the message is one sentence with the line to type instead."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An option of another tool."""

    meaning: Callable[[str], Sequence[str]]
    """The own words for its value, which is empty for an option without one. Raises Untranslatable."""
    has_value: bool = True
    place: int | None = None
    """The place of the value among the arguments that have no option in front of them; None where it has one."""


Table = Mapping[str, Foreign]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of other tools for one command."""

    options: Table
    """Options of all its actions."""
    actions: Mapping[str, str] = field(default_factory=dict)
    """Actions by the options that choose them in Kafka's tools: `--list`."""
    of_actions: Mapping[str, Table] = field(default_factory=dict)
    """Options by the action, an own name."""
    prepare: Callable[[Sequence[str]], Sequence[str]] = tuple
    """Applied to the words as they are typed."""
    finish: Callable[[Sequence[str]], Sequence[str]] = tuple
    """Applied to the own words."""


# What an option may mean ----------------------------------------------------------------------------------------------


def option(own: str, value: Callable[[str], str] = str) -> Foreign:
    """An own option by another name."""
    return Foreign(lambda text: (f"{own}={value(text)}",))


def words(*own: str) -> Foreign:
    """An option without a value that means these words; without words it changes nothing."""
    return Foreign(lambda _: own, has_value=False)


def argument(place: int = 0) -> Foreign:
    """An argument that has no option in front of it here."""
    return Foreign(lambda text: (text,), place=place)


def ignored() -> Foreign:
    """An option with a value that changes nothing."""
    return Foreign(lambda _: ())


def refused(sentence: str, *, has_value: bool = True) -> Foreign:
    """An option that is known and not served: the sentence says what to type."""

    def refuse(_: str) -> Sequence[str]:
        raise Untranslatable(sentence)

    return Foreign(refuse, has_value=has_value)


# The translation ----------------------------------------------------------------------------------------------------


def translated(arguments: Sequence[str], dialect: Dialect) -> list[str]:
    """The same line in own words. Raises Untranslatable."""
    action, rest = _action(dialect.prepare(arguments), dialect)
    table = {**dialect.options, **dialect.of_actions.get(action, {})}
    own: list[str] = []
    placed: list[tuple[int, str]] = []
    left = iter(rest)
    for word in left:
        if word == "--":
            own += [word, *left]
            break
        foreign, value = _foreign(word, table)
        if foreign is None:
            own.append(word)
            continue
        if foreign.has_value and value is None:
            value = _value(word, left)
        meant = foreign.meaning(value or "")
        if foreign.place is None:
            own += meant
        else:
            placed += [(foreign.place, each) for each in meant]
    # In front: after the first options argparse would not add to a list of arguments.
    arguments_first = [each for _, each in sorted(placed, key=lambda pair: pair[0])]
    return [*([action] if action else []), *dialect.finish([*arguments_first, *own])]


def _action(arguments: Sequence[str], dialect: Dialect) -> tuple[str, list[str]]:
    """The action, and the words without it."""
    left = list(arguments)
    if not left or not left[0].startswith("-"):
        return (left[0], left[1:]) if dialect.actions and left else ("", left)
    for index, word in enumerate(left):
        if word in dialect.actions:
            return dialect.actions[word], left[:index] + left[index + 1 :]
    for index, word in enumerate(left):  # what kafka-transactions.sh and rpk allow: options in front of the action
        if word in dialect.actions.values() or word in dialect.of_actions:
            return word, left[:index] + left[index + 1 :]
    return "", left


def _foreign(word: str, table: Table) -> tuple[Foreign | None, str | None]:
    """The option that a word is, and the value that is in the same word."""
    if not _OPTION.match(word):
        return None, None
    if word in table:
        return table[word], None
    name, equals, value = word.partition("=")
    if equals and name.startswith("--") and name in table and table[name].has_value:
        return table[name], value
    short = word[:2]
    if not word.startswith("--") and short in table and table[short].has_value:  # -c5
        return table[short], word[2:]
    return None, None


def _value(name: str, left: Iterator[str]) -> str:
    for value in left:
        return value
    raise Untranslatable(f"{name} needs a value")
