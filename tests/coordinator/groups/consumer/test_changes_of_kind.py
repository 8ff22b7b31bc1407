"""A classic group with members becomes a consumer group, and the other way (consumer-groups.md 16, 17)."""

from collections.abc import Mapping

import pytest
from consumer_group import AT_ONCE
from migrating_group import MigratingGroup, metadata
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import ConsumerMemberState
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, MigrationPolicy
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.events import TimerKind, TimerName
from eosin.coordinator.groups.rules.group import GroupState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.records.internal import decode_value, encode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions

NONE = ErrorCode.NONE
AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
SESSION = ConsumerTimerKind.SESSION


def config(**fields: object) -> ConsumerGroupConfig:
    return ConsumerGroupConfig(**{"assignment_interval_ms": 0, **fields})  # type: ignore[arg-type]


def assigned(*numbers: int, topic: str = "orders", user_data: bytes | None = None) -> bytes:
    return encode_value(ConsumerProtocolAssignment((TopicPartitions(topic, numbers),), user_data), 1)


def classic_group(
    assignments: Mapping[str, bytes], using: ConsumerGroupConfig = AT_ONCE, **topics: int
) -> MigratingGroup:
    """A classic group of members with these assignments, in generation 1."""
    group = MigratingGroup(using, **(topics or {"orders": 4}))
    names = list(assignments)
    for name in names:
        group.join("", needs_known_id=False, fresh_member_id=name)
    for name in names:  # the first has begun a generation of its own
        group.join(name)
    assert group.classic is not None
    leader = group.classic.leader_id or ""
    for name in [leader, *(each for each in names if each != leader)]:
        group.sync(name, group.classic.generation_id, assignments)
    assert group.classic.state is GroupState.STABLE
    group.classic = replace(group.classic, generation_id=7)
    return group


def places(group: MigratingGroup, *numbers: int, topic: str = "orders") -> set[TopicIdPartition]:
    return {TopicIdPartition(group.topics[topic].topic_id, number) for number in numbers}


# Upgrade


def test_a_classic_group_becomes_a_consumer_group_in_one_batch_and_nothing_moves_yet() -> None:
    group = classic_group({"a": assigned(0, 1), "b": assigned(2, 3)})
    answer = group.joins("new")
    assert (answer.error, answer.epoch, answer.assignment) == (NONE, 8, frozenset())
    assert group.classic is None
    assert group.kinds[:12] == ["2+", "5", "5", "3", "7", "7", "6", "8", "8", "5", "3", "7"]
    assert group.consumer is not None
    for name, numbers in (("a", (0, 1)), ("b", (2, 3))):
        member = group.member(name)
        assert (member.epoch, member.previous_epoch, member.state) == (7, 7, ConsumerMemberState.STABLE)
        assert set(member.assigned) == places(group, *numbers)
        assert set(member.assigned.values()) == {7}
        assert member.topics == ("orders",)
        assert group.timers[ConsumerTimer(SESSION, name)].delay_ms == 10_000
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (8, 8)
    assert group.stored_classic() is None
    assert group.stored_consumer() is not None


def test_a_member_commits_and_lives_by_its_generation_after_the_change() -> None:
    group = classic_group({"a": assigned(0, 1, 2, 3)})
    place = next(iter(places(group, 0)))
    assert group.may_commit("a", 7, place)
    group.joins("new")
    assert group.may_commit("a", 7, place)
    assert not group.may_commit("a", 6, place)
    assert group.classic_heartbeat("a", 7) is AGAIN
    joined = group.answers[group.join("a")]
    assert isinstance(joined, JoinResult)
    assert joined.generation_id == 8
    assert len(group.heartbeat("new", 8).assignment or ()) == 2


def test_members_that_wait_in_a_rebalance_are_to_join_again() -> None:
    group = classic_group({"a": assigned(0, 1), "b": assigned(2, 3)})
    waiting = group.join("a", protocols=(("range", metadata("orders", version=3)),))
    assert waiting not in group.answers
    group.joins("new")
    answer = group.answers[waiting]
    assert isinstance(answer, JoinResult)
    assert (answer.error, answer.member_id) == (AGAIN, "a")
    assert set(group.member("a").assigned) == places(group, 0, 1), "those of its last generation"


def test_members_that_wait_for_the_assignment_are_to_join_again() -> None:
    group = classic_group({"a": assigned(0, 1), "b": assigned(2, 3)})
    group.join("a", protocols=(("range", metadata("orders", version=3)),))
    group.join("b")
    assert group.classic is not None
    assert group.classic.state is GroupState.COMPLETING_REBALANCE
    follower = next(name for name in "ab" if name != group.classic.leader_id)
    waiting = group.sync(follower, 8)
    group.joins("new")
    answer = group.answers[waiting]
    assert isinstance(answer, SyncResult)
    assert answer.error is AGAIN
    assert group.classic_heartbeat(follower, 8) is AGAIN


def test_what_a_lost_rebalance_has_taken_away_is_what_members_say_to_keep() -> None:
    group = classic_group({"a": assigned(0, 1), "b": assigned(2, 3)})
    group.join("a", owned={"orders": (0, 1)}, protocols=(("range", metadata("orders", owned={"orders": (0, 1)})),))
    group.join("b")
    group.join("b", protocols=(("range", metadata("orders", version=3)),))  # and another one begins
    assert group.classic is not None
    assert not group.classic.members["a"].assignment
    group.joins("new")
    assert set(group.member("a").assigned) == places(group, 0, 1)
    assert not group.member("b").assigned


def test_a_group_in_its_very_first_join_phase_becomes_a_consumer_group() -> None:
    group = MigratingGroup(orders=4)
    group.join("", fresh_member_id="a", needs_known_id=False)
    group.join("", fresh_member_id="b", needs_known_id=False)
    group.classic = replace(group.classic, generation_id=0, protocol_name=None)  # type: ignore[type-var]
    assert group.joins("new").epoch == 2
    assert group.classic_heartbeat("b", 1) is AGAIN


def test_a_group_that_leaves_its_protocol_for_another_becomes_a_consumer_group() -> None:
    group = MigratingGroup(orders=4)
    both = (("range", metadata("orders")), ("sticky", metadata("orders")))
    group.join("", fresh_member_id="a", needs_known_id=False, protocols=both)
    group.sync("a", 1, {"a": assigned(0, 1, 2, 3)})
    group.join("", fresh_member_id="b", needs_known_id=False, protocols=both[1:])
    assert group.classic is not None
    assert group.classic.protocol_name == "range"
    assert group.joins("new").error is NONE
    assert group.member("b").topics == ("orders",)


def test_a_partition_that_two_members_say_to_have_stays_with_the_first() -> None:
    group = classic_group({"a": assigned(0, 1), "b": assigned(1, 2)})
    group.joins("new")
    assert set(group.member("a").assigned) == places(group, 0, 1)
    assert set(group.member("b").assigned) == places(group, 2)
    assert group.stored_consumer() is not None


def test_partitions_of_a_topic_that_is_gone_are_nobodys() -> None:
    group = classic_group({"a": assigned(0, 1)}, orders=4, audit=1)
    del group.topics["orders"]
    group.joins("new")
    assert not group.member("a").assigned


@pytest.mark.parametrize(
    ("assignments", "using", "text"),
    [
        ({"a": assigned(0)}, config(migration_policy=MigrationPolicy.DOWNGRADE), "policy is downgrade"),
        ({"a": assigned(0)}, config(migration_policy=MigrationPolicy.DISABLED), "policy is disabled"),
        ({"a": assigned(0), "b": assigned(1)}, config(max_size=1), "more than 1 members"),
        ({"a": b"\0\1broken"}, AT_ONCE, "embedded consumer protocol of a member is malformed"),
    ],
)
def test_a_group_that_cannot_become_a_consumer_group_stays_as_it_is(
    assignments: Mapping[str, bytes], using: ConsumerGroupConfig, text: str
) -> None:
    group = classic_group(assignments, using)
    before = group.classic
    answer = group.joins("new")
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert text in (answer.message or "")
    assert (group.classic, group.consumer) == (before, None)


@pytest.mark.parametrize(("assignor", "error"), [("mine", ErrorCode.GROUP_ID_NOT_FOUND), ("cooperative-sticky", NONE)])
def test_an_assignor_that_may_need_its_data_keeps_the_group_classic(assignor: str, error: ErrorCode) -> None:
    group = MigratingGroup(orders=4)
    group.join("", needs_known_id=False, fresh_member_id="a", protocols=((assignor, metadata("orders")),))
    group.sync("a", 1, {"a": assigned(0, user_data=b"mine")})
    answer = group.joins("new")
    assert answer.error is error
    assert error is NONE or "because an unsupported custom assignor is in use. Please" in str(answer.message)


def test_a_group_of_others_than_consumers_stays_as_it_is() -> None:
    group = MigratingGroup(orders=4)
    group.join("", protocol_type="connect", needs_known_id=False)
    assert group.joins("new").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_takes_its_place_and_upgrades_the_group() -> None:
    group = MigratingGroup(orders=4)
    group.join("", instance_id="i", fresh_member_id="a")
    group.sync("a", 1, {"a": assigned(0, 1, 2, 3)}, instance_id="i")
    answer = group.joins("new", instance_id="i")
    assert (answer.error, answer.assignment) == (NONE, frozenset(places(group, 0, 1, 2, 3)))
    assert group.consumer is not None
    assert list(group.consumer.members) == ["new"]
    assert group.stored_consumer() == replace(group.consumer, state_timestamp_ms=-1)


# Downgrade


def mixed(using: ConsumerGroupConfig = AT_ONCE) -> MigratingGroup:
    """A consumer group of two classic members and `new`, which have all come to epoch 8."""
    group = classic_group({"a": assigned(0, 1), "b": assigned(2, 3)}, using)
    group.joins("new")
    for name in "ab":
        group.join(name)
    group.heartbeat("new", 8)
    assert group.is_stable()
    return group


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group_that_rebalances() -> None:
    group = mixed()
    had = {name: set(group.member(name).assigned) for name in "ab"}
    answer = group.heartbeat("new", -1)
    assert (answer.error, answer.epoch, group.consumer) == (NONE, -1, None)
    assert group.kinds == ["8+"] * 3 + ["7+"] * 3 + ["6+"] + ["5+"] * 3 + ["3+", "2"]
    classic = group.classic
    assert classic is not None
    assert (classic.state, classic.generation_id) == (GroupState.PREPARING_REBALANCE, 8)
    assert (classic.protocol_type, classic.protocol_name, classic.leader_id) == ("consumer", "range", "a")
    stored = group.stored_classic()
    assert stored is not None
    assert (stored.generation_id, list(stored.members)) == (8, ["a", "b"])
    for name, member in stored.members.items():
        (topic,) = decode_value(ConsumerProtocolAssignment, member.assignment).assigned_partitions
        assert places(group, *topic.partitions) == had[name]
    assert group.stored_consumer() is None
    assert group.classic_heartbeat("a", 8) is AGAIN
    assert group.classic_timers.keys() >= {TimerName(TimerKind.SESSION, "a"), TimerName(TimerKind.JOIN)}
    waiting = [group.join(name) for name in "ab"]
    assert {group.answers[each].generation_id for each in waiting} == {9}  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["leaves", "is removed", "is silent"])
def test_it_does_not_matter_how_it_goes(way: str) -> None:
    group = mixed()
    match way:
        case "leaves":
            group.heartbeat("new", -1)
        case "is removed":
            assert group.leave("new") is NONE
        case _:
            group.fire(ConsumerTimer(SESSION, "new"))
    assert (group.consumer, group.classic is not None) == (None, True)


def test_a_member_that_is_to_revoke_something_leaves_it_to_nobody_before_the_rebalance() -> None:
    group = mixed()
    group.joins("newer")
    kept = {"orders": tuple(sorted(each.partition for each in group.member("a").owned()))}
    had = set(group.member("a").owned())
    group.join("a", owned=kept)
    group.leave("newer")
    group.leave("new")
    assert group.classic is not None
    (topic,) = decode_value(ConsumerProtocolAssignment, group.classic.members["a"].assignment).assigned_partitions
    assert places(group, *topic.partitions) == had
    assert group.classic.state is GroupState.PREPARING_REBALANCE


def test_the_last_member_of_all_leaves_an_empty_consumer_group() -> None:
    group = MigratingGroup(orders=4)
    group.joins("new")
    group.heartbeat("new", -1)
    assert group.consumer is not None
    assert not group.consumer.members


@pytest.mark.parametrize(
    "using",
    [
        config(migration_policy=MigrationPolicy.UPGRADE),
        config(classic_max_size=1),
    ],
)
def test_a_group_that_may_not_become_classic_stays_a_consumer_group_that_serves_its_members(
    using: ConsumerGroupConfig,
) -> None:
    group = mixed(using)
    group.heartbeat("new", -1)
    assert group.consumer is not None
    assert group.consumer.epoch == 9
    for name in "ab":
        assert group.classic_heartbeat(name, 8) is AGAIN
        group.join(name)
    assert set(group.consumer.owners) == places(group, 0, 1, 2, 3)
    assert group.is_stable()


def test_what_was_put_off_is_done_at_the_next_heartbeat() -> None:
    group = mixed()
    group.may_convert = False  # the upgrade is still on its way to the disk
    group.heartbeat("new", -1)
    assert group.consumer is not None
    group.may_convert = True
    assert group.classic_heartbeat("a", 8) is AGAIN
    assert group.consumer is None
    assert group.stored_classic() is not None


def test_a_static_member_that_comes_back_by_the_classic_protocol_ends_the_consumer_group_without_a_rebalance() -> None:
    group = classic_group({"b": assigned(2, 3)})
    group.joins("new", instance_id="i")
    group.join("b")
    had = set(group.member("new").assigned)
    answer = group.answers[group.join("", instance_id="i", fresh_member_id="old")]
    assert isinstance(answer, JoinResult)
    assert (answer.error, answer.member_id, answer.generation_id, answer.leader_id) == (NONE, "old", 8, "")
    assert group.classic is not None
    assert group.classic.state is GroupState.STABLE
    synced = group.answers[group.sync("old", 8, instance_id="i")]
    assert isinstance(synced, SyncResult)
    (topic,) = decode_value(ConsumerProtocolAssignment, synced.assignment).assigned_partitions
    assert places(group, *topic.partitions) == had
    assert group.classic_heartbeat("b", 8) is NONE


def test_it_rebalances_if_others_are_still_on_their_way() -> None:
    group = classic_group({"b": assigned(0, 1, 2, 3)})
    group.joins("new", instance_id="i")  # and b has not heard of it
    waiting = group.join("", instance_id="i", fresh_member_id="old")
    assert waiting not in group.answers
    assert group.classic is not None
    assert group.classic.state is GroupState.PREPARING_REBALANCE
    group.join("b")
    assert group.answers[waiting].error is NONE
