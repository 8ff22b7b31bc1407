"""Heartbeats of members that join and stay: epochs, targets, and partitions that go from one to another
(consumer-groups.md 3 to 9)."""

import pytest
from consumer_group import AT_ONCE, RuledGroup, numbers, topic
from msgspec.structs import replace as replaced

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroupState, ConsumerMemberState
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.protocol.errors import ErrorCode

SESSION, REBALANCE = ConsumerTimerKind.SESSION, ConsumerTimerKind.REBALANCE


def test_partitions_go_from_a_member_to_another_when_the_first_has_revoked_them() -> None:
    group = RuledGroup(orders=4)
    first = group.join("m1")
    assert (first.epoch, numbers(first.assignment), group.kinds) == (2, [0, 1, 2, 3], ["5", "3", "7", "6", "8"])
    second = group.join("m2")
    assert (second.epoch, numbers(second.assignment)) == (3, [])
    assert group.member("m2").state is ConsumerMemberState.UNRELEASED_PARTITIONS
    told = group.heartbeat("m1", 2)
    assert (told.epoch, len(told.assignment or ())) == (2, 2)
    assert group.runs(REBALANCE, "m1")
    assert group.heartbeat("m2", 3).assignment is None
    kept = group.heartbeat("m1", 2, owned=told.assignment or ())
    assert kept.epoch == 3
    assert not group.runs(REBALANCE, "m1")
    given = group.heartbeat("m2", 3)
    assert (given.epoch, len(given.assignment or ())) == (3, 2)
    assert not (given.assignment or frozenset()) & (told.assignment or frozenset())
    assert group.group.state is ConsumerGroupState.STABLE
    group.heartbeat("m1", -1)
    assert (group.kinds, group.group.epoch, group.group.state.value) == (["8+", "7+", "5+", "3"], 4, "Assigning")
    assert numbers(group.heartbeat("m2", 3).assignment) == [0, 1, 2, 3]
    assert group.group.state is ConsumerGroupState.STABLE


def test_a_heartbeat_without_news_writes_nothing_and_tells_no_assignment() -> None:
    group = RuledGroup(orders=2)
    group.join("m")
    answer = group.heartbeat("m", 2)
    assert (answer.epoch, answer.assignment, answer.heartbeat_interval_ms, group.kinds) == (2, None, 5000, [])


def test_a_full_heartbeat_is_told_the_assignment() -> None:
    group = RuledGroup(orders=2)
    group.join("m")
    full = group.heartbeat("m", 2, rebalance_timeout_ms=60_000, topics=("orders",), owned=(0, 1))
    assert numbers(full.assignment) == [0, 1]


def test_a_subscription_to_nothing_joins_at_epoch_1_and_has_nothing() -> None:
    group = RuledGroup(orders=2)
    answer = group.heartbeat("m", 0, rebalance_timeout_ms=1, topics=(), owned=())
    assert (answer.epoch, answer.assignment, group.member("m").state) == (1, frozenset(), ConsumerMemberState.STABLE)
    assert group.heartbeat("m", 1, topics=("orders",)).epoch == 2


def test_a_topic_that_is_not_there_is_no_error_and_counts_when_it_comes() -> None:
    group = RuledGroup(orders=2)
    assert numbers(group.join("m", "later").assignment) == []
    group.topics["later"] = topic("later", 1)
    group.topics_changed = True
    assert len(group.heartbeat("m", 2).assignment or ()) == 1
    assert group.group.epoch == 3


def test_a_topic_that_grows_is_noticed_at_a_heartbeat() -> None:
    group = RuledGroup(orders=2)
    group.join("m")
    group.topics["orders"] = topic("orders", 3)
    group.topics_changed = True
    assert numbers(group.heartbeat("m", 2).assignment) == [0, 1, 2]


def test_a_topic_that_is_deleted_and_comes_back_is_another_one() -> None:
    group = RuledGroup(orders=1)
    before = group.join("m").assignment
    group.topics["orders"] = topic("orders", 1, life=1)
    group.topics_changed = True
    revoking = group.heartbeat("m", 2)
    assert revoking.assignment == frozenset()
    after = group.heartbeat("m", 2, owned=()).assignment
    assert numbers(after) == [0]
    assert after != before


def test_no_other_change_of_a_member_than_that_of_its_topics_begins_an_epoch() -> None:
    group = RuledGroup(orders=1, audit=1)
    group.join("m", "orders")
    group.heartbeat("m", 2, rack_id="r", rebalance_timeout_ms=7, assignor="uniform", client_host="/h")
    assert (group.kinds, group.group.epoch) == (["5"], 2)
    group.heartbeat("m", 2, topics=("orders", "orders"))
    assert group.kinds == ["5"]  # the client's address again
    group.heartbeat("m", 2, topics=("audit", "orders"))
    assert group.group.epoch == 3


def test_votes_begin_an_epoch_when_another_assignor_prevails_by_them() -> None:
    group = RuledGroup(orders=1)

    def epoch_after(member_id: str, epoch: int, assignor: str | None) -> int:
        group.heartbeat(member_id, epoch, rebalance_timeout_ms=1, topics=(), owned=(), assignor=assignor)
        return group.group.epoch

    assert epoch_after("a", 0, "uniform") == 1  # the first of the settings prevails without votes
    assert epoch_after("b", 0, "range") == 2
    assert (epoch_after("c", 0, "range"), epoch_after("d", 0, None)) == (2, 2)
    assert epoch_after("b", 2, "uniform") == 3


def test_partitions_of_a_topic_that_the_member_leaves_are_revoked_at_once() -> None:
    group = RuledGroup(ConsumerGroupConfig(assignment_interval_ms=10_000), orders=1, audit=1)
    group.join("m")
    answer = group.heartbeat("m", 2, topics=("audit",))
    assert (group.group.epoch, group.group.assignment_epoch, answer.epoch) == (3, 2, 2)
    assert group.member("m").pending == {group.place(0, "orders"): 2}


# Fencing


def test_an_epoch_that_was_never_given_is_fenced() -> None:
    group = RuledGroup(orders=1)
    group.join("m")
    before = group.group
    for epoch in (1, 3, 2**31 - 1):
        answer = group.heartbeat("m", epoch)
        assert (answer.error, answer.heartbeat_interval_ms) == (ErrorCode.FENCED_MEMBER_EPOCH, 0)
        assert answer.message
    assert group.group is before


def test_the_previous_epoch_is_taken_from_a_member_that_says_what_it_has() -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.heartbeat("m1", 2)
    kept = group.member("m1").assigned
    group.heartbeat("m1", 2, owned=kept)  # to epoch 3, and the answer is lost
    assert group.heartbeat("m1", 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("m1", 2, owned=(0, 1)).error is ErrorCode.FENCED_MEMBER_EPOCH
    again = group.heartbeat("m1", 2, owned=kept)
    assert (again.error, again.epoch, again.assignment) == (ErrorCode.NONE, 3, frozenset(kept))


def test_a_member_that_has_what_it_is_to_revoke_is_told_again() -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.heartbeat("m1", 2)  # and the answer is lost
    again = group.heartbeat("m1", 2, owned=(0, 1))
    assert (again.epoch, again.assignment) == (2, frozenset(group.member("m1").assigned))


def test_an_unknown_member_is_told_so_unless_it_joins() -> None:
    group = RuledGroup(orders=1)
    group.join("m")
    assert group.heartbeat("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("x", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_known_member_that_joins_again_has_revoked_what_it_was_to_revoke() -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.heartbeat("m1", 2)
    answer = group.join("m1")
    assert (answer.error, answer.epoch, len(answer.assignment or ())) == (ErrorCode.NONE, 3, 1)
    assert len(group.heartbeat("m2", 3).assignment or ()) == 1


def test_a_group_that_is_full_takes_its_own_members_alone() -> None:
    group = RuledGroup(ConsumerGroupConfig(max_size=1, assignment_interval_ms=0), orders=1)
    group.join("m")
    full = group.join("x")
    assert (full.error, "1 members" in (full.message or "")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, True)
    assert group.join("m").error is ErrorCode.NONE


def test_a_group_that_has_used_up_its_epochs_says_so() -> None:
    group = RuledGroup(orders=1)
    group.join("m")
    group.group = replaced(group.group, epoch=2**31 - 1)
    refused = group.join("x")
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "epochs" in (refused.message or "")


# Static members


def test_a_heartbeat_that_was_overtaken_does_not_confirm_what_the_member_was_told_since() -> None:
    group = RuledGroup(orders=2)
    group.join("m")
    group.join("n")
    group.heartbeat("m", 2)
    kept = group.heartbeat("m", 2, owned=group.member("m").assigned)
    assert (kept.epoch, group.member("m").previous_epoch) == (3, 2)
    group.heartbeat("m", 3, topics=())  # it is to revoke all that it has, so it knows its epoch
    pending = group.member("m").pending
    assert len(pending) == 1
    assert group.heartbeat("m", 2, owned=()).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.member("m").pending == pending


def test_a_member_that_joins_again_as_another_instance_is_the_successor_of_that_one_alone() -> None:
    group = RuledGroup(orders=4)
    group.join("m", instance_id="a")
    group.join("n", instance_id="b")
    group.heartbeat("m", 2)
    group.heartbeat("m", 2, owned=group.member("m").assigned)
    group.heartbeat("m", -2)
    group.join("n", instance_id="a")
    assert list(group.group.members) == ["n"]
    assert group.group.instances == {"a": "n"}
    replayed = group.replayed()
    assert replayed is not None
    assert (replayed.members, replayed.instances) == (group.group.members, group.group.instances)
    assert (numbers(group.member("n").assigned), group.group.state.value) == ([0, 1, 2, 3], "Stable")


def test_an_instance_that_is_held_is_not_released() -> None:
    group = RuledGroup(orders=1)
    group.join("m1", instance_id="i")
    assert group.join("m2", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.heartbeat("m2", 2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat("m2", 2, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("m2", -2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_whose_join_was_not_answered_joins_again() -> None:
    group = RuledGroup(orders=1)
    group.join("m", instance_id="i")
    assert numbers(group.join("m", instance_id="i").assignment) == [0]


def test_a_static_member_comes_back_to_what_it_had_without_another_epoch() -> None:
    group = RuledGroup(orders=2)
    group.join("m1", instance_id="i")
    group.join("m2")
    mine = group.heartbeat("m1", 2).assignment or frozenset()
    group.heartbeat("m1", 2, owned=mine)
    group.heartbeat("m2", 3)
    away = group.heartbeat("m1", -2, instance_id="i")
    assert (away.error, away.epoch, group.kinds) == (ErrorCode.NONE, -2, ["8"])
    assert group.group.state is ConsumerGroupState.RECONCILING
    assert group.member("m1").assigned == dict.fromkeys(mine, 0)
    assert group.runs(SESSION, "m1")
    back = group.join("m3", instance_id="i")
    assert (back.epoch, back.assignment, group.group.epoch) == (3, mine, 3)
    assert group.kinds == ["8+", "7+", "5+", "5", "7", "8", "8"]
    assert "m1" not in group.group.members
    assert group.group.state is ConsumerGroupState.STABLE


# Timers


def test_the_first_member_of_an_empty_group_does_not_wait_for_the_target_of_the_last_one() -> None:
    group = RuledGroup(ConsumerGroupConfig(assignment_interval_ms=10_000), orders=2)
    group.join("m")
    group.heartbeat("m", -1)
    assert (group.kinds, group.group.epoch, group.group.assignment_epoch) == (["8+", "7+", "5+", "3", "6"], 3, 3)
    joined = group.join("n")
    assert (joined.epoch, numbers(joined.assignment)) == (4, [0, 1])


def test_a_member_whose_session_ends_leaves() -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.fire(SESSION, "m1")
    assert list(group.group.members) == ["m2"]
    assert not any(timer.member_id == "m1" for timer in group.timers)
    assert numbers(group.heartbeat("m2", 3).assignment) == [0, 1]


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.heartbeat("m1", 2)
    group.fire(REBALANCE, "m1")
    assert list(group.group.members) == ["m2"]


def test_the_next_target_waits_for_the_interval_and_for_a_heartbeat() -> None:
    group = RuledGroup(ConsumerGroupConfig(assignment_interval_ms=1000), orders=2)
    assert group.join("m1").epoch == 2
    group.now_ms += 999
    late = group.join("m2")
    assert (late.epoch, late.assignment, group.member("m2").state) == (2, frozenset(), ConsumerMemberState.STABLE)
    group.now_ms += 1
    assert group.heartbeat("m2", 2).epoch == 3


def test_a_clock_that_was_put_back_delays_no_target() -> None:
    group = RuledGroup(ConsumerGroupConfig(assignment_interval_ms=1000), orders=2)
    group.join("m1")
    group.now_ms -= 900
    assert group.join("m2").epoch == 3


def test_the_assignor_with_most_votes_is_used() -> None:
    group = RuledGroup(AT_ONCE, orders=3)
    group.join("b", assignor="range")
    group.join("a", assignor="range")
    assert numbers(group.group.target("a")) == [0, 1]
    assert numbers(group.group.target("b")) == [2]


@pytest.mark.parametrize("owned", [None, (0,)])
def test_what_a_member_says_that_it_has_is_not_kept(owned: tuple[int, ...] | None) -> None:
    group = RuledGroup(orders=2)
    group.join("m1")
    group.join("m2")
    group.heartbeat("m2", 3, owned=owned)
    assert group.member("m2").assigned == {}
