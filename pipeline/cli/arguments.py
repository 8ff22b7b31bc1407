"""What the subcommands share: a parser whose complaints are one sentence, and how a subcommand ends."""

import argparse
import re
import sys
from collections.abc import Callable
from typing import Final, NoReturn

_TIME: Final = re.compile(r"(\d+\s*(ms|s|m|h|(millisecond|second|minute|hour|day)s?)\s*)+")


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence on stderr and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage around it."""
        self.exit(2, f"{self.prog}: {message}\n")


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option that is a count."""

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
    """The type of an option that says when batches come: `available-now`, or a time as Spark reads it."""
    if text != "available-now" and not _TIME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be available-now or a time as 2s or 500ms, not {text!r}")
    return text


def fail(command: str, sentence: str, *, code: int = 2) -> int:
    """Say on stderr why the subcommand ends; returns its exit code."""
    print(f"eosin pipeline {command}: {sentence}", file=sys.stderr)
    return code
