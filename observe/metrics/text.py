"""The text of metrics, as Prometheus reads it: its own format and OpenMetrics 1.0 (console.md 4.2).

Always true: it is written in the event loop and in pieces, with turns of everybody else in between. A thread would not
help: it would hold the interpreter for longer at once than a piece takes.
"""

from collections.abc import Iterable
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.registry import CollectorRegistry

from eosin.observe.metrics.families import COUNTER, Family
from eosin.observe.metrics.slices import PIECE, Pace
from eosin.runtime.clock import Clock

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN: Final = CONTENT_TYPE_PLAIN_0_0_4
PARTS: Final = 10
"""Parts, of up to `PIECE` lines each, that are sent at once."""


def content_type(accept: str) -> str:
    """The content type, of the two formats, for a client that accepts `accept`."""
    return OPENMETRICS if choose_encoder(accept)[1].startswith("application/openmetrics-text") else PLAIN


async def write(families: Iterable[Family], kind: str, clock: Clock) -> list[bytes]:
    """The text of `families` and of the process itself, of content type `kind`, in pieces."""
    is_open = kind == OPENMETRICS
    pace = Pace(clock)
    parts: list[bytes] = []
    for family in families:
        name = family.name
        told = name.removesuffix("_total") if is_open and family.kind == COUNTER else name
        parts.append(f"# HELP {told} {_help(family.text)}\n# TYPE {told} {family.kind}\n".encode())
        keys, numbers = family.keys, family.numbers
        for first in range(0, len(keys), PIECE):
            some = zip(keys[first : first + PIECE], numbers[first : first + PIECE], strict=True)
            parts.append("".join([f"{name}{key} {number + 0}\n" for key, number in some]).encode())
            await pace.keep()
    parts.append(_process(is_open=is_open))
    return [b"".join(parts[first : first + PARTS]) for first in range(0, len(parts), PARTS)]


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', "'")


def _process(*, is_open: bool) -> bytes:
    """The operating system's figures about this process, as the library writes them."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    encode, _ = choose_encoder(OPENMETRICS if is_open else "")
    return encode(registry)
