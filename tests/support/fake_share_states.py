"""A `ShareStateStore` in memory, which a test may hold, or have refuse."""

import asyncio
from collections.abc import Sequence

from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode


class FakeShareStates:
    """States by partition, and the calls so far."""

    def __init__(self) -> None:
        self.states: dict[SharePartition, ShareStateSummary] = {}
        self.calls: list[tuple[str, SharePartition]] = []
        """Each call that has begun to change something, with its name."""
        self.refuse: ErrorCode | None = None
        """The error of the next calls; None if they succeed."""
        self._free = asyncio.Event()
        self._free.set()

    def hold(self) -> None:
        """Answer nothing until `release`; a call that was held counts when it is answered."""
        self._free.clear()

    def release(self) -> None:
        """Answer what waits."""
        self._free.set()

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        if (error := await self._called("initialize", partition)) is not ErrorCode.NONE:
            return error
        known = self.states.get(partition)
        if known is not None and known.state_epoch > state_epoch:
            return ErrorCode.FENCED_STATE_EPOCH
        self.states[partition] = ShareStateSummary(state_epoch, 0, start_offset, -1)
        return ErrorCode.NONE

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        known = self.states.get(partition)
        if known is None:
            return ErrorCode.INVALID_REQUEST
        return ShareState(known.state_epoch, known.start_offset, ())

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
        known = self.states.get(partition)
        if known is None:
            return ErrorCode.INVALID_REQUEST
        start = known.start_offset if start_offset == -1 else start_offset
        self.states[partition] = ShareStateSummary(known.state_epoch, leader_epoch, start, delivery_complete_count)
        return ErrorCode.NONE

    async def delete(self, partition: SharePartition) -> ErrorCode:
        error = await self._called("delete", partition)
        if error is ErrorCode.NONE:
            self.states.pop(partition, None)
        return error

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        if self.refuse is not None:
            return self.refuse
        return self.states.get(partition, ShareStateSummary(-1, -1, -1, -1))

    async def _called(self, name: str, partition: SharePartition) -> ErrorCode:
        self.calls.append((name, partition))
        await self._free.wait()
        return self.refuse or ErrorCode.NONE
