"""What the subcommands share: a parser whose complaints are one sentence, and how a subcommand ends."""

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence on stderr and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Exit with the complaint, without the usage around it."""
        self.exit(2, f"{self.prog}: {message}\n")


def fail(command: str, sentence: str, *, code: int = 2) -> int:
    """Say on stderr why the subcommand ends; returns its exit code."""
    print(f"eosin pipeline {command}: {sentence}", file=sys.stderr)
    return code
