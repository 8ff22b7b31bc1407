"""Members of a consumer group that use the classic protocol (consumer-groups.md 15)."""

import pytest
from consumer_group import AT_ONCE, topic
from migrating_group import MigratingGroup, metadata
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import ConsumerMemberState
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, MigrationPolicy
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment

NONE = ErrorCode.NONE
AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
SESSION, JOIN, SYNC = ConsumerTimerKind.SESSION, ConsumerTimerKind.JOIN, ConsumerTimerKind.SYNC


def joined(group: MigratingGroup, member_id: str, *topics: str, **fields: object) -> JoinResult:
    answer = group.answers[group.join(member_id, *topics, **fields)]  # type: ignore[arg-type]
    assert isinstance(answer, JoinResult)
    return answer


def synced(group: MigratingGroup, member_id: str, generation_id: int, **fields: object) -> SyncResult:
    answer = group.answers[group.sync(member_id, generation_id, **fields)]  # type: ignore[arg-type]
    assert isinstance(answer, SyncResult)
    return answer


def fetched(group: MigratingGroup, member_id: str, generation_id: int) -> dict[str, tuple[int, ...]]:
    """The assignment that SyncGroup brings, by topic."""
    answer = synced(group, member_id, generation_id)
    assert answer.error is NONE
    assignment = decode_value(ConsumerProtocolAssignment, answer.assignment)
    return {each.topic: each.partitions for each in assignment.assigned_partitions}


def shared(config: ConsumerGroupConfig = AT_ONCE) -> MigratingGroup:
    """A group with one member by each protocol, each of which has two partitions."""
    group = MigratingGroup(config, orders=4)
    given = group.joins("new").assignment or frozenset()
    assert joined(group, "old").error is NONE
    kept = group.heartbeat("new", 2).assignment or frozenset()
    assert (len(given), len(kept)) == (4, 2)
    group.heartbeat("new", 2, owned=kept)
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert joined(group, "old").generation_id == 3
    return group


def test_a_classic_member_joins_at_once_and_nobody_leads() -> None:
    group = MigratingGroup(orders=4)
    group.joins("new")
    protocols = (("sticky", metadata("orders")), ("range", metadata("orders")))
    answer = joined(group, "old", protocols=protocols)
    assert (answer.error, answer.member_id, answer.generation_id) == (NONE, "old", 3)
    assert (answer.protocol_type, answer.protocol_name, answer.leader_id, answer.members) == (
        "consumer",
        "sticky",
        "",
        (),
    )
    assert group.kinds == ["5", "3", "7", "7", "6", "8"]
    member = group.member("old")
    assert member.classic is not None
    assert (member.classic.session_timeout_ms, member.classic.protocols) == (10_000, protocols)
    assert (member.topics, member.regex, member.assignor) == (("orders",), "", None)


def test_it_fetches_what_others_have_revoked_after_it_has_joined_again() -> None:
    group = MigratingGroup(orders=4)
    group.joins("new")
    assert joined(group, "old").generation_id == 3
    assert fetched(group, "old", 3) == {}
    assert group.classic_heartbeat("old", 3) is NONE
    kept = group.heartbeat("new", 2).assignment or frozenset()
    assert group.classic_heartbeat("old", 3) is NONE, "they are not free yet"
    group.heartbeat("new", 2, owned=kept)
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert joined(group, "old").generation_id == 3
    (numbers,) = fetched(group, "old", 3).values()
    assert {*numbers, *(each.partition for each in kept)} == {0, 1, 2, 3}
    assert group.is_stable()


def test_a_heartbeat_tells_it_of_a_new_target_which_it_fetches_then() -> None:
    group = shared()
    group.heartbeat("new", -1)
    assert group.consumer is None, "nobody else is left"
    group = shared()
    group.joins("third")
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert synced(group, "old", 3).error is AGAIN
    assert joined(group, "old").generation_id == 4
    assert len(fetched(group, "old", 4)["orders"]) == 1


def test_an_eager_member_has_revoked_everything_when_it_joins() -> None:
    group = shared()
    group.joins("third")
    assert joined(group, "old").generation_id == 4
    assert group.member("old").state is ConsumerMemberState.STABLE


def test_a_cooperative_member_first_fetches_what_it_keeps() -> None:
    group = shared()
    group.joins("third")
    before = {"orders": tuple(sorted(each.partition for each in group.member("old").assigned))}
    answer = joined(group, "old", owned=before)
    assert (answer.generation_id, group.member("old").state) == (3, ConsumerMemberState.UNREVOKED_PARTITIONS)
    kept = fetched(group, "old", 3)
    assert len(kept["orders"]) == 1
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert joined(group, "old", owned=kept).generation_id == 4
    assert fetched(group, "old", 4) == kept


def test_one_that_goes_on_by_the_new_protocol_while_it_is_to_revoke_has_the_time_for_it_that_others_have() -> None:
    group = shared()
    group.joins("third")
    before = {"orders": tuple(sorted(each.partition for each in group.member("old").assigned))}
    assert joined(group, "old", owned=before).generation_id == 3
    assert group.heartbeat("old", 3).error is NONE
    assert group.member("old").classic is None
    assert group.member("old").state is ConsumerMemberState.UNREVOKED_PARTITIONS
    assert ConsumerTimer(JOIN, "old") not in group.timers
    group.fire(ConsumerTimer(ConsumerTimerKind.REBALANCE, "old"))
    assert group.consumer is not None
    assert "old" not in group.consumer.members


def test_what_it_says_to_have_of_a_topic_that_is_gone_is_nothing() -> None:
    group = shared()
    group.topics["orders"] = topic("orders", 4, life=1)
    group.topics_changed = True
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert joined(group, "old", owned={"gone": (1,), "orders": (-1,)}).generation_id == 4


def test_a_topic_that_grows_is_noticed_at_its_heartbeat_though_nobody_leads() -> None:
    group = shared()
    group.topics["orders"] = topic("orders", 8)
    group.topics_changed = True
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert group.kinds == ["3", "7", "7", "6"]


def test_a_target_that_waits_for_its_interval_is_computed_at_its_heartbeat() -> None:
    group = shared()
    group.config = replaced_config(assignment_interval_ms=1000)
    group.now_ms += 5000
    group.joins("third")
    group.leave("third")
    assert group.classic_heartbeat("old", 3) is AGAIN
    assert joined(group, "old").generation_id == 4
    assert group.classic_heartbeat("old", 4) is NONE, "the target of epoch 5 is still to come"
    group.now_ms += 1000
    assert group.classic_heartbeat("old", 4) is AGAIN


def replaced_config(**fields: object) -> ConsumerGroupConfig:
    return ConsumerGroupConfig(**{"assignment_interval_ms": 0, **fields})  # type: ignore[arg-type]


# Refusals


def test_a_dynamic_member_is_sent_back_with_an_id_that_nobody_remembers() -> None:
    group = MigratingGroup(orders=1)
    group.joins("new")
    before = group.consumer
    answer = joined(group, "")
    assert (answer.error, bool(answer.member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, True)
    assert group.consumer is before
    assert joined(group, answer.member_id).error is NONE
    assert joined(group, "", needs_known_id=False).error is NONE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\0\1"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("other", metadata("orders")),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody's"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_join_that_cannot_be_changes_nothing(fields: dict[str, object], error: ErrorCode) -> None:
    group = shared()
    assert joined(group, "", instance_id="i").error is NONE
    before = group.consumer
    assert joined(group, "x", **fields).error is error
    assert group.consumer is before


def test_a_member_may_change_its_protocols_if_the_others_have_them() -> None:
    group = MigratingGroup(orders=1)
    group.joins("new")
    joined(group, "old")
    assert joined(group, "old", protocols=(("other", metadata("orders")),)).error is NONE


def test_a_full_group_takes_its_own_members_alone() -> None:
    group = shared(replaced_config(max_size=2))
    assert joined(group, "third").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(group, "old").error is NONE


def test_no_classic_member_joins_where_the_policy_is_disabled_but_those_that_are_there_stay() -> None:
    group = shared()
    group.config = replaced_config(migration_policy=MigrationPolicy.DISABLED)
    assert joined(group, "third").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined(group, "old").error is NONE


def test_who_is_no_classic_member_or_speaks_of_another_generation_is_told_so() -> None:
    group = shared()
    for ask in (
        lambda member_id, generation_id: synced(group, member_id, generation_id).error,
        group.classic_heartbeat,
    ):
        assert ask("x", 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ask("new", 3) is ErrorCode.UNKNOWN_MEMBER_ID
        assert ask("old", 2) is ErrorCode.ILLEGAL_GENERATION
    assert group.classic_heartbeat("old", 3, "i") is ErrorCode.UNKNOWN_MEMBER_ID
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert synced(group, "old", 3, **fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    good = synced(group, "old", 3, protocol_type="consumer", protocol_name="range")
    assert (good.error, good.protocol_type, good.protocol_name) == (NONE, "consumer", "range")


def test_an_assignment_is_in_the_version_of_the_subscription() -> None:
    group = MigratingGroup(orders=1)
    group.joins("new")
    for version in (0, 3):
        protocols = (("range", metadata("orders", version=version)),)
        answer = joined(group, "old", protocols=protocols)
        assert synced(group, "old", answer.generation_id).assignment[:2] == version.to_bytes(2, "big")
    newer = (99).to_bytes(2, "big") + metadata("orders", version=3)[2:]
    answer = joined(group, "old", protocols=(("range", newer),))
    assert synced(group, "old", answer.generation_id).assignment[:2] == (3).to_bytes(2, "big")


# Timers


def runs(group: MigratingGroup, member_id: str) -> set[ConsumerTimerKind]:
    return {timer.kind for timer in group.timers if timer.member_id == member_id}


def test_each_step_that_it_is_to_take_has_its_time() -> None:
    group = MigratingGroup(orders=4)
    group.joins("new")
    joined(group, "old", session_timeout_ms=7000, rebalance_timeout_ms=9000)
    assert group.timers[ConsumerTimer(SESSION, "old")].delay_ms == 7000
    assert group.timers[ConsumerTimer(SYNC, "old")].delay_ms == 9000
    fetched(group, "old", 3)
    assert runs(group, "old") == {SESSION}
    group.joins("third")
    group.classic_heartbeat("old", 3)
    first = group.timers[ConsumerTimer(JOIN, "old")]
    group.classic_heartbeat("old", 3)
    assert group.timers[ConsumerTimer(JOIN, "old")] is first, "it is not put off by heartbeats"
    joined(group, "old")
    assert runs(group, "old") == {SESSION, SYNC}


@pytest.mark.parametrize("kind", [SESSION, JOIN, SYNC])
def test_a_member_that_does_not_take_its_step_in_time_is_out(kind: ConsumerTimerKind) -> None:
    group = shared()
    fetched(group, "old", 3)
    group.joins("third")
    group.classic_heartbeat("old", 3)
    if kind is SYNC:
        joined(group, "old")
    group.fire(ConsumerTimer(kind, "old"))
    assert group.consumer is not None
    assert "old" not in group.consumer.members
    assert not runs(group, "old")


# From one protocol to the other


def test_a_static_member_that_comes_by_the_other_protocol_takes_its_own_place() -> None:
    group = MigratingGroup(orders=4)
    group.joins("new", instance_id="i")
    group.joins("other")
    had = group.heartbeat("new", 2, owned=frozenset()).assignment
    group.heartbeat("other", 3)
    answer = joined(group, "", instance_id="i")
    assert (answer.error, answer.generation_id) == (NONE, 3), "the epoch does not move"
    assert group.consumer is not None
    assert sorted(group.consumer.members) == ["fresh-1", "other"]
    (numbers,) = fetched(group, "fresh-1", 3).values()
    assert numbers == tuple(sorted(each.partition for each in had or ()))
    back = group.joins("newer", instance_id="i")
    assert (back.error, back.epoch, back.assignment) == (NONE, 3, had)
    assert sorted(group.consumer.members) == ["newer", "other"]
    assert runs(group, "newer") == {SESSION}


def test_a_full_group_takes_a_static_member_back_by_the_other_protocol() -> None:
    group = MigratingGroup(replaced_config(max_size=2), orders=4)
    group.joins("new", instance_id="i")
    group.joins("other")
    assert joined(group, "", instance_id="i").error is NONE
    assert group.joins("newer", instance_id="i").error is NONE


def test_a_member_that_left_by_one_protocol_does_not_keep_what_it_had() -> None:
    group = shared()
    fetched(group, "old", 3)
    had = set(group.member("old").assigned)
    assert group.leave("old") is NONE
    kept = group.heartbeat("new", 3).assignment or frozenset()
    assert had < {TopicIdPartition(*each) for each in kept}


def test_a_member_that_has_the_last_epoch_is_told_so_and_stays() -> None:
    group = shared()
    assert group.consumer is not None
    group.consumer = replace(group.consumer, epoch=2**31 - 1)
    assert joined(group, "third").error is ErrorCode.UNKNOWN_SERVER_ERROR
    group.topics_changed = True
    group.topics["orders"] = topic("orders", 9)
    assert group.classic_heartbeat("old", 3) in (NONE, AGAIN)


def test_a_member_that_was_removed_and_holds_on_to_something_is_to_give_it_up_first() -> None:
    group = shared()
    kept = {"orders": tuple(sorted(each.partition for each in group.member("old").assigned))}
    group.fire(ConsumerTimer(SESSION, "old"))
    assert joined(group, "old", owned=kept).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert joined(group, "old").error is NONE
