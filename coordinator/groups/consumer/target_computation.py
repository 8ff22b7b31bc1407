"""`TargetComputations`: computes the targets of large groups beside their decisions (consumer-groups.md 6).

A target of 10,000 members takes a tenth of a second, and as long again to write. So it takes many turns of the event
loop, on the group as it was when it began, and none in that of the decision: many groups may lose members at once.
Always true: at most one target of a group is being computed; its parts are kept in their order, none after one that the
log did not take. One that has failed is not computed again for a while,
since every heartbeat asks for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Final, Generic, TypeVar

from eosin.coordinator.steps import InSteps
from eosin.runtime.clock import Clock
from eosin.runtime.turns import next_turn, outcome_in_turns

RETRY_MS: Final = 1_000
"""After a target that could not be computed, or written."""
_LOG: Final = logging.getLogger("eosin.coordinator.groups")
_Part = TypeVar("_Part")
"""A part of a target, which is an event of its group."""


class TargetComputations(Generic[_Part]):
    """The targets that are being computed."""

    def __init__(self, *, clock: Clock, keep: Callable[[str, _Part], bool]) -> None:
        """`keep` takes each part of a group's target; False if the log has refused it."""
        self._clock = clock
        self._keep = keep
        self._running: dict[str, asyncio.Task[None]] = {}

    def runs(self, group_id: str) -> bool:
        """True while a target of the group is being computed, or written, or has just failed."""
        return group_id in self._running

    def begin(self, group_id: str, target: InSteps[Iterator[_Part]]) -> None:
        """Compute the target of a group as it is now."""
        self._start(group_id, self._compute(group_id, target))

    def cancel(self, group_id: str) -> None:
        """The group is no longer the one that it was: keep nothing more of its target."""
        task = self._running.pop(group_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Compute nothing any more."""
        for group_id in list(self._running):
            self.cancel(group_id)

    def _start(self, group_id: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running[group_id] = task
        task.add_done_callback(lambda _: self._ended(group_id, task))

    def _ended(self, group_id: str, task: "asyncio.Task[None]") -> None:
        if self._running.get(group_id) is task:
            del self._running[group_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the target of the group %.256r could not be computed", group_id, exc_info=error)
            self._start(group_id, self._clock.sleep(RETRY_MS))

    async def _compute(self, group_id: str, target: InSteps[Iterator[_Part]]) -> None:
        await next_turn()
        for part in await outcome_in_turns(target, self._clock):
            await next_turn()
            if not self._keep(group_id, part):
                await self._clock.sleep(RETRY_MS)
                return
        self._running.pop(group_id, None)  # the next one may be due
