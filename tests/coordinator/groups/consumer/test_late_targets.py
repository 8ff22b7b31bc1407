"""Targets that are computed beside the decisions, of a group as it was: members come, go and change places meanwhile
(consumer-groups.md 6)."""

from consumer_group import RuledGroup, numbers

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroupState
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig


def late(config: ConsumerGroupConfig | None = None, **topics: int) -> RuledGroup:
    """A group whose targets are all computed beside the decisions."""
    return RuledGroup(config or ConsumerGroupConfig(assignment_interval_ms=0), most_at_once=0, **topics)


def test_a_member_has_nothing_before_its_target_counts_and_all_of_it_then() -> None:
    group = late(orders=2)
    joined = group.join("m")
    assert (joined.epoch, joined.assignment, group.kinds) == (1, frozenset(), ["5", "3", "8"])
    assert group.group.state is ConsumerGroupState.ASSIGNING
    group.keep_target()
    assert group.kinds == ["6"]  # the last part has no member
    told = group.heartbeat("m", 1)
    assert (told.epoch, numbers(told.assignment)) == (2, [0, 1])
    assert group.group.state is ConsumerGroupState.STABLE


def test_members_that_join_meanwhile_share_the_next_target() -> None:
    group = late(orders=4)
    group.join("m1")
    group.join("m2")
    group.join("m3")
    group.keep_target()
    assert (group.group.epoch, group.group.assignment_epoch) == (4, 2)
    late_one = group.heartbeat("m2", 1)
    assert (late_one.epoch, late_one.assignment) == (2, frozenset())
    group.keep_target()
    assert group.group.assignment_epoch == 4
    assert sorted(len(group.group.target(name)) for name in ("m1", "m2", "m3")) == [1, 1, 2]


def test_only_one_target_is_computed_at_a_time() -> None:
    group = late(orders=2)
    group.join("m1")
    first = list(group.parts)
    group.join("m2")
    assert group.parts == first


def test_a_member_that_has_left_meanwhile_has_no_target() -> None:
    group = late(orders=2)
    group.join("m1")
    group.join("m2")
    group.keep_target()
    group.heartbeat("m1", 1)
    group.heartbeat("m2", 2, owned=())
    group.heartbeat("m1", -1)
    group.keep_target()
    assert list(group.group.targets) == ["m2"]
    replayed = group.replayed()
    assert replayed is not None
    assert list(replayed.targets) == ["m2"]


def test_a_static_member_that_was_replaced_meanwhile_leaves_its_target_to_its_successor() -> None:
    group = late(orders=2)
    group.join("m1", instance_id="i")
    group.heartbeat("m1", -2, instance_id="i")
    group.join("m2", instance_id="i")
    assert group.group.epoch == 2, "a replacement begins no epoch, so no other target would come"
    group.keep_target()
    assert numbers(group.group.target("m2")) == [0, 1]
    assert numbers(group.heartbeat("m2", 1).assignment) == [0, 1]


def test_a_member_that_takes_a_free_instance_keeps_its_own_target() -> None:
    group = late(orders=2)
    group.join("m1", instance_id="i")
    group.join("m2")
    group.keep_target()
    group.heartbeat("m1", 1)  # the target of both is computed
    group.fire(ConsumerTimerKind.SESSION, "m1")
    group.join("m2", instance_id="i")
    group.keep_target()
    assert len(group.group.target("m2")) == 1


def test_a_crash_between_two_parts_leaves_the_old_epoch_and_the_next_heartbeat_computes_anew() -> None:
    group = late(orders=4)
    group.join("m1")
    group.keep_target()
    group.heartbeat("m1", 1)
    group.join("m2")
    group.keep_part()
    assert group.parts
    replayed = group.replayed()
    assert replayed is not None
    assert replayed.targets == group.group.targets
    group.group, group.parts = replayed, []
    assert group.group.assignment_epoch == 2
    group.heartbeat("m1", 2)
    group.keep_target()
    assert group.group.assignment_epoch == 3
    assert [len(group.group.target(name)) for name in ("m1", "m2")] == [2, 2]


def test_a_target_that_is_not_newer_than_the_last_does_not_count_again() -> None:
    group = late(orders=2)
    group.join("m")
    parts = list(group.parts)
    group.keep_target()
    group.now_ms += 5
    group.happen(parts[-1])
    assert (group.kinds, group.group.assignment_timestamp_ms) == ([], 1000)


def test_the_interval_runs_from_the_last_target_that_counts() -> None:
    group = late(ConsumerGroupConfig(assignment_interval_ms=1000), orders=2)
    group.join("m1")
    group.now_ms += 500
    group.keep_target()
    group.now_ms += 999
    group.join("m2")
    assert not group.parts
    group.now_ms += 1
    group.heartbeat("m2", 2)
    assert group.parts
