"""Consumer groups are read back from the last record of each key, whatever is gone (consumer-groups.md 12.2)."""

import logging

import pytest
from consumer_group import RuledGroup

from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.log.replay import replayed
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind
from eosin.protocol.records.scan import KeyValue


def records(*some: GroupRecord, group_id: str = "g") -> list[KeyValue]:
    return [KeyValue(offset, each.key, each.value) for offset, each in enumerate(encoded(group_id, some))]


def test_the_order_of_records_does_not_matter() -> None:
    group = RuledGroup(orders=3)
    group.join("m1", instance_id="i")
    group.join("m2")
    group.heartbeat("m1", 2)
    kept = list(group.log.values())
    assert replayed(kept).groups == replayed(kept[::-1]).groups
    assert replayed(kept).groups["g"].members["m1"].state is ConsumerMemberState.UNREVOKED_PARTITIONS


def test_what_belongs_to_no_member_is_dropped_with_its_records() -> None:
    place = RuledGroup(orders=1).place(0)
    lost = ConsumerMember("lost", epoch=2, assigned={place: 2})
    found = replayed(
        records(
            GroupRecord(Kind.CURRENT, "lost", lost),
            GroupRecord(Kind.TARGET, "lost", frozenset({place})),
            GroupRecord(Kind.GROUP, value=GroupEpoch(3, 0)),
        )
    )
    assert not found.groups["g"].owners
    assert found.left_over["g"] == [GroupRecord(Kind.CURRENT, "lost"), GroupRecord(Kind.TARGET, "lost")]


def test_a_tombstone_of_the_unknown_is_nothing() -> None:
    assert not replayed(records(GroupRecord(Kind.MEMBER, "m"), GroupRecord(Kind.GROUP))).groups


def test_a_group_that_cannot_be_read_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    good = records(GroupRecord(Kind.GROUP, value=GroupEpoch(3, 0)), group_id="good")
    (bad,) = records(GroupRecord(Kind.GROUP, value=GroupEpoch(3, 0)), group_id="bad")
    with caplog.at_level(logging.ERROR):
        found = replayed([*good, bad._replace(offset=77, value=b"\0\7newer")])
    assert (list(found.groups), found.broken) == (["good"], {"bad": 77})
    assert len(caplog.messages) == 1
    assert "offset 77" in caplog.messages[0]


def test_a_partition_with_two_owners_stays_with_the_first() -> None:
    place = RuledGroup(orders=1).place(0)
    both = [ConsumerMember(name, epoch=2, assigned={place: 2}) for name in ("a", "b")]
    of_members = [GroupRecord(kind, each.member_id, each) for each in both for kind in (Kind.MEMBER, Kind.CURRENT)]
    group = replayed(records(*of_members, GroupRecord(Kind.GROUP, value=GroupEpoch(3, 0)))).groups["g"]
    assert (dict(group.owners), group.members["b"].assigned) == ({place: "a"}, {})
