"""`ShareStateStore`: the way by which leaders of share partitions and group coordinators reach the share coordinator,
in this process or on another broker."""

from collections.abc import Sequence
from typing import Protocol

from eosin.coordinator.share_state.state import SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode


class ShareStateStore(Protocol):
    """Durable states of share partitions. A call answers when what it wrote is durable; it is repeated inside for
    errors that pass, and answers COORDINATOR_NOT_AVAILABLE after share.coordinator.write.timeout.ms. Nothing raises."""

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        """Begin its state anew, without batches: what was there is gone. FENCED_STATE_EPOCH for an epoch lower than the
        stored one."""

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        """The whole state, after which writes of lower leader epochs are refused. FENCED_LEADER_EPOCH when
        `leader_epoch` is such a one; INVALID_REQUEST when the partition was never initialized."""

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
        """Merge `batches` into the state; a start offset of -1 leaves it as it is. FENCED_LEADER_EPOCH and
        FENCED_STATE_EPOCH for lower epochs; INVALID_REQUEST when the partition was never initialized."""

    async def delete(self, partition: SharePartition) -> ErrorCode:
        """Forget the state; NONE also when there is none."""

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """Its offsets without the batches; a start offset of -1 when there is no state."""
