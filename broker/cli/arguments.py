"""What the commands share: a parser whose complaints are one sentence, and how a command ends."""

import argparse
import sys
from typing import Final, NoReturn

_LONGEST: Final = 1e9
"""Of seconds or minutes: what is longer is infinite, or a slip."""


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence on stderr and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage around it."""
        self.exit(2, f"{self.prog}: {message}\n")


def span(text: str) -> float:
    """The type of an option that says how long, in whatever unit: more than nothing, and finite."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _LONGEST:  # nor is it so when it is no number
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def fail(command: str, sentence: str, *, code: int = 2) -> int:
    """Say on stderr why the command ends; returns its exit code."""
    print(f"eosin {command}: {sentence}", file=sys.stderr)
    return code
