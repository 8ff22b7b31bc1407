"""Requests to the share coordinator as they go over the wire (keys 83 to 87), one line each."""

from dataclasses import dataclass
from typing import Any, Final

from wire import Wire

from eosin.coordinator.share_states import ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from eosin.protocol.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from eosin.protocol.schemas.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
)
from eosin.protocol.schemas.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadStateSummaryPartition,
)
from eosin.protocol.schemas.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStateBatch,
    WriteStateData,
    WriteStatePartition,
)
from eosin.protocol.types import Message

PASSING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True)
class SharePartitionOnWire:
    """One share partition, asked of over a connection."""

    wire: Wire
    topic_id: Uuid
    group_id: str = "group"
    partition: int = 0

    async def initialize(self, *, state_epoch: int = 1, start_offset: int = -1) -> ErrorCode:
        """Begin its state."""
        part = InitializeStatePartition(self.partition, state_epoch, start_offset)
        request = InitializeShareGroupStateRequest(self.group_id, (InitializeStateData(self.topic_id, (part,)),))
        return ErrorCode((await self._ask(request, 0)).error_code)

    async def read(self, *, leader_epoch: int = 0) -> ShareState | ErrorCode:
        """Read its state."""
        part = ReadStatePartition(self.partition, leader_epoch)
        found = await self._ask(ReadShareGroupStateRequest(self.group_id, (ReadStateData(self.topic_id, (part,)),)), 0)
        if found.error_code:
            return ErrorCode(found.error_code)
        batches = (
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        )
        return ShareState(found.state_epoch, found.start_offset, tuple(batches))

    async def write(
        self,
        *batches: StateBatch,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = -1,
        count: int = -1,
        version: int = 1,
    ) -> ErrorCode:
        """Merge some batches into its state."""
        part = WriteStatePartition(
            self.partition,
            state_epoch,
            leader_epoch,
            start_offset,
            count,
            tuple(WriteStateBatch(*each) for each in batches),
        )
        request = WriteShareGroupStateRequest(self.group_id, (WriteStateData(self.topic_id, (part,)),))
        return ErrorCode((await self._ask(request, version)).error_code)

    async def delete(self) -> ErrorCode:
        """Forget its state."""
        part = DeleteStatePartition(self.partition)
        request = DeleteShareGroupStateRequest(self.group_id, (DeleteStateData(self.topic_id, (part,)),))
        return ErrorCode((await self._ask(request, 0)).error_code)

    async def summary(self, *, version: int = 1) -> ShareStateSummary | ErrorCode:
        """Sum its state up."""
        part = ReadStateSummaryPartition(self.partition)
        request = ReadShareGroupStateSummaryRequest(self.group_id, (ReadStateSummaryData(self.topic_id, (part,)),))
        found = await self._ask(request, version)
        if found.error_code:
            return ErrorCode(found.error_code)
        return ShareStateSummary(
            found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count
        )

    async def _ask(self, request: Message, version: int) -> Any:
        (result,) = (await self.wire.ask(request, version)).results
        (part,) = result.partitions
        assert (result.topic_id, part.partition) == (self.topic_id, self.partition)
        return part
