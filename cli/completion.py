"""`eosin completion SHELL`: what a shell needs to complete `eosin` commands, by argcomplete.

The shell then runs `eosin` itself, with `_ARGCOMPLETE` in its environment, for each TAB: `complete` answers it. Always
true: whatever goes wrong there completes nothing, and says nothing.
"""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from eosin.cli.common.arguments import Parser, completed_by

SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    from argcomplete.shell_integration import shellcode

    print(shellcode(["eosin"], shell=options.shell))
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin completion",
        description="Print what a shell needs to complete commands, options, topics and groups at TAB.",
        examples=[
            'eval "$(eosin completion bash)"',
            "eosin completion fish > ~/.config/fish/completions/eosin.fish",
        ],
    )
    options.add_argument("shell", choices=SHELLS)
    return options


def complete(commands: Sequence[str]) -> None:
    """Answer a shell that asks for completions, and end the process."""
    import argcomplete

    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    words = line.split(maxsplit=2)
    chosen = words[1] if len(words) > 2 or (len(words) == 2 and line[-1].isspace()) else None
    if chosen is not None and chosen in commands and chosen not in ("testing", "lab", "pipeline"):
        options: Parser = import_module(f"eosin.cli.{chosen.replace('-', '_')}").parser()
        os.environ["_ARGCOMPLETE"] = "2"  # the words begin at the command
        for action in options._actions:
            if action.dest == "subject":  # of `explain`
                completed_by("subject", action)
    else:
        options = Parser(prog="eosin")
        options.add_argument("command", choices=commands)
        options.add_argument("--version", action="store_true")
    argcomplete.autocomplete(options, always_complete_options="long")
