"""Offsets that open transactions hold, as whoever looks into a group is told of them."""

from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore
from eosin.protocol.names import TopicPartition

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)


def offset(number: int, *, at: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0, record_offset=at)


def test_a_pending_offset_is_told_until_its_transaction_ends() -> None:
    offsets = OffsetStore()
    assert offsets.pending_offsets("g") == {}
    offsets.put_pending(7, "g", ORDERS, offset(3, at=1))
    offsets.put_pending(7, "other", AUDIT, offset(9, at=2))
    assert offsets.pending_offsets("g") == {ORDERS: 3}
    offsets.complete(7, commit=True)
    assert offsets.pending_offsets("g") == {}


def test_of_two_transactions_that_hold_one_partition_the_later_offset_is_told() -> None:
    offsets = OffsetStore()
    offsets.put_pending(8, "g", ORDERS, offset(5, at=4))
    offsets.put_pending(7, "g", ORDERS, offset(3, at=1))
    assert offsets.pending_offsets("g") == {ORDERS: 5}
    offsets.complete(8, commit=False)
    assert offsets.pending_offsets("g") == {ORDERS: 3}
