"""Times, durations and clients in words. Pure."""

import shlex
from datetime import UTC, datetime
from typing import Final

from eosin.observe.recorder.events import ClientIdentity

LONGEST_SENTENCE: Final = 240
_LONGEST_NAME: Final = 48
_DAY_MS: Final = 86_400_000


def moment(at_ms: int, now_ms: int) -> str:
    """A time in UTC; with its date unless that is today's."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        is_today = at.date() == datetime.fromtimestamp(now_ms / 1000, UTC).date()
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    clock = at.strftime("%H:%M:%S") + f".{at.microsecond // 1000:03d}"
    return clock if is_today else f"{at:%Y-%m-%d} {clock}"


def duration(ms: float) -> str:
    """A length of time, rounded to what matters."""
    seconds = max(0.0, ms) / 1000
    if seconds < 1:
        return f"{round(max(0.0, ms))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 600:
        return f"{round(seconds)} s"
    if seconds < 7200:
        return f"{round(seconds / 60)} min"
    if seconds < 2 * 86_400:
        return f"{round(seconds / 3600)} h"
    return f"{round(seconds / 86_400)} days"


def number(count: int) -> str:
    """A count with separators."""
    return f"{count:,}"


def name(text: str) -> str:
    """A name that a client has chosen: printable and not too long."""
    safe = text if text.isprintable() else ascii(text)[1:-1]
    return safe if len(safe) <= _LONGEST_NAME else safe[: _LONGEST_NAME - 3] + "..."


def typed(text: str) -> str:
    """A name as it is typed in a shell: whole, in quotes where it needs them."""
    return shlex.quote(text if text.isprintable() else ascii(text)[1:-1])


def client(who: ClientIdentity | None) -> str:
    """A client: `orders-1 (apache-kafka-java 4.3.1) at 10.0.0.7:51122`; empty when that is not known."""
    if who is None:
        return ""
    # confluent-kafka's version is `2.16.1-rdkafka-2.16.0`.
    software = " ".join(name(part) for part in (who.software, who.version.partition("-")[0]) if part)
    called = name(who.client_id) if who.client_id else ""
    both = f"{called} ({software})" if called and software else called or software or "a client"
    return f"{both} at {who.peer}" if who.peer and who.peer != "?" else both


def plural(count: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def clipped(sentence: str) -> str:
    """`sentence`, cut where it is longer than any may be."""
    return sentence if len(sentence) <= LONGEST_SENTENCE else sentence[: LONGEST_SENTENCE - 4].rstrip(" ,;") + " ..."
