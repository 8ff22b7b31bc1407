"""`eosin pipeline ...`: finds the subcommand and runs it.

Each subcommand is a module `eosin.pipeline.cli.<name>` with `main(arguments) -> exit code`, imported when asked for.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Final

from eosin.pipeline.cli.interrupts import INTERRUPTED, raise_on_interrupt
from eosin.pipeline.common.errors import PipelineError

COMMANDS: Final[dict[str, str]] = {
    "run": "run a pipeline, and start it again when a batch fails",
    "progress": "show how far a pipeline has come",
    "audit": "tell what transactions did, by the segment files of a Kafka log directory",
    "verify": "compare two topics: what is missing, there twice or from nowhere",
    "example": "run an example from beginning to end, kill it on the way, and check the result",
}
"""Subcommands, and what each does."""


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand; returns its exit code. 2 is for what the caller wrote, 1 for what went wrong."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name not in COMMANDS:
        print(f"eosin pipeline: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    raise_on_interrupt()
    try:
        code: int = importlib.import_module(f"eosin.pipeline.cli.{name}").main(arguments[1:])
        return code
    except PipelineError as error:
        print(f"eosin pipeline {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _usage() -> str:
    lines = ["usage: eosin pipeline COMMAND [OPTION...]", ""]
    lines += [f"  {name:<10} {what}" for name, what in COMMANDS.items()]
    lines += ["", "eosin pipeline COMMAND --help tells more."]
    return "\n".join(lines)
