"""Groups of one user fill its share of the memory, and no more (security.md 6.2)."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from group_api import GroupApis
from group_fakes import turns
from manual_clock import ManualClock

from eosin.broker.handlers import join_group, leave_group, sync_group
from eosin.broker.security.group_shares import COUNT_AGAIN_MS, GroupShares
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, TopologyDescribed
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology, topology_bytes
from eosin.model.principals import Principal
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from eosin.security.session import NOBODY

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
MALLORY, ALICE = (replace(NOBODY, principal=Principal("User", name)) for name in ("mallory", "alice"))
SHARE = 100_000


@pytest.fixture
async def apis() -> GroupApis:
    apis = GroupApis()
    await apis.started()
    apis.shares = GroupShares(apis.clock, apis.groups, max_bytes=SHARE)
    return apis


def asked_by(name: str) -> Any:
    """The context of a request of this user."""
    return SimpleNamespace(session=replace(NOBODY, principal=Principal("User", name)))


async def join(apis: GroupApis, group_id: str, size: int = 10_000, *, session: Any = MALLORY) -> Any:
    """A member of version 0, which is one at once."""
    apis.session = session
    protocols = (JoinGroupRequestProtocol("range", b"x" * size),)
    return await apis.call(
        join_group.API, 0, JoinGroupRequest(group_id, 10_000, 60_000, "", None, "consumer", protocols)
    )


def held(apis: GroupApis) -> int:
    return sum(
        len(metadata)
        for group in apis.groups.live_groups()
        for member in group.members.values()
        for _, metadata in member.protocols
    )


async def test_the_metadata_of_one_user_is_bounded_and_another_goes_on(apis: GroupApis) -> None:
    codes = [(await join(apis, f"g-{index}")).error_code for index in range(30)]
    assert set(codes) == {ErrorCode.NONE, FULL}
    assert SHARE // 2 < held(apis) <= SHARE
    assert (await join(apis, "mine", session=ALICE)).error_code == ErrorCode.NONE


async def test_a_member_that_joins_again_and_again_fills_nothing(apis: GroupApis) -> None:
    for _ in range(30):
        answer = await join(apis, "g")
        assert answer.error_code == ErrorCode.NONE
        apis.session = MALLORY
        left = LeaveGroupRequest("g", answer.member_id, (MemberIdentity(answer.member_id),))
        await apis.call(leave_group.API, 0, left)
        await turns()


async def test_there_is_room_again_when_members_have_left(apis: GroupApis) -> None:
    members = [(await join(apis, f"g-{index}")) for index in range(30)]
    assert members[-1].error_code == FULL
    for index, answer in enumerate(members):
        left = LeaveGroupRequest(f"g-{index}", answer.member_id, (MemberIdentity(answer.member_id),))
        await apis.call(leave_group.API, 0, left)
    await turns()
    assert (await join(apis, "again")).error_code == FULL, "the groups were counted just now"
    apis.clock.advance(COUNT_AGAIN_MS)
    assert (await join(apis, "again")).error_code == ErrorCode.NONE


async def test_topologies_of_streams_groups_fill_the_share_until_the_groups_are_deleted(apis: GroupApis) -> None:
    assert apis.shares is not None
    mallory = asked_by("mallory")
    names = tuple(f"{number:0200}" for number in range(10))
    topology = Topology(0, (Subtopology("0", names, (), (), (), (), ()),))
    for number in range(20):
        request = StreamsHeartbeat("m", 0, topology=topology, process_id="p", rebalance_timeout_ms=1)
        assert apis.shares.admits(mallory, f"g-{number}", topology_bytes(topology))
        assert (await apis.groups.streams.heartbeat(f"g-{number}", request)).error is ErrorCode.NONE
        await apis.groups.streams.heartbeat(f"g-{number}", StreamsHeartbeat("m", -1))
    assert not await apis.shares.admits_after_count(mallory, "more", 60_000)
    assert set(await apis.groups.delete_groups([f"g-{number}" for number in range(20)])) == {ErrorCode.NONE}
    apis.clock.advance(COUNT_AGAIN_MS)
    assert await apis.shares.admits_after_count(mallory, "more", 60_000)


async def test_the_description_of_a_topology_counts_until_its_group_is_deleted(apis: GroupApis) -> None:
    topology = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))
    request = StreamsHeartbeat("m", 0, topology=topology, process_id="p", rebalance_timeout_ms=1000)
    assert (await apis.groups.streams.heartbeat("g", request)).error is ErrorCode.NONE
    context, size = asked_by("mallory"), SHARE // 2
    assert apis.shares.admits(context, "g", size)
    told = await apis.groups.streams.describe_topology("g", TopologyDescribed("m", 0, b"-" * size))
    assert told.error is ErrorCode.NONE
    assert not apis.shares.admits(context, "h", size)
    assert not await apis.shares.admits_after_count(context, "h", size)
    await apis.groups.streams.heartbeat("g", StreamsHeartbeat("m", -1))
    await apis.groups.delete_groups(["g"])
    apis.clock.advance(COUNT_AGAIN_MS)
    assert await apis.shares.admits_after_count(context, "h", size)


async def test_members_of_share_groups_fill_the_share_too_and_leave_room_when_they_go(apis: GroupApis) -> None:
    assert apis.shares is not None
    for number in range(20):
        request = ShareHeartbeat("m", 0, topics=("t" * 200,) * 10)
        assert apis.shares.admits(asked_by("mallory"), f"g-{number}", 2000)
        assert (await apis.groups.share.heartbeat(f"g-{number}", request)).error is ErrorCode.NONE
    mallory = asked_by("mallory")
    assert not apis.shares.admits(mallory, "more", 60_000)
    assert not await apis.shares.admits_after_count(mallory, "more", 60_000)
    for number in range(20):
        await apis.groups.share.heartbeat(f"g-{number}", ShareHeartbeat("m", -1))
    apis.clock.advance(COUNT_AGAIN_MS)
    assert await apis.shares.admits_after_count(mallory, "more", 60_000)


class Groups:
    """The groups of a coordinator, each of one member, by their ids."""

    def __init__(self) -> None:
        self.live: dict[str, Group] = {}
        self.share = self.streams = SimpleNamespace(describe=self.describe_consumer)

    def describe(self, group_id: str) -> Group | ErrorCode:
        return self.live.get(group_id, ErrorCode.GROUP_ID_NOT_FOUND)

    def describe_consumer(self, group_id: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND


def test_users_without_groups_are_forgotten_however_many_come() -> None:
    clock, groups = ManualClock(), Groups()
    shares = GroupShares(clock, cast(Any, groups), max_bytes=SHARE)
    groups.live["kept"] = Group("kept", members={"m": cast(Any, None)})
    assert shares.admits(asked_by("faithful"), "kept", 100)
    held = shares.held_bytes(Principal("User", "faithful"))
    for number in range(100_000):
        clock.advance(COUNT_AGAIN_MS / 100)
        assert shares.admits(asked_by(f"user-{number}"), f"g-{number}", 100)
    assert len(shares) < 200
    assert shares.held_bytes(Principal("User", "faithful")) == held > 0


def test_a_user_with_many_groups_is_forgotten_when_all_are_gone() -> None:
    clock, groups = ManualClock(), Groups()
    shares = GroupShares(clock, cast(Any, groups), max_bytes=SHARE)
    for number in range(50):
        assert shares.admits(asked_by("mallory"), f"g-{number}", 100)
    for number in range(50):
        clock.advance(COUNT_AGAIN_MS)
        shares.admits(asked_by("alice"), f"h-{number}", 100)
    assert shares.held_bytes(Principal("User", "mallory")) == 0
    assert len(shares) == 1


def test_a_group_that_is_about_to_begin_counts_for_a_user_that_was_long_away() -> None:
    clock = ManualClock()
    shares = GroupShares(clock, cast(Any, Groups()), max_bytes=SHARE)
    for number in range(3):
        clock.advance(COUNT_AGAIN_MS * 2)
        assert shares.admits(asked_by("alice"), f"g-{number}", 100)
        assert shares.held_bytes(Principal("User", "alice")) > 0


async def test_a_user_that_may_bring_nothing_is_not_remembered(apis: GroupApis) -> None:
    assert apis.shares is not None
    assert (await join(apis, "g", 2 * SHARE)).error_code == FULL
    assert len(apis.shares) == 0


async def test_assignments_count_like_metadata(apis: GroupApis) -> None:
    leader = await join(apis, "g", 10)
    request = SyncGroupRequest(
        "g",
        leader.generation_id,
        leader.member_id,
        assignments=(SyncGroupRequestAssignment(leader.member_id, b"x" * SHARE),),
    )
    assert (await apis.call(sync_group.API, 0, request)).error_code == FULL


async def test_what_classic_members_bring_to_a_consumer_group_counts_too(apis: GroupApis) -> None:
    subscription = bytes.fromhex("0000 00000001 0006") + b"orders" + b"\xff\xff\xff\xff"
    heartbeat = ConsumerHeartbeat("new", 0, rebalance_timeout_ms=1, topics=("orders",), owned=frozenset())
    codes = []
    for number in range(30):
        group_id = f"g-{number}"
        assert (await apis.groups.consumer_heartbeat(group_id, heartbeat)).error is ErrorCode.NONE
        apis.session = MALLORY
        protocols = (JoinGroupRequestProtocol("range", subscription + b"x" * 10_000),)
        request = JoinGroupRequest(group_id, 10_000, 60_000, "", None, "consumer", protocols)
        codes.append((await apis.call(join_group.API, 0, request)).error_code)
    assert codes.count(ErrorCode.NONE) <= SHARE // 10_000
    assert codes[-1] == FULL
