"""`Loading`: the coordinators read their logs. Short loading ends before the broker listens; long loading goes on while
requests come in, which get COORDINATOR_LOAD_IN_PROGRESS (transactions.md 8.2, groups.md 13)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from eosin.runtime.background import Background, Work
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.broker.services import Services

log = logging.getLogger(__name__)

LOAD_BEFORE_LISTENING_MS: Final = 500
"""The time after which the broker listens although the coordinators still read their logs."""


class Loading:
    """One broker's. Before it begins it is not done."""

    def __init__(self, services: "Services", then: Iterable[Callable[[], None]]) -> None:
        """`then` are called at its end."""
        self._services = services
        self._then = then
        self._task: asyncio.Task[None] | None = None
        self.is_done = False

    async def begin(self, background: Background) -> None:
        """Load, and return when that has ended or has taken `LOAD_BEFORE_LISTENING_MS`."""
        task = self._task = asyncio.get_running_loop().create_task(self._load())
        task.add_done_callback(self._ended)
        await asyncio.wait((task,), timeout=LOAD_BEFORE_LISTENING_MS / 1000)
        if task.done():
            task.result()
        else:
            background.once("loading the coordinators", lambda: task)

    async def _load(self) -> None:
        services = self._services
        started_ms = services.clock.now_ms()
        await services.groups.load()
        services.groups.keep_topics(services.cluster.topics)
        await services.transactions.load()
        services.transactions.start()
        log.info("the coordinators are loaded", extra=fields(took_ms=services.clock.now_ms() - started_ms))

    def _ended(self, _: "asyncio.Task[None]") -> None:
        self.is_done = True
        for each in self._then:
            each()

    async def ended(self) -> None:
        """Wait until it is done, or given up."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def unless_loading(self, run: Work) -> Awaitable[object] | object:
        """Do some work, but not while the coordinators read their logs: they share the one event loop."""
        return run() if self.is_done else None

    async def stop(self) -> None:
        """Give it up if it is not done."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
