"""`ImmediateFlusher`: the flusher of durability `os` and `memory`, by which a write is as durable as it gets once it
returns.

Apart from `ThreadFlusher`, from which others derive, because it is compiled (setup.py): each append goes through it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.storage.disk.interfaces import Buffer

if TYPE_CHECKING:
    from eosin.storage.disk.flusher import Flushable


class ImmediateFlusher:
    """Never syncs (`Flusher`)."""

    backlog_bytes: Final = 0
    defers: Final = False

    def appended(
        self,
        log: "Flushable",
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        """Report it durable at once."""
        log.advance(log.log_end_offset)

    async def settle(self, log: "Flushable") -> None:
        """There is never a flush."""

    def synced(self, log: "Flushable", end_offset: int) -> None:
        """No caller waits for that."""

    def forget(self, log: "Flushable") -> None:
        """There is nothing to forget."""

    async def close(self) -> None:
        """Nothing runs."""
