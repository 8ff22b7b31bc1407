"""Positions to read from: the ends of a partition, an offset, the last records, or a time.

Always true: what is asked for is moved into the partition, so that reading begins somewhere.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final, NamedTuple

from eosin.client.client import Client
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.protocol.names import IsolationLevel, TopicPartition

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OFFSET: Final = re.compile(r"-?\d{1,18}")


class StartKind(Enum):
    """The meaning of a `Start` and of its number."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    LAST = auto()
    """So many offsets before the end."""
    SINCE = auto()
    """ms since the epoch."""
    AGO = auto()
    """ms."""
    SHIFT = auto()
    """From where a group is; no `start` means it."""


class Start(NamedTuple):
    """A place in every partition."""

    kind: StartKind
    number: int = 0


def start(text: str) -> Start:
    """The type of an option that says where to begin."""
    if text in ("earliest", "latest"):
        return Start(StartKind[text.upper()])
    if _OFFSET.fullmatch(text):
        return Start(StartKind.LAST, -int(text)) if text.startswith("-") else Start(StartKind.OFFSET, int(text))
    if ago := _AGO.fullmatch(text):
        return Start(StartKind.AGO, round(float(ago[1]) * _UNITS_MS[ago[2]]))
    try:
        return Start(StartKind.SINCE, timestamp_ms(text))
    except ValueError:
        raise ArgumentTypeError(
            "must be earliest, latest, an offset, -N for the last N offsets, a time such as 2026-01-31T08:00 or 15m ago"
            f" (15m), not {text!r}"
        ) from None


def timestamp_ms(text: str) -> int:
    """A date or a time of ISO 8601 in ms since the epoch; UTC where it does not say. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)
    if since < 0:
        raise ValueError("before 1970")
    return round(since)


async def offsets_of(
    client: Client, begin: Start, partitions: Iterable[TopicPartition], *, isolation: IsolationLevel, now_ms: int
) -> dict[TopicPartition, int]:
    """The offset in each partition that `begin` means. Raises a ClientError."""
    wanted = list(partitions)
    starts = await list_offsets(client, dict.fromkeys(wanted, EARLIEST))
    if begin.kind is StartKind.EARLIEST:
        return starts
    ends = await list_offsets(client, dict.fromkeys(wanted, LATEST), isolation=isolation)
    if begin.kind is StartKind.LATEST:
        return ends
    if begin.kind in (StartKind.SINCE, StartKind.AGO):
        timestamp = begin.number if begin.kind is StartKind.SINCE else max(0, now_ms - begin.number)
        found = await list_offsets(client, dict.fromkeys(wanted, timestamp), isolation=isolation)
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}
    asked = {each: ends[each] - begin.number if begin.kind is StartKind.LAST else begin.number for each in wanted}
    return {each: min(max(offset, starts[each]), ends[each]) for each, offset in asked.items()}
