"""Shared by the subcommands: a parser that complains in one sentence, types of options, and the exit of a failure."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from eosin.pipeline.common.errors import ConflictingSettings

_TIME: Final = re.compile(r"(\d+\s*(ms|s|m|h|(millisecond|second|minute|hour|day)s?)\s*)+")


class PipelineParser(argparse.ArgumentParser):
    """An argument parser that complains in one sentence on stderr and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage text."""
        self.exit(2, f"{self.prog}: {message}\n")


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option that is a number from `least` on."""

    def count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"must be a number from {least} on, not {text!r}")
        return number

    return count


def trigger(text: str) -> str:
    """The type of `--trigger`: `available-now`, or a time as Spark reads it."""
    if text == "real-time":
        raise argparse.ArgumentTypeError(
            "has no real-time, as this command reports and restarts by batches: start such a query in a program, by"
            ' TxnSink(...).start(frame, trigger="real-time") (docs/pipelines/real-time.md)'
        )
    if text != "available-now" and not _TIME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be available-now or a time as 2s or 500ms, not {text!r}")
    return text


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """The values of a repeated option NAME=VALUE. Raises ConflictingSettings for any other text."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (equals and name):
            raise ConflictingSettings(f"{option} takes NAME=VALUE, and not {each!r}")
        found[name] = value
    return found


def fail(command: str, sentence: str, *, code: int = 2) -> int:
    """Print the reason for a failure on stderr; returns the exit code."""
    print(f"eosin pipeline {command}: {sentence}", file=sys.stderr)
    return code
