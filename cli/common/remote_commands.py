"""Shared by the commands that ask a running cluster: its address, the timeout, and the output of the answer."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from eosin.cli.common.arguments import Parser, fail, span
from eosin.cli.common.output import until_broken_pipe
from eosin.cli.common.security_options import add_security, security_of
from eosin.cli.common.suggestions import did_you_mean, nearest
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.protocol.errors import ErrorCode

CLIENT_ID: Final = "eosin-cli"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "EOSIN_BOOTSTRAP_SERVER"
SECURITY_VARIABLE: Final = "EOSIN_COMMAND_CONFIG"
TIMEOUT_S: Final = 10.0
WIDEST_COLUMN: Final = 60
"""Characters; a longer cell moves the rest of its own line only."""

_WRONGLY_ASKED: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REGULAR_EXPRESSION})
"""The broker refuses what was asked for, not that it does not exist."""

Row = Mapping[str, Any]
"""One thing found, by the names that `--json` shows."""
Question = Callable[[Client], Awaitable[Sequence[Row]]]


class NotThere(Exception):
    """The thing that was asked for does not exist; the message is one sentence."""

    def __init__(self, sentence: str, *, kind: str = "", name: str = "") -> None:
        """`kind` is topic, group or transactional id: for one of these a name that is there is offered."""
        super().__init__(sentence)
        self.kind: Final = kind
        self.name: Final = name


def no_such(kind: str, name: str, *, hint: str = "") -> NotThere:
    """The error that there is no topic, group or transactional id of that name."""
    return NotThere(f"there is no {kind} {name!r}{hint}", kind=kind, name=name)


def add_common(options: Parser) -> None:
    """The options of every command that shows what it finds."""
    add_connection(options)
    options.add_argument("--json", action="store_true", help="one JSON object per line")


def add_connection(options: Parser) -> None:
    """The options of every command that asks a cluster."""
    options.add_argument(
        "--bootstrap-server",
        default=os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"any broker of the cluster (${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP})",
    )
    options.add_argument(
        "--timeout", type=span, default=TIMEOUT_S, metavar="SECONDS", help=f"how long to try ({TIMEOUT_S:g})"
    )
    add_security(options, variable=SECURITY_VARIABLE)


def print_rows(
    command: str, question: Question, options: Any, columns: Mapping[str, str], *, without: str | None = None
) -> int:
    """Ask, and print what comes back; the exit code. `columns` are the titles of the table by the rows' names;
    `without` is the line for people where nothing comes back, instead of titles alone."""

    async def lines(client: Client) -> Sequence[str]:
        rows = await question(client)
        return [without] if without is not None and not rows and not options.json else shown(rows, columns, options)

    return print_lines(command, lines, options)


def print_lines(command: str, question: Callable[[Client], Awaitable[Sequence[str]]], options: Any) -> int:
    """Ask, and print the lines that come back; the exit code."""
    lines: Sequence[str] = ()

    async def work(client: Client) -> int:
        nonlocal lines
        lines = await question(client)
        return 0

    code = attempt(command, work, options)
    return code or show(lines)


def show(lines: Sequence[str]) -> int:
    """Print lines; the exit code."""
    return until_broken_pipe(lambda: _print(lines))


def shown(rows: Sequence[Row], columns: Mapping[str, str], options: Any) -> list[str]:
    """Rows as lines: a table, or with `--json` one object each."""
    return [msgspec.json.encode(row).decode() for row in rows] if options.json else table(rows, columns)


def attempt(command: str, work: Callable[[Client], Awaitable[int]], options: Any) -> int:
    """Do something with a cluster; the exit code, and one sentence on stderr about what went wrong."""
    try:
        client = Client(
            options.bootstrap_server,
            client_id=CLIENT_ID,
            connect_timeout_ms=_ms(options.timeout),
            request_timeout_ms=_ms(options.timeout),
            retry_timeout_ms=_ms(options.timeout),
            security=security_of(options),
        )
    except ValueError as error:
        return fail(command, str(error))
    try:
        return asyncio.run(_within(client, work))
    except NotThere as error:
        return fail(command, str(error), code=1)
    except BrokerError as error:
        return fail(command, str(error), code=2 if error.code in _WRONGLY_ASKED else 1)
    except ClientError as error:
        return fail(command, str(error))


async def _within(client: Client, work: Callable[[Client], Awaitable[int]]) -> int:
    async with client:
        await client.peer()  # an unreachable broker is reported at once, not after every retry
        try:
            return await work(client)
        except NotThere as error:
            if not error.kind:
                raise
            raise NotThere(f"{error}{did_you_mean(await nearest_name(client, error.kind, error.name))}") from None


async def nearest_name(client: Client, kind: str, absent: str) -> str | None:
    """The name of a thing of that kind that may have been meant; None if the cluster has none like it, or does not
    say."""
    from eosin.cli.common.cluster_names import names_of

    try:
        there = await names_of(kind, client)
    except ClientError:
        return None
    return None if absent in there else nearest(absent, there)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _print(lines: Sequence[str]) -> int:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def table(rows: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    """A title line and one line for each row, in columns: numbers to the right, the rest to the left."""
    cells = [list(columns.values()), *([_cell(name, row[name]) for name in columns] for row in rows)]
    widths = [min(WIDEST_COLUMN, max(len(line[index]) for line in cells)) for index in range(len(columns))]
    to_the_right = [_is_number(name, [row[name] for row in rows]) for name in columns]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
        for line in cells
    ]


def _is_number(name: str, values: Sequence[Any]) -> bool:
    """True if a column holds numbers, or nothing here and there."""
    numbers = [value for value in values if value is not None]
    return bool(numbers) and not _is_time(name) and all(isinstance(value, int) for value in numbers)


def _cell(name: str, value: Any) -> str:
    if value is None or (value == -1 and not isinstance(value, bool)):
        return "-"
    if _is_time(name):
        return moment(value)
    if name.endswith("_ms") and isinstance(value, int):
        from eosin.observe.recorder.wording import duration  # few tables have one, and each command starts anew

        return duration(value)
    if isinstance(value, Mapping):
        value = [f"{key}={each}" for key, each in value.items()]
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
