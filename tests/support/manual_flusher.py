"""A flusher without threads: it syncs when a test says so."""

from collections.abc import Sequence

from eosin.storage.disk.flusher import Flush, Flushable
from eosin.storage.disk.interfaces import Buffer


class ManualFlusher:
    """`Flusher` by hand."""

    defers = True

    def __init__(self) -> None:
        self.dirty: dict[Flushable, None] = {}
        self._begun: list[tuple[Flushable, Flush]] = []

    @property
    def backlog_bytes(self) -> int:
        return sum(log.unflushed_bytes for log in self.dirty)

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        log.unflushed_bytes += size
        self.dirty[log] = None

    def synced(self, log: Flushable, end_offset: int) -> None:
        pass

    def forget(self, log: Flushable) -> None:
        pass

    async def settle(self, log: Flushable) -> None:
        self.flush()

    def begin(self) -> None:
        """Begin a flush of every log that has something to flush."""
        dirty, self.dirty = self.dirty, {}
        for log in dirty:
            log.unflushed_bytes = 0
            self._begun.append((log, log.begin_flush()))

    def end(self) -> None:
        """Carry out the flushes that have begun."""
        begun, self._begun = self._begun, []
        for log, flush in begun:
            error: OSError | None = None
            try:
                flush.run()
            except OSError as raised:
                error = raised
            flush.release()
            log.end_flush(flush.end_offset, error)

    def flush(self) -> None:
        """Make everything appended so far durable."""
        self.begin()
        self.end()

    async def close(self) -> None:
        while self.dirty or self._begun:
            self.flush()
