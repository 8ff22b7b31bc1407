"""`eosin pipeline ...` finds the subcommand and runs it.

Each subcommand is a module `eosin.pipeline.cli.<name>` with `main(arguments) -> exit code`, imported on use.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Final

from eosin.pipeline.cli.interrupts import INTERRUPTED, raise_on_interrupt
from eosin.pipeline.common.errors import PipelineError

COMMANDS: Final[dict[str, str]] = {
    "run": "run a pipeline, and restart it when a batch fails",
    "progress": "show the last committed batch of a pipeline",
    "audit": "report on transactions from the segment files of a Kafka log directory",
    "verify": "compare two topics: missing, duplicate and unexpected rows",
    "example": "run an example, kill it on the way, and check the result",
}
"""Subcommands, and the help of each."""


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand; returns its exit code: 2 for wrong arguments, 1 for a failure."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name not in COMMANDS:
        print(f"eosin pipeline: no command {name!r}; the commands are {', '.join(COMMANDS)}", file=sys.stderr)
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
    lines += ["", "eosin pipeline COMMAND --help shows the options."]
    return "\n".join(lines)
