"""When offsets and groups have outlived their retention (groups.md 11)."""

from group_fakes import subscription
from msgspec.structs import replace

from eosin.coordinator.groups.rules.expiry import expired_offsets, may_vanish
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore
from eosin.protocol.names import TopicPartition

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
RETENTION = 100
MEMBER = Member("m", None, "c", "/h", 10_000, 60_000, (("range", subscription("orders")),))
STABLE = Group("g", GroupState.STABLE, 0, 1, "consumer", protocol_name="range", leader_id="m", members={"m": MEMBER})
EMPTY = Group("g", GroupState.EMPTY, state_timestamp_ms=50, generation_id=2, protocol_type="consumer")
SIMPLE = Group("g", GroupState.EMPTY, state_timestamp_ms=50)


def store(*partitions: TopicPartition, committed_at: int = 0, expires_at: int = -1) -> OffsetStore:
    offsets = OffsetStore()
    for partition in partitions:
        offsets.put("g", partition, CommittedOffset(1, -1, "", committed_at, expires_at))
    return offsets


def expired(group: Group, offsets: OffsetStore, now_ms: int) -> list[TopicPartition]:
    partitions = list(offsets.committed("g"))
    return expired_offsets(group, offsets, partitions, now_ms=now_ms, retention_ms=RETENTION)


def test_an_empty_groups_offsets_expire_from_the_time_it_became_empty() -> None:
    offsets = store(ORDERS, committed_at=0)
    assert expired(EMPTY, offsets, 149) == []
    assert expired(EMPTY, offsets, 150) == [ORDERS]


def test_when_the_time_of_becoming_empty_is_unknown_the_commit_counts() -> None:
    offsets = store(ORDERS, committed_at=70)
    group = replace(EMPTY, state_timestamp_ms=-1)
    assert expired(group, offsets, 169) == []
    assert expired(group, offsets, 170) == [ORDERS]


def test_a_group_without_members_of_its_own_expires_by_commit() -> None:
    offsets = store(ORDERS, committed_at=70)
    assert expired(SIMPLE, offsets, 169) == []
    assert expired(SIMPLE, offsets, 170) == [ORDERS]


def test_a_stable_group_keeps_what_it_is_subscribed_to() -> None:
    offsets = store(ORDERS, AUDIT, committed_at=0)
    assert expired(STABLE, offsets, 99) == []
    assert expired(STABLE, offsets, 100) == [AUDIT]


def test_a_group_whose_subscription_cannot_be_read_keeps_everything() -> None:
    offsets = store(ORDERS, AUDIT)
    garbled = replace(STABLE, members={"m": replace(MEMBER, protocols=(("range", b"\x00\x01garbage"),))})
    assert expired(garbled, offsets, 10_000) == []
    assert expired(replace(STABLE, protocol_type="connect"), offsets, 10_000) == []


def test_nothing_expires_during_a_rebalance() -> None:
    offsets = store(ORDERS, AUDIT)
    for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        assert expired(replace(STABLE, state=state), offsets, 10_000) == []


def test_an_expiry_of_its_own_counts_in_any_state() -> None:
    offsets = store(ORDERS, committed_at=0, expires_at=60)
    assert expired(STABLE, offsets, 59) == []
    for group in (STABLE, EMPTY, SIMPLE, replace(STABLE, state=GroupState.PREPARING_REBALANCE)):
        assert expired(group, offsets, 60) == [ORDERS]


def test_a_pending_offset_keeps_the_partition() -> None:
    offsets = store(ORDERS, committed_at=0)
    offsets.put_pending(1, "g", ORDERS, CommittedOffset(2, -1, "", 0))
    assert expired(EMPTY, offsets, 10_000) == []
    offsets.complete(1, commit=False)
    assert expired(EMPTY, offsets, 10_000) == [ORDERS]


def test_a_group_may_vanish_when_nobody_is_in_it_or_about_to_come() -> None:
    assert may_vanish(EMPTY)
    assert not may_vanish(replace(EMPTY, pending_members={"m": 1}))
    assert not may_vanish(STABLE)
