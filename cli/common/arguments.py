"""Shared by all commands: a parser whose complaints are one sentence, and the end of a command."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from eosin.cli.common.suggestions import did_you_mean, nearest

_EXAMPLES: Final = "examples:"
_LONGEST: Final = 1e9
"""Of seconds or minutes: what is longer is infinite, or a slip."""

_NAMES: Final = "names have up to 249 letters, digits, dots, underscores and dashes"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WITH_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]{1,249}):([0-9,]+)")
_MEANT: Final = {
    "ls": "list",
    "show": "describe",
    "info": "describe",
    "get": "describe",
    "desc": "describe",
    "make": "create",
    "new": "create",
    "rm": "delete",
    "drop": "delete",
    "seek": "reset-offsets",
    "reset": "reset-offsets",
    "offset-delete": "delete-offsets",
    "add-partitions": "alter",
    "alter-config": "alter",
    "trim-prefix": "delete-records",
    "hanging": "find-hanging",
    "end": "force-terminate",
    "kill": "force-terminate",
}
"""Actions by what other tools, or people, call them."""
_ELSEWHERE: Final = {
    "consume": "eosin consume",
    "produce": "eosin produce",
    "users": "eosin users",
    "health": "eosin health",
    "describe-producers": "eosin producers",
    "seek": "eosin groups reset-offsets",
}
"""Commands that are actions in other tools."""


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps all text except the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence on stderr and exits with code 2."""

    def __init__(self, *positional: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        """`examples` are command lines that `--help` ends with."""
        if examples:
            settings["formatter_class"] = _HelpFormatter
            settings["epilog"] = "\n".join([_EXAMPLES, *(f"  {line}" for line in examples)])
        super().__init__(*positional, **settings)
        self.examples: Final = tuple(examples)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all of it; what is left over is the complaint of the action that it was typed for."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            self._chosen(found)._refuse_rest(left)
        return found

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage around it."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help)\n")

    def _chosen(self, found: argparse.Namespace) -> "Parser":
        """The parser of the action that was chosen; of a command without actions itself."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen: Parser = action.choices.get(getattr(found, action.dest, ""), self)
                return chosen
        return self

    def _refuse_rest(self, left: Sequence[str]) -> NoReturn:
        meant = None
        if left[0].startswith("--"):
            name = left[0].partition("=")[0]
            there = [each for each, action in self._option_string_actions.items() if action.help != argparse.SUPPRESS]
            meant = nearest(name, [each for each in there if each.startswith("--")])
        self.error(f"unrecognized arguments: {' '.join(left)}{did_you_mean(meant)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Complain of an action that there is not, with the line that may be meant."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            meant = nearest(str(value), action.choices, synonyms=_MEANT)
            if meant in action.choices:
                self.error(f"no action {value!r}{did_you_mean(f'{self.prog} {meant}')}")
            if value in _ELSEWHERE:
                self.error(f"no action {value!r}{did_you_mean(_ELSEWHERE[value])}")
            self.error(f"no action {value!r}; there are {', '.join(action.choices)}")
        super()._check_value(action, value)

    def print_help(self, file: Any = None) -> None:
        """Print it: unlike argparse, not without a word where that fails."""
        (file or sys.stdout).write(self.format_help())


def completed_by(kind: str, action: argparse.Action) -> None:
    """At TAB, a shell completes this argument by the names that the cluster has: of a `topic`, `group` or
    `transactional id`, or of a `subject`, which is any of them."""

    def completer(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        from eosin.cli.common import cluster_names

        return [name for name in cluster_names.names(kind, parsed_args) if name.startswith(prefix)]

    setattr(action, "completer", completer)  # noqa: B010 - it is argcomplete's attribute, which argparse does not have


def span(text: str) -> float:
    """The type of an option that says how long, in whatever unit: more than nothing, and finite."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _LONGEST:  # nor is it so when it is no number
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def count(text: str) -> int:
    """The type of an option that says how many: 1 or more."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"must be an integer above 0, not {text!r}")
    return int(text)


def partition_number(text: str) -> int:
    """The type of an option that names one partition of a topic."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"must be the number of a partition, not {text!r}")
    return int(text)


def topic_name(text: str) -> str:
    """The type of an argument that names a topic."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        hint = "a format stands behind --format" if "%" in text else _NAMES
        raise argparse.ArgumentTypeError(f"{_no_topic(text)}: {hint}")
    return text


def topic_without_partitions(text: str) -> str:
    """The same, where partitions are named by an option: `orders:0` is refused with the line to type."""
    with_partition = _WITH_PARTITION.fullmatch(text)
    if with_partition:
        name, numbers = with_partition.groups()
        options = " ".join(f"--partition {each}" for each in numbers.split(",") if each)
        raise argparse.ArgumentTypeError(f"{_no_topic(text)}: partitions have an option, {name} {options}")
    return topic_name(text)


def _no_topic(text: str) -> str:
    return f"{text!r} can be no topic"


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """The type of an option that names a topic, or some of its partitions; none means all."""
    name, colon, numbers = text.partition(":")
    if not name or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"must be TOPIC or TOPIC:N,N, not {text!r}")
    topic_name(name)
    return name, tuple(partition_number(number) for number in numbers.split(",")) if numbers else ()


def setting(text: str) -> tuple[str, str]:
    """The type of an option that sets something: NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def fail(command: str, sentence: str, *, code: int = 2) -> int:
    """Say on stderr why the command ends; returns its exit code."""
    print(f"eosin {command}: {sentence}", file=sys.stderr)
    return code
