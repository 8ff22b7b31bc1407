"""States of share partitions as values: what the share coordinator keeps, and what share-partition leaders ask it for
(KIP-932, share-state.md)."""

from enum import IntEnum
from typing import Final, NamedTuple

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
    """The state of a record of a share partition. ACQUIRED is never written; 3 is reserved by KIP-1191."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
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
