"""`OffsetConfirmations`: what shows a group coordinator that it is one still (cluster.md 6.10).

One that was deposed without hearing of it, because the controllers do not reach it, would tell its clients the offsets
that it remembers, and not those that were committed at its successor since. What it writes is committed no more. So
whoever must not be told anything old waits for a record that means nothing: a tombstone of an offset that no group can
have. Always true: whoever waits is called once, with NONE only if that record was appended after it had asked, and is
committed.
"""

from typing import Final

from eosin.coordinator.groups.log.records import batch, offset_tombstone
from eosin.coordinator.groups.log.writer import NO_OFFSET, LogWriter, Settled
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock

RECORD: Final = offset_tombstone("", TopicPartition("", 0))
"""It changes nothing for whoever reads it, Apache Kafka included, and compaction takes it."""


class OffsetConfirmations:
    """The confirmations of one partition. All requests of one turn of the event loop share one record."""

    def __init__(self, *, writer: LogWriter, clock: Clock, config: GroupConfig) -> None:
        self._writer = writer
        self._clock = clock
        self._config = config
        self._waiting: list[Settled] = []

    def confirm(self, settled: Settled) -> None:
        """Write a record soon, and settle with it."""
        if not self._waiting:
            self._clock.call_soon(self._write)
        self._waiting.append(settled)

    def close(self, error: ErrorCode) -> None:
        """Write nothing more: settle with `error`."""
        self._settle(self._drain(), error, NO_OFFSET)

    def _drain(self) -> list[Settled]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _write(self) -> None:
        waiting = self._drain()
        if not waiting:
            return  # closed
        now_ms = self._clock.now_ms()
        self._writer.write(
            batch([RECORD], self._config, now_ms=now_ms),
            now_ms=now_ms,
            settled=lambda error, base_offset: self._settle(waiting, error, base_offset),
        )

    @staticmethod
    def _settle(waiting: list[Settled], error: ErrorCode, base_offset: int) -> None:
        for settled in waiting:
            settled(error, base_offset)
