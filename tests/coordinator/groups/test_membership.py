"""Groups through the service: durability, timers on the clock, and what happens around a crash (groups.md 18)."""

import asyncio

import pytest
from group_fakes import Broker, FakeOffsetsLog, listed_groups, subscription, turns

from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.protocol.errors import ErrorCode

SESSION = 10_000
REBALANCE = 60_000


def state_of(broker: Broker, group_id: str = "g") -> GroupState:
    group = broker.groups.describe(group_id)
    assert isinstance(group, Group)
    return group.state


@pytest.fixture
async def broker() -> Broker:
    return await Broker().started()


async def pair(broker: Broker) -> tuple[str, str]:
    """Two members of a stable group in generation 2, the first one leading."""
    first = await broker.member()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    again = await broker.join(member_id=first.member_id)
    joined = await second
    follower = asyncio.ensure_future(broker.sync(joined))
    await broker.sync(again, {first.member_id: b"a", joined.member_id: b"b"})
    assert (await follower).assignment == b"b"
    return first.member_id, joined.member_id


# Life of a group


async def test_a_consumer_alone_goes_all_the_way(broker: Broker) -> None:
    first = await broker.join()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("c-")
    joined = await broker.join(member_id=first.member_id)
    assert (joined.error, joined.generation_id, joined.leader_id) == (ErrorCode.NONE, 1, first.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [member.metadata for member in joined.members] == [subscription("orders")]
    synced = await broker.sync(joined, {joined.member_id: b"mine"})
    assert (synced.error, synced.assignment) == (ErrorCode.NONE, b"mine")
    assert broker.groups.heartbeat("g", generation_id=1, member_id=joined.member_id) is ErrorCode.NONE


async def test_two_members_share_a_group(broker: Broker) -> None:
    await pair(broker)
    assert state_of(broker) is GroupState.STABLE


async def test_an_assignment_is_not_given_out_before_it_is_durable(broker: Broker) -> None:
    joined = await broker.join(api_version=3)
    broker.log.held = True
    sync = asyncio.ensure_future(broker.sync(joined, {joined.member_id: b"mine"}))
    await turns()
    assert not sync.done()
    assert state_of(broker) is GroupState.COMPLETING_REBALANCE
    await broker.log.release()
    assert (await sync).assignment == b"mine"


async def test_an_assignment_that_cannot_be_written_ends_in_a_rebalance(broker: Broker) -> None:
    joined = await broker.join(api_version=3)
    broker.log.refuse = ErrorCode.MESSAGE_TOO_LARGE
    assert (await broker.sync(joined)).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert state_of(broker) is GroupState.PREPARING_REBALANCE
    broker.log.refuse = None
    again = await broker.join(member_id=joined.member_id)
    assert (await broker.sync(again, {again.member_id: b"mine"})).assignment == b"mine"


async def test_an_assignment_overtaken_by_a_rebalance_is_not_applied(broker: Broker) -> None:
    joined = await broker.join(api_version=3)
    broker.log.held = True
    sync = asyncio.ensure_future(broker.sync(joined, {joined.member_id: b"old"}))
    await turns()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    assert (await sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    await broker.log.release()
    assert state_of(broker) is GroupState.PREPARING_REBALANCE
    again = await broker.join(member_id=joined.member_id)
    assert (await second).generation_id == again.generation_id == 2


async def test_a_client_that_gives_up_leaves_no_damage(broker: Broker) -> None:
    first = await broker.member()
    gone = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    gone.cancel()
    again = await broker.join(member_id=first.member_id)
    assert len(again.members) == 2
    broker.clock.advance(SESSION)
    await turns()
    assert broker.groups.heartbeat("g", generation_id=2, member_id=first.member_id) is ErrorCode.UNKNOWN_MEMBER_ID


# Timers


async def test_a_member_without_heartbeats_is_removed(broker: Broker) -> None:
    leader, follower = await pair(broker)
    for _ in range(3):
        broker.clock.advance(SESSION - 1)
        assert broker.groups.heartbeat("g", generation_id=2, member_id=leader) is ErrorCode.NONE
        assert broker.groups.heartbeat("g", generation_id=2, member_id=follower) is ErrorCode.NONE
    broker.clock.advance(SESSION - 1)
    assert broker.groups.heartbeat("g", generation_id=2, member_id=leader) is ErrorCode.NONE
    broker.clock.advance(1)
    assert broker.groups.heartbeat("g", generation_id=2, member_id=leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.groups.heartbeat("g", generation_id=2, member_id=follower) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_commits_keep_a_session_alive(broker: Broker) -> None:
    joined = await broker.member()
    for _ in range(5):
        broker.clock.advance(SESSION - 1)
        who = Committer(joined.generation_id, joined.member_id)
        await broker.groups.offsets.commit("g", [], committer=who, api_version=9)
    assert state_of(broker) is GroupState.STABLE


async def test_a_leader_that_dies_before_it_syncs_hangs_nobody(broker: Broker) -> None:
    first = await broker.member()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    await broker.join(member_id=first.member_id)
    sync = asyncio.ensure_future(broker.sync(await second))
    await turns()
    broker.clock.advance(SESSION)
    assert (await sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    alone = await broker.join(member_id=(await second).member_id)
    assert alone.leader_id == alone.member_id
    assert (await broker.sync(alone, {alone.member_id: b"all"})).assignment == b"all"


async def test_a_member_that_waits_to_join_is_not_expired_by_its_session(broker: Broker) -> None:
    first = await broker.member(session_timeout_ms=1_800_000)
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    broker.clock.advance(SESSION * 3)
    assert not second.done()
    assert (await broker.join(member_id=first.member_id)).generation_id == 2
    assert (await second).generation_id == 2


async def test_a_session_ends_on_demand_as_if_its_member_had_been_silent(broker: Broker) -> None:
    leader, follower = await pair(broker)
    assert broker.groups.end_session("g", follower) is ErrorCode.NONE
    assert broker.groups.heartbeat("g", generation_id=2, member_id=follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.groups.heartbeat("g", generation_id=2, member_id=leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.groups.end_session("g", follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.groups.end_session("other", leader) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_waits_for_others_has_no_session_that_could_end(broker: Broker) -> None:
    first = await broker.member()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    again = asyncio.ensure_future(broker.join(member_id=first.member_id))
    sync = asyncio.ensure_future(broker.sync(await second))
    await turns()
    waiting = (await second).member_id
    assert broker.groups.end_session("g", waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    await broker.sync(await again, {first.member_id: b"a", waiting: b"b"})
    assert (await sync).assignment == b"b"
    assert broker.groups.end_session("g", waiting) is ErrorCode.NONE


async def test_a_join_phase_ends_without_absent_members(broker: Broker) -> None:
    first = await broker.member(session_timeout_ms=1_800_000)
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    broker.clock.advance(REBALANCE)
    joined = await second
    assert joined.leader_id == joined.member_id
    assert broker.groups.heartbeat("g", generation_id=1, member_id=first.member_id) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_abandoned_member_id_stops_blocking_when_its_time_is_up(broker: Broker) -> None:
    first = await broker.member(session_timeout_ms=1_800_000)
    abandoned = await broker.join()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    again = asyncio.ensure_future(broker.join(member_id=first.member_id))
    await turns()
    assert not again.done()
    broker.clock.advance(SESSION)
    assert (await again).generation_id == (await second).generation_id == 2
    assert (await broker.join(member_id=abandoned.member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_group_of_which_only_an_abandoned_id_existed_leaves_no_trace(broker: Broker) -> None:
    await broker.join()
    assert state_of(broker) is GroupState.EMPTY
    broker.clock.advance(SESSION)
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.log.written == []


async def test_a_refused_first_join_leaves_no_group(broker: Broker) -> None:
    assert (await broker.join(protocols=())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_pending_ids_are_bounded_and_the_oldest_gives_way() -> None:
    broker = await Broker(GroupConfig(eosin_group_max_pending_members=2)).started()
    ids = [(await broker.join()).member_id for _ in range(3)]
    group = broker.groups.describe("g")
    assert isinstance(group, Group)
    assert list(group.pending_members) == ids[1:]
    assert (await broker.join(member_id=ids[0])).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await broker.join(member_id=ids[1])).error is ErrorCode.NONE


# Static members


async def test_a_static_member_restarts_without_a_rebalance(broker: Broker) -> None:
    joined = await broker.join(instance_id="i")
    await broker.sync(joined, {joined.member_id: b"mine"}, instance_id="i")
    again = await broker.join(instance_id="i")
    assert again.member_id != joined.member_id
    assert again.member_id.startswith("i-")
    assert (again.generation_id, again.leader_id, again.skip_assignment) == (1, again.member_id, True)
    assert (await broker.sync(again, instance_id="i")).assignment == b"mine"
    old = {"generation_id": 1, "member_id": joined.member_id, "instance_id": "i"}
    assert broker.groups.heartbeat("g", **old) is ErrorCode.FENCED_INSTANCE_ID  # type: ignore[arg-type]
    commit = broker.groups.offsets.commit
    assert await commit("g", [], committer=Committer(1, joined.member_id, "i"), api_version=9) == []


async def test_the_new_id_of_a_static_member_survives_a_crash(broker: Broker) -> None:
    joined = await broker.join(instance_id="i")
    await broker.sync(joined, {joined.member_id: b"mine"}, instance_id="i")
    again = await broker.join(instance_id="i")
    await broker.crash()
    answer = broker.groups.heartbeat("g", generation_id=1, member_id=again.member_id, instance_id="i")
    assert answer is ErrorCode.NONE


# Leaving


async def test_the_last_member_leaves_an_empty_group_behind(broker: Broker) -> None:
    joined = await broker.member()
    broker.clock.advance(77)
    result = broker.groups.leave("g", [LeavingMember(joined.member_id, None)])
    assert result.members == (ErrorCode.NONE,)
    await broker.crash()
    group = broker.groups.describe("g")
    assert isinstance(group, Group)
    assert (group.state, group.generation_id, group.protocol_type) == (GroupState.EMPTY, 2, "consumer")
    assert group.state_timestamp_ms == broker.clock.now_ms()


async def test_leaving_a_group_that_does_not_exist_is_told_per_member(broker: Broker) -> None:
    result = broker.groups.leave("g", [LeavingMember("m", None), LeavingMember("n", None)])
    assert result.error is ErrorCode.NONE
    assert result.members == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2


async def test_a_member_that_leaves_while_it_waits_is_answered(broker: Broker) -> None:
    await broker.member()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    group = broker.groups.describe("g")
    assert isinstance(group, Group)
    waiting = next(member.member_id for member in group.joining_members())
    broker.groups.leave("g", [LeavingMember(waiting, None)])
    assert (await second).error is ErrorCode.UNKNOWN_MEMBER_ID


# RefusalLog


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, -1])
async def test_a_session_timeout_out_of_range_is_refused(broker: Broker, timeout_ms: int) -> None:
    assert (await broker.join(session_timeout_ms=timeout_ms)).error is ErrorCode.INVALID_SESSION_TIMEOUT


async def test_the_empty_group_id_is_refused_where_members_are_concerned(broker: Broker) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    joined = await broker.member()
    assert (await broker.join("")).error is invalid
    assert (await broker.sync(joined, group_id="")).error is invalid
    assert broker.groups.heartbeat("", generation_id=1, member_id="m") is invalid
    assert broker.groups.leave("", []).error is invalid


async def test_a_member_id_that_no_group_gave_is_unknown(broker: Broker) -> None:
    assert (await broker.join(member_id="made-up")).error is ErrorCode.UNKNOWN_MEMBER_ID
    joined = await broker.member()
    assert (await broker.sync(joined, group_id="other")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.groups.heartbeat("other", generation_id=1, member_id="m") is ErrorCode.UNKNOWN_MEMBER_ID


async def test_version_5_of_sync_must_name_the_protocol_and_name_it_right(broker: Broker) -> None:
    joined = await broker.join(api_version=3)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await broker.sync(joined, protocol_name=None)).error is inconsistent
    assert (await broker.sync(joined, protocol_type=None)).error is inconsistent
    assert (await broker.sync(joined, protocol_name="rr")).error is inconsistent
    assert (await broker.sync(joined, protocol_name=None, protocol_type=None, api_version=4)).error is ErrorCode.NONE


async def test_a_full_group_takes_no_more_but_lets_static_members_return() -> None:
    broker = await Broker(GroupConfig(group_max_size=1)).started()
    joined = await broker.join(instance_id="i")
    await broker.sync(joined, instance_id="i")
    refused = await broker.join(instance_id="j")
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (await broker.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await broker.join(instance_id="i")).error is ErrorCode.NONE


async def test_memory_is_bounded_by_groups_and_by_what_members_bring() -> None:
    broker = await Broker(GroupConfig(eosin_group_max_groups=1, eosin_group_member_metadata_max_bytes=10)).started()
    assert (await broker.join(protocols=(("range", b"x" * 6),))).error is ErrorCode.INVALID_REQUEST
    assert (await broker.join(protocols=(("x" * 11, b""),))).error is ErrorCode.INVALID_REQUEST, "names count, too"
    assert (await broker.join("g", protocols=(("range", b""),))).error is ErrorCode.MEMBER_ID_REQUIRED
    assert (await broker.join("h", protocols=(("range", b""),))).error is ErrorCode.GROUP_MAX_SIZE_REACHED


# Ownership


async def test_nothing_is_answered_before_the_start_and_after_the_stop() -> None:
    broker = Broker()
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await broker.join()).error is unavailable
    assert listed_groups(broker) == (unavailable, [])
    await broker.started()
    await broker.member()
    await broker.groups.stop()
    assert (await broker.join()).error is unavailable
    assert broker.clock.pending == 0


async def test_requests_that_wait_at_the_stop_get_not_coordinator(broker: Broker) -> None:
    await broker.member()
    second = asyncio.ensure_future(broker.join(api_version=3))
    await turns()
    await broker.groups.stop()
    assert (await second).error is ErrorCode.NOT_COORDINATOR


async def test_a_partition_that_is_not_ours_is_refused() -> None:
    broker = Broker()
    broker.logs.logs.clear()
    await broker.started()
    assert (await broker.join()).error is ErrorCode.NOT_COORDINATOR
    assert broker.groups.heartbeat("g", generation_id=1, member_id="m") is ErrorCode.NOT_COORDINATOR


async def test_partitions_of_a_topic_that_is_created_later_are_taken_when_needed() -> None:
    broker = Broker()
    broker.logs.logs.clear()
    await broker.started()
    broker.logs.logs[0] = FakeOffsetsLog()
    assert (await broker.join()).error is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_group_survives_a_crash_with_its_generation(broker: Broker) -> None:
    leader, follower = await pair(broker)
    await broker.crash()
    assert state_of(broker) is GroupState.STABLE
    for member_id in (leader, follower):
        assert broker.groups.heartbeat("g", generation_id=2, member_id=member_id) is ErrorCode.NONE
    broker.clock.advance(SESSION)
    assert state_of(broker) is GroupState.EMPTY


async def test_a_generation_that_nobody_synced_is_gone_after_a_crash(broker: Broker) -> None:
    joined = await broker.join(api_version=3)
    await broker.crash()
    assert (await broker.sync(joined)).error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_group_that_is_larger_than_allowed_rebalances_after_loading(broker: Broker) -> None:
    await pair(broker)
    broker.config = GroupConfig(group_max_size=1)
    await broker.crash()
    assert state_of(broker) is GroupState.PREPARING_REBALANCE


# Overviews


async def test_groups_are_listed_by_state_and_type_in_any_case(broker: Broker) -> None:
    await broker.member("busy")
    joined = await broker.member("idle")
    broker.groups.leave("idle", [LeavingMember(joined.member_id, None)])
    _, listed = listed_groups(broker)
    assert [(each.group_id, each.state, each.group_type) for each in listed] == [
        ("busy", "Stable", "classic"),
        ("idle", "Empty", "classic"),
    ]
    assert [each.group_id for each in listed_groups(broker, states=["STABLE"])[1]] == ["busy"]
    assert [each.group_id for each in listed_groups(broker, types=["Classic"])[1]] == ["busy", "idle"]
    assert listed_groups(broker, types=["consumer"]) == (ErrorCode.NONE, [])
