"""`RetryingShareStates`: a `ShareStateStore` for the leaders of share partitions and for group coordinators.

Always true: of one share partition one request is on its way, and the next one begins after it, in the order of the
calls. Each kind of request may be carried out twice, so one whose outcome is not known is repeated.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateStore, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock

_T = TypeVar("_T")

FIRST_BACKOFF_MS: Final = 20
LONGEST_BACKOFF_MS: Final = 1_000

PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which a request is repeated."""


class RetryingShareStates:
    """Implements `ShareStateStore` on a coordinator that may have to be asked again."""

    def __init__(self, coordinator: ShareStateStore, *, clock: Clock, chance: Chance, timeout_ms: int) -> None:
        """`coordinator` answers each call after one attempt. `timeout_ms` is the limit of a call, its turn and all its
        attempts included."""
        self._coordinator = coordinator
        self._clock = clock
        self._chance = chance
        self._timeout_ms = timeout_ms
        self._busy: dict[SharePartition, deque[asyncio.Future[bool]]] = {}
        """Share partitions with a request on its way, and those that wait for their turn."""
        self._closed = False

    def close(self) -> None:
        """Repeat nothing from now on."""
        self._closed = True

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        """See `ShareStateStore`."""
        begin = partial(self._coordinator.initialize, partition, state_epoch=state_epoch, start_offset=start_offset)
        return await self._repeated(partition, begin)

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        """See `ShareStateStore`."""
        return await self._repeated(partition, lambda: self._coordinator.read(partition, leader_epoch=leader_epoch))

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        """See `ShareStateStore`."""
        kept = tuple(batches)
        return await self._repeated(
            partition,
            lambda: self._coordinator.write(
                partition,
                kept,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
            ),
        )

    async def delete(self, partition: SharePartition) -> ErrorCode:
        """See `ShareStateStore`."""
        return await self._repeated(partition, lambda: self._coordinator.delete(partition))

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """See `ShareStateStore`."""
        return await self._repeated(partition, lambda: self._coordinator.summary(partition))

    async def _repeated(
        self, partition: SharePartition, attempt: Callable[[], Awaitable[_T | ErrorCode]]
    ) -> _T | ErrorCode:
        """The outcome of the first attempt that is not to be repeated; COORDINATOR_NOT_AVAILABLE if none comes in
        time."""
        until_ms = self._clock.elapsed_ms() + self._timeout_ms
        if not await self._turn(partition, until_ms):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            return await self._attempts(attempt, until_ms)
        finally:
            self._end_turn(partition)

    async def _attempts(self, attempt: Callable[[], Awaitable[_T | ErrorCode]], until_ms: int) -> _T | ErrorCode:
        failures = 0
        while True:
            outcome = await attempt()
            if not (isinstance(outcome, ErrorCode) and outcome in PASSING):
                return outcome
            failures += 1
            wait_ms = backoff_ms(
                failures, first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS, chance=self._chance
            )
            if self._closed or self._clock.elapsed_ms() + wait_ms >= until_ms:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            await self._clock.sleep(wait_ms)

    async def _turn(self, partition: SharePartition, until_ms: int) -> bool:
        """Wait until no other request of the share partition is on its way. False if that takes too long."""
        waiting = self._busy.get(partition)
        if waiting is None:
            self._busy[partition] = deque()
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        timer = self._clock.call_later(until_ms - self._clock.elapsed_ms(), partial(_settle, turn, False))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._end_turn(partition)  # it was this one's turn, and its caller is gone
            raise
        finally:
            timer.cancel()

    def _end_turn(self, partition: SharePartition) -> None:
        waiting = self._busy[partition]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        del self._busy[partition]


def _settle(turn: "asyncio.Future[bool]", outcome: bool) -> None:
    if not turn.done():
        turn.set_result(outcome)
