"""Shared by all commands: a parser whose complaints are one sentence, and the end of a command."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

_EXAMPLES: Final = "examples:"
_LONGEST: Final = 1e9
"""Of seconds or minutes: what is longer is infinite, or a slip."""


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

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage around it."""
        self.exit(2, f"{self.prog}: {message}\n")

    def print_help(self, file: Any = None) -> None:
        """Print it: unlike argparse, not without a word where that fails."""
        (file or sys.stdout).write(self.format_help())


def completed_by(kind: str, action: argparse.Action) -> None:
    """At TAB, a shell completes this argument by the names that the cluster has: of a `topic`, `group` or
    `transactional id`."""

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


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """The type of an option that names a topic, or some of its partitions; none means all."""
    name, colon, numbers = text.partition(":")
    if not name or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"must be TOPIC or TOPIC:N,N, not {text!r}")
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
