"""`ShareStateStore`: the way by which leaders of share partitions and group coordinators reach the share coordinator,
in this process or on another broker. And the needs of the share coordinator itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from eosin.coordinator.share_state.state import SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid


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
        """Merge `batches` into the state; a start offset of -1 leaves it as it is. It never goes back: for a log that
        was cut, `initialize` with the offset where it ends now. FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH for lower
        epochs; INVALID_REQUEST when the partition was never initialized."""

    async def delete(self, partition: SharePartition) -> ErrorCode:
        """Forget the state; NONE also when there is none."""

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """Its offsets without the batches; a start offset of -1 when there is no state."""


class ShareTopics(Protocol):
    """The topics of the cluster, as far as the share coordinator needs them."""

    def has_partition(self, topic_id: Uuid, partition: int) -> bool:
        """True if there is such a topic, and it has this partition."""

    def want_state_topic(self) -> None:
        """Begin to create `__share_group_state`, unless it is there or being created."""


Prune = Callable[[int, int], Awaitable[ErrorCode]]
"""Deletes the records of a partition of `__share_group_state` below an offset, as DeleteRecords does."""
