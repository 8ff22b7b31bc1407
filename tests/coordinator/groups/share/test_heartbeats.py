"""Heartbeats of members of share groups: epochs, targets, and shared partitions (share-groups.md 3 to 6)."""

import pytest
from consumer_group import topic
from msgspec.structs import replace
from share_group import RuledShareGroup, numbers

from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat, StatesInitialized
from eosin.coordinator.groups.share.rules.group import MAX_EPOCH, ShareGroupState
from eosin.coordinator.groups.share.rules.validation import refusal
from eosin.protocol.errors import ErrorCode


def ready(*members: str, config: ShareGroupConfig | None = None, **topics: int) -> RuledShareGroup:
    """A group whose states are initialized, and whose members have heard of it."""
    group = RuledShareGroup(config or ShareGroupConfig(assignment_interval_ms=0), **topics)
    for member_id in members:
        group.join(member_id)
        group.initialize()
    for member_id in members:
        group.heartbeat(member_id, group.member(member_id).epoch)
    return group


def test_a_member_has_nothing_until_the_states_of_its_partitions_are_there() -> None:
    group = RuledShareGroup(orders=2)
    first = group.join("m1")
    assert (first.epoch, first.assignment, group.kinds) == (2, frozenset(), ["10", "11", "13", "12", "14", "15"])
    assert group.heartbeat("m1", 2).assignment is None
    assert group.kinds == []
    group.initialize()
    assert group.kinds == ["15"]
    given = group.heartbeat("m1", 2)
    assert (given.epoch, numbers(given.assignment), group.kinds) == (3, [0, 1], ["11", "13", "12", "14"])
    assert group.heartbeat("m1", 3).assignment is None


def test_members_share_a_partition_when_there_are_more_of_them() -> None:
    group = ready("m1", orders=1)
    joined = group.join("m2")
    assert (joined.epoch, numbers(joined.assignment)) == (4, [0])
    assert group.heartbeat("m1", 3).assignment is None or group.member("m1").epoch == 4
    assert numbers(group.member("m1").assigned) == [0]
    assert group.group.state is ShareGroupState.STABLE


def test_partitions_go_over_to_a_member_that_joins_without_waiting_for_the_other() -> None:
    group = ready("m1", orders=2)
    joined = group.join("m2")
    assert (joined.epoch, len(joined.assignment or ())) == (4, 1)
    assert len(group.heartbeat("m1", 3).assignment or ()) == 1


def test_a_heartbeat_that_names_topics_is_told_the_assignment_and_one_that_does_not_only_news() -> None:
    group = ready("m", orders=2)
    assert group.heartbeat("m", 3).assignment is None
    assert numbers(group.heartbeat("m", 3, topics=("orders",)).assignment) == [0, 1]
    assert group.kinds == []


def test_another_address_or_rack_is_written_and_begins_no_epoch() -> None:
    group = ready("m", orders=1)
    group.heartbeat("m", 3, rack_id="r", client_host="/h")
    assert (group.kinds, group.group.epoch) == (["10"], 3)


def test_a_member_that_leaves_begins_an_epoch_and_the_next_heartbeat_shares_out_its_partitions() -> None:
    group = ready("m1", "m2", orders=2)
    epoch = group.group.epoch
    left = group.heartbeat("m2", -1)
    assert (left.error, left.epoch, group.kinds, group.group.epoch) == (0, -1, ["14+", "13+", "10+", "11"], epoch + 1)
    assert numbers(group.heartbeat("m1", group.member("m1").epoch).assignment) == [0, 1]
    group.expire("m1")
    assert (group.group.state, group.sessions) == (ShareGroupState.EMPTY, set())
    assert group.heartbeat("m1", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_that_a_member_cannot_have_are_fenced_and_the_previous_one_is_not() -> None:
    group = ready("m", orders=1)
    assert group.heartbeat("m", 4).error is ErrorCode.FENCED_MEMBER_EPOCH
    stale = group.heartbeat("m", 1)
    assert stale.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "and it does not match the previous member epoch (2)" in str(stale.message)
    again = group.heartbeat("m", 2)
    assert (again.epoch, numbers(again.assignment)) == (3, [0])
    assert group.heartbeat("x", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_again_under_its_id_is_the_same_member() -> None:
    group = ready("m", orders=2)
    again = group.join("m")
    assert (again.epoch, numbers(again.assignment), group.kinds) == (3, [0, 1], [])


def test_a_full_group_takes_only_its_own_members() -> None:
    group = ready("m", config=ShareGroupConfig(max_size=1), orders=1)
    assert group.join("x").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join("m").error is ErrorCode.NONE


def test_a_topic_that_grows_gets_the_states_of_its_new_partitions_first() -> None:
    group = ready("m", orders=1)
    group.topics["orders"] = topic("orders", 3)
    group.looks = True
    grown = group.heartbeat("m", 3)
    assert (grown.epoch, grown.assignment, group.kinds) == (4, frozenset({group.place(0)}), ["11", "12", "14", "15"])
    group.looks = False
    group.initialize()
    assert numbers(group.heartbeat("m", 4).assignment) == [0, 1, 2]


def test_states_that_come_one_after_the_other_are_shared_out_as_they_come() -> None:
    group = RuledShareGroup(orders=2)
    group.join("m")
    group.happen(StatesInitialized(frozenset({group.place(1)})))
    assert numbers(group.heartbeat("m", 2).assignment) == [1]
    group.happen(StatesInitialized(frozenset({group.place(0)})))
    assert numbers(group.heartbeat("m", 3).assignment) == [0, 1]
    assert group.group.states.initializing == {}


def test_a_topic_that_is_not_there_is_no_error_and_counts_when_it_comes() -> None:
    group = ready("m", orders=1)
    group.heartbeat("m", 3, topics=("later", "orders"))
    group.topics["later"] = topic("later", 1)
    group.looks = True
    group.heartbeat("m", 4)
    group.initialize()
    assert len(group.heartbeat("m", 5).assignment or ()) == 2


def test_a_topic_that_comes_back_under_its_name_is_another_one() -> None:
    group = ready("m", orders=1)
    before = group.place(0)
    group.topics["orders"] = topic("orders", 1, life=1)
    group.looks = True
    assert group.heartbeat("m", 3).assignment == frozenset()
    group.initialize()
    after = group.heartbeat("m", 4).assignment
    assert after == frozenset({group.place(0)})
    assert before not in after


def test_a_member_gets_nothing_of_a_topic_that_it_has_left() -> None:
    group = ready("m", config=ShareGroupConfig(assignment_interval_ms=10_000), orders=1, audit=1)
    left = group.heartbeat("m", 3, topics=("audit",))
    assert (group.group.epoch, group.group.assignment_epoch, left.epoch) == (4, 3, 3)
    assert left.assignment == frozenset({group.place(0, "audit")})
    assert group.heartbeat("m", 3, topics=()).assignment == frozenset()


def test_the_next_target_waits_for_its_interval_but_not_after_one_without_partitions() -> None:
    group = RuledShareGroup(ShareGroupConfig(assignment_interval_ms=1000), orders=2)
    group.join("m1")
    group.initialize()
    assert len(group.heartbeat("m1", 2).assignment or ()) == 2
    waits = group.join("m2")
    assert (waits.epoch, waits.assignment, group.group.epoch) == (3, frozenset(), 4)
    group.now_ms += 1000
    assert len(group.heartbeat("m2", 3).assignment or ()) == 1


def test_a_group_that_has_used_up_its_epochs_says_so() -> None:
    group = ready("m", orders=1)
    group.group = replace(group.group, epoch=MAX_EPOCH, assignment_epoch=MAX_EPOCH)
    assert group.join("x").error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_target_of_a_large_group_is_computed_beside_its_decisions() -> None:
    group = RuledShareGroup(most_at_once=3, orders=4)
    group.join("m1")
    group.initialize()
    assert group.heartbeat("m1", 2).epoch == 2
    assert group.parts
    group.join("m2")  # comes too late for this target
    group.keep_target()
    given = group.heartbeat("m1", 2)
    assert (given.epoch, len(given.assignment or ())) == (3, 4)
    group.keep_target()
    assert [len(group.heartbeat(each, group.member(each).epoch).assignment or ()) for each in ("m1", "m2")] == [2, 2]


@pytest.mark.parametrize(
    ("request_", "group_id", "said"),
    [
        (ShareHeartbeat("", 0, topics=("t",)), "g", "MemberId can't be empty."),
        (ShareHeartbeat("m" * 37, 0, topics=("t",)), "g", "MemberId has more than 36 characters."),
        (ShareHeartbeat("m", 0, topics=("t",)), " ", "GroupId can't be empty."),
        (ShareHeartbeat("m", 0, topics=("t",), rack_id=" "), "g", "RackId can't be empty."),
        (ShareHeartbeat("m", 0), "g", "SubscribedTopicNames must be set in first request."),
        (ShareHeartbeat("m", 0, topics=()), "g", "SubscribedTopicNames must be set in first request."),
        (ShareHeartbeat("m", -2), "g", "MemberEpoch -2 is not supported."),
        (ShareHeartbeat("m", 1, topics=("t",) * 10_001), "g", "SubscribedTopicNames has more than 10000 names."),
    ],
)
def test_a_request_that_can_be_of_no_use_is_refused_with_a_sentence(
    request_: ShareHeartbeat, group_id: str, said: str
) -> None:
    refused = refusal(group_id, request_, config=ShareGroupConfig())
    assert refused is not None
    assert (refused.error, refused.message) == (ErrorCode.INVALID_REQUEST, said)
