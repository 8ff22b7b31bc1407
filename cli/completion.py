"""`eosin completion SHELL`: what a shell needs to complete `eosin` commands, by argcomplete.

The shell then runs `eosin` itself, with `_ARGCOMPLETE` in its environment, for each TAB: `complete` answers it. Always
true: whatever goes wrong there completes nothing, and says nothing.
"""

import asyncio
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from eosin.cli.arguments import Parser
from eosin.cli.remote_commands import CLIENT_ID
from eosin.cli.security_options import security_of
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.groups import GroupAdmin
from eosin.client.transactions import TransactionAdmin

SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")
_TIMEOUT_MS: Final = 1000
"""A person waits for this."""


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
    if chosen is not None and chosen in commands and chosen != "pipeline":
        options: Parser = import_module(f"eosin.cli.{chosen.replace('-', '_')}").parser()
        os.environ["_ARGCOMPLETE"] = "2"  # the words begin at the command
    else:
        options = Parser(prog="eosin")
        options.add_argument("command", choices=commands)
        options.add_argument("--version", action="store_true")
    argcomplete.autocomplete(options, always_complete_options="long")


def names(kind: str, options: Namespace) -> list[str]:
    """The names that the cluster of these options has for things of a kind; none when it does not say so at once."""
    try:
        client = Client(
            options.bootstrap_server,
            client_id=CLIENT_ID,
            connect_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=_TIMEOUT_MS,
            retry_timeout_ms=_TIMEOUT_MS,
            security=security_of(options),
        )
        return asyncio.run(_ask(client, _NAMES[kind]))
    except (ClientError, ValueError, OSError, AttributeError):
        return []


async def _ask(client: Client, question: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    async with client:
        await client.peer()
        return await question(client)


async def _topics(client: Client) -> list[str]:
    return sorted((await Admin(client).topics()).topics)


async def _groups(client: Client) -> list[str]:
    return [each.group_id for each in await GroupAdmin(client).list_groups()]


async def _transactional_ids(client: Client) -> list[str]:
    return [each.transactional_id for each in await TransactionAdmin(client).list_transactions()]


_NAMES: Final[Mapping[str, Callable[[Client], Awaitable[list[str]]]]] = {
    "topic": _topics,
    "group": _groups,
    "transactional id": _transactional_ids,
}
