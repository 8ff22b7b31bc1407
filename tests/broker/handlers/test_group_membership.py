"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, at every version."""

import asyncio
from typing import Any

import pytest
from group_api import GroupApis
from group_fakes import turns

from eosin.broker.handlers import heartbeat, join_group, leave_group, sync_group
from eosin.coordinator.groups.rules.group import MOST_PROTOCOLS, Group
from eosin.network.api import Api
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

RANGE = (JoinGroupRequestProtocol("range", b"topics"),)
APIS = (join_group.API, sync_group.API, heartbeat.API, leave_group.API)


@pytest.fixture
async def apis() -> GroupApis:
    apis = GroupApis()
    await apis.started()
    return apis


def joining(**fields: Any) -> JoinGroupRequest:
    defaults = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinGroupRequest(**{**defaults, **fields})


async def joined(apis: GroupApis, version: int = 9, **fields: Any) -> Any:
    first = await apis.call(join_group.API, version, joining(**fields))
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await apis.call(join_group.API, version, joining(member_id=first.member_id, **fields))
    return first


async def test_a_member_that_brings_more_protocols_than_any_honest_one_is_refused(apis: GroupApis) -> None:
    many = tuple(JoinGroupRequestProtocol(f"p{number}", b"") for number in range(MOST_PROTOCOLS + 1))
    refused = await apis.call(join_group.API, 9, joining(protocols=many))
    assert (refused.error_code, refused.members) == (ErrorCode.INVALID_REQUEST, ())
    assert (await joined(apis, protocols=many[:-1])).error_code == 0


@pytest.mark.parametrize("version", join_group.API.versions)
async def test_a_member_goes_through_its_life_at_every_version(apis: GroupApis, version: int) -> None:
    first = await apis.call(join_group.API, version, joining())
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert (first.generation_id, first.leader, first.members) == (-1, "", ())
        assert first.protocol_name == (None if version >= 7 else "")
        first = await apis.call(join_group.API, version, joining(member_id=first.member_id))
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert first.leader == first.member_id
    assert [(member.member_id, member.metadata) for member in first.members] == [(first.member_id, b"topics")]

    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest(
        "g", 1, first.member_id, assignments=(SyncGroupRequestAssignment(first.member_id, b"mine"),), **protocol
    )
    synced = await apis.call(sync_group.API, min(version, 5), request)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_name == ("range" if version >= 5 else None)

    beat = await apis.call(heartbeat.API, min(version, 4), HeartbeatRequest("g", 1, first.member_id))
    assert beat.error_code == 0

    one = {"members": (MemberIdentity(first.member_id),)} if version >= 3 else {"member_id": first.member_id}
    left = await apis.call(leave_group.API, min(version, 5), LeaveGroupRequest("g", **one))
    assert left.error_code == 0
    assert [member.error_code for member in left.members] == ([0] if version >= 3 else [])


async def test_the_first_version_takes_the_session_timeout_for_the_join_phase_too(apis: GroupApis) -> None:
    for version, expected in ((0, 10_000), (1, 60_000)):
        answer = await joined(apis, version, group_id=f"g{version}")
        group = apis.groups.describe(f"g{version}")
        assert isinstance(group, Group)
        assert group.members[answer.member_id].rebalance_timeout_ms == expected


async def test_members_are_known_by_their_client_and_where_it_is(apis: GroupApis) -> None:
    answer = await apis.call(join_group.API, 3, joining(), client_id="my-app")
    group = apis.groups.describe("g")
    assert isinstance(group, Group)
    member = group.members[answer.member_id]
    assert answer.member_id == "my-app-00000000-0000-0000-0000-000000000001"
    assert (member.client_id, member.client_host) == ("my-app", "/10.0.0.9")
    nameless = await apis.call(join_group.API, 3, joining(group_id="h"), client_id=None)
    assert nameless.error_code == 0


async def test_followers_are_not_told_who_else_is_there(apis: GroupApis) -> None:
    first = await joined(apis, 3)
    second = asyncio.ensure_future(apis.call(join_group.API, 3, joining()))
    await turns()
    again = await apis.call(join_group.API, 3, joining(member_id=first.member_id))
    assert len(again.members) == 2
    follower = await second
    assert (follower.leader, follower.members) == (first.member_id, ())


@pytest.mark.parametrize("version", [8, 9])
async def test_a_static_leader_that_returns_is_told_to_skip_the_assignment(apis: GroupApis, version: int) -> None:
    first = await joined(apis, group_instance_id="i")
    assignment = (SyncGroupRequestAssignment(first.member_id, b"mine"),)
    request = SyncGroupRequest("g", 1, first.member_id, "i", "consumer", "range", assignment)
    await apis.call(sync_group.API, 5, request)
    again = await apis.call(join_group.API, version, joining(group_instance_id="i"))
    assert (again.error_code, again.generation_id) == (0, 1)
    if version >= 9:
        assert (again.skip_assignment, again.leader, len(again.members)) == (True, again.member_id, 1)
        assert again.members[0].group_instance_id == "i"
    else:
        assert (again.leader, again.members) == (first.member_id, ())
    fenced = await apis.call(heartbeat.API, 4, HeartbeatRequest("g", 1, first.member_id, "i"))
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


async def test_errors_of_leaving_members_are_their_own_from_version_3_on(apis: GroupApis) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    old = await apis.call(leave_group.API, 2, LeaveGroupRequest("g", "m"))
    assert old.error_code == unknown
    new = await apis.call(leave_group.API, 3, LeaveGroupRequest("g", members=(MemberIdentity("m", "i"),)))
    assert (new.error_code, [(m.member_id, m.group_instance_id, m.error_code) for m in new.members]) == (
        0,
        [("m", "i", unknown)],
    )
    invalid = await apis.call(leave_group.API, 3, LeaveGroupRequest("", members=(MemberIdentity("m"),)))
    assert (invalid.error_code, invalid.members) == (ErrorCode.INVALID_GROUP_ID, ())
    assert (await apis.call(leave_group.API, 0, LeaveGroupRequest("", "m"))).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("api", APIS, ids=[api.key.name for api in APIS])
def test_a_refusal_reaches_clients_of_every_version(api: Api) -> None:
    apis = GroupApis()
    requests = (joining(), SyncGroupRequest("g"), HeartbeatRequest("g"), LeaveGroupRequest("g"))
    request = dict(zip(APIS, requests, strict=True))[api]
    for version in api.versions:
        refused = apis.refused(api, version, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
