"""What the commands that ask a running cluster share: where it is, how long to wait, and how the answer is shown."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from eosin.broker.cli.arguments import Parser, fail, span
from eosin.broker.cli.output import until_broken_pipe
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.protocol.errors import ErrorCode

CLIENT_ID: Final = "eosin-cli"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
TIMEOUT_S: Final = 10.0
WIDEST_COLUMN: Final = 60
"""Characters; a longer cell moves the rest of its own line only."""

_WRONGLY_ASKED: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REGULAR_EXPRESSION})
"""The broker refuses what was asked for, not that it does not exist."""

Row = Mapping[str, Any]
"""One thing found, by the names that `--json` shows."""
Question = Callable[[Client], Awaitable[Sequence[Row]]]


class NotThere(Exception):
    """What was asked for does not exist, as one sentence."""


def add_common(options: Parser) -> None:
    """The options of every such command."""
    options.add_argument(
        "--bootstrap-server",
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"any broker of the cluster ({DEFAULT_BOOTSTRAP})",
    )
    options.add_argument("--json", action="store_true", help="one JSON object per line")
    options.add_argument(
        "--timeout", type=span, default=TIMEOUT_S, metavar="SECONDS", help=f"how long to try ({TIMEOUT_S:g})"
    )


def answer(command: str, question: Question, options: Any, columns: Mapping[str, str]) -> int:
    """Ask, and print what comes back; the exit code. `columns` are the titles of the table by the rows' names."""
    try:
        client = Client(
            options.bootstrap_server,
            client_id=CLIENT_ID,
            connect_timeout_ms=_ms(options.timeout),
            request_timeout_ms=_ms(options.timeout),
            retry_timeout_ms=_ms(options.timeout),
        )
    except ValueError as error:
        return fail(command, str(error))
    try:
        rows = asyncio.run(_ask(client, question))
    except NotThere as error:
        return fail(command, str(error), code=1)
    except BrokerError as error:
        return fail(command, str(error), code=2 if error.code in _WRONGLY_ASKED else 1)
    except ClientError as error:
        return fail(command, str(error))
    lines = [msgspec.json.encode(row).decode() for row in rows] if options.json else table(rows, columns)
    return until_broken_pipe(lambda: _print(lines))


async def _ask(client: Client, question: Question) -> Sequence[Row]:
    async with client:
        await client.peer()  # an unreachable broker is reported at once, not after every retry
        return await question(client)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _print(lines: Sequence[str]) -> int:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    """A title line and one line for each row, in columns: numbers to the right, the rest to the left."""
    cells = [list(columns.values()), *([_cell(name, row[name]) for name in columns] for row in rows)]
    widths = [min(WIDEST_COLUMN, max(len(line[index]) for line in cells)) for index in range(len(columns))]
    to_the_right = [
        bool(rows) and all(isinstance(row[name], int) and not _is_time(name) for row in rows) for name in columns
    ]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
        for line in cells
    ]


def _cell(name: str, value: Any) -> str:
    if value is None or (value == -1 and not isinstance(value, bool)):
        return "-"
    if _is_time(name):
        return moment(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value) or "-"
    text = str(value)
    return text if text.isprintable() else ascii(text)  # an id must not control the terminal


def _is_time(name: str) -> bool:
    return name.endswith("timestamp") or name == "start_ms"


def moment(timestamp_ms: int) -> str:
    """A wall-clock time as people write it, in UTC. What is no time of any calendar stays a number."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
