"""`MetricsExposition`: the answer of `/metrics`, and its text, as Prometheus reads it: its own format and
OpenMetrics 1.0 (console.md 4.2).

Always true: scrapes that come together share one answer, which is at most `KEPT_MS` old; a client chooses between two
formats and adds nothing to what is kept. The text is written in the event loop and in pieces, with turns of everybody
else in between. A thread would not help: it would hold the interpreter for longer at once than a piece takes.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.registry import CollectorRegistry

from eosin.observe.metrics.collector import Collector
from eosin.observe.metrics.families import COUNTER, Family, single
from eosin.observe.survey.slices import in_slices
from eosin.runtime.clock import Clock, stopwatch_ns

KEPT_MS: Final = 1000
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN: Final = CONTENT_TYPE_PLAIN_0_0_4
LINE: Final = 4
"""Units of work that a line is."""
PARTS: Final = 10
"""Parts, of up to a slice of lines each, that are sent at once."""


class MetricsExposition:
    """All metrics of one broker."""

    def __init__(self, collector: Collector, clock: Clock) -> None:
        self._clock = clock
        self._collector = collector
        self._kept: dict[str, tuple[int, asyncio.Task[list[bytes]]]] = {}
        """By content type: when it was read, and the answer."""
        self._took_ns = 0

    def forget(self) -> None:
        """Let the next scrape read anew."""
        self._kept.clear()

    async def expose(self, accept: str) -> tuple[list[bytes], str]:
        """The text of all metrics, in pieces, in a format that `accept` allows, and its content type."""
        now_ms = self._clock.elapsed_ms()
        kind = content_type(accept)
        kept = self._kept.get(kind)
        if kept is None or now_ms - kept[0] >= KEPT_MS:
            writing = asyncio.get_running_loop().create_task(self._write(kind))
            kept = self._kept[kind] = now_ms, writing
        return await asyncio.shield(kept[1]), kind

    async def _write(self, kind: str) -> list[bytes]:
        began_ns = stopwatch_ns()
        found = await write([*await self._collector.families(), self._duration()], kind)
        self._took_ns = stopwatch_ns() - began_ns
        return found

    def _duration(self) -> Family:
        text = "How long the scrape before this one took, turns of everybody else included; 0 for the first."
        return single("eosin_scrape_seconds", text, self._took_ns / 1e9)


def content_type(accept: str) -> str:
    """The one of the two formats that a client gets which accepts `accept`."""
    return OPENMETRICS if choose_encoder(accept)[1].startswith("application/openmetrics-text") else PLAIN


async def write(families: Iterable[Family], kind: str) -> list[bytes]:
    """The text of `families` and of the process itself, of content type `kind`, in pieces."""
    is_open = kind == OPENMETRICS
    parts: list[bytes] = []
    for family in families:
        name = family.name
        told = name.removesuffix("_total") if is_open and family.kind == COUNTER else name
        parts.append(f"# HELP {told} {_help(family.text)}\n# TYPE {told} {family.kind}\n".encode())
        numbers, first = family.numbers, 0
        async for keys in in_slices(family.keys, LINE):
            some = zip(keys, numbers[first : first + len(keys)], strict=True)
            parts.append("".join([f"{name}{key} {number + 0}\n" for key, number in some]).encode())
            first += len(keys)
    parts.append(_process(is_open=is_open))
    return [b"".join(parts[first : first + PARTS]) for first in range(0, len(parts), PARTS)]


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', "'")


def _process(*, is_open: bool) -> bytes:
    """The figures of the operating system about this process, as the library writes them."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    encode, _ = choose_encoder(OPENMETRICS if is_open else "")
    return encode(registry)
