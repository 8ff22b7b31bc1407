"""States of share partitions as values, and `ShareStateStore`: the way by which leaders of share partitions and group
coordinators reach the share coordinator, in this process or on another broker (KIP-932, share-state.md)."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid

UNKNOWN_OFFSET: Final = -1
"""A start offset that nobody has decided yet."""
UNKNOWN_COUNT: Final = -1
"""A count of completed deliveries that nobody has told."""


class SharePartition(NamedTuple):
    """One partition as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int


class DeliveryState(IntEnum):
    """The state of a record of a share partition. ACQUIRED is never written."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Nobody gets it any more, and its dead letter may not be written yet (KIP-1191)."""
    ARCHIVED = 4


class StateBatch(NamedTuple):
    """Offsets from `first` to `last`, both in it, of one state and one delivery count."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int


class ShareState(NamedTuple):
    """The durable part of one share partition. `batches` are in order of offset and do not overlap."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class ShareStateSummary(NamedTuple):
    """The same without its batches. A share partition of which nothing is known has a start offset of -1."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


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
