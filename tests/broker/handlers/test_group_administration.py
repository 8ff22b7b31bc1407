"""DescribeGroups, ListGroups and DeleteGroups over the wire, at every version."""

from typing import Any

import pytest
from group_api import GroupApis
from group_fakes import subscription

from eosin.broker.handlers import delete_groups, describe_groups, list_groups
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest

NOT_ASKED = -(2**31)


@pytest.fixture
async def apis() -> GroupApis:
    apis = GroupApis()
    await apis.started()
    return apis


async def describe(apis: GroupApis, version: int, **fields: Any) -> Any:
    response = await apis.call(describe_groups.API, version, DescribeGroupsRequest(("g",), **fields))
    (group,) = response.groups
    return group


@pytest.mark.parametrize("version", describe_groups.API.versions)
async def test_a_stable_group_is_described_in_full(apis: GroupApis, version: int) -> None:
    joined = await apis.join(instance_id="i")
    await apis.sync(joined, {joined.member_id: b"mine"}, instance_id="i")
    group = await describe(apis, version)
    assert (group.error_code, group.error_message) == (0, None)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "c", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("orders"), b"mine")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert group.authorized_operations == NOT_ASKED


async def test_metadata_and_assignments_are_left_out_during_a_rebalance(apis: GroupApis) -> None:
    await apis.join(api_version=3)
    group = await describe(apis, 5)
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [(member.member_metadata, member.member_assignment) for member in group.members] == [(b"", b"")]


@pytest.mark.parametrize("version", describe_groups.API.versions)
async def test_a_group_that_does_not_exist_is_dead(apis: GroupApis, version: int) -> None:
    group = await describe(apis, version)
    assert (group.group_state, group.members) == ("Dead", ())
    if version >= 6:
        assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    else:
        assert (group.error_code, group.error_message) == (0, None)


async def test_authorized_operations_are_returned_if_the_client_asks(apis: GroupApis) -> None:
    await apis.member()
    asked = await describe(apis, 3, include_authorized_operations=True)
    assert asked.authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))


async def test_a_coordinator_that_is_away_is_told_per_group(apis: GroupApis) -> None:
    await apis.groups.stop()
    assert (await describe(apis, 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", list_groups.API.versions)
async def test_groups_are_listed_with_what_the_version_knows(apis: GroupApis, version: int) -> None:
    await apis.member()
    response = await apis.call(list_groups.API, version, ListGroupsRequest())
    (group,) = response.groups
    assert (response.error_code, group.group_id, group.protocol_type) == (0, "g", "consumer")
    assert group.group_state == ("Stable" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


async def test_groups_are_filtered_by_state_and_type(apis: GroupApis) -> None:
    await apis.member()
    for request, found in (
        (ListGroupsRequest(("stable",)), ["g"]),
        (ListGroupsRequest(("Empty", "Dead")), []),
        (ListGroupsRequest((), ("CLASSIC",)), ["g"]),
        (ListGroupsRequest((), ("consumer",)), []),
    ):
        response = await apis.call(list_groups.API, 5, request)
        assert [group.group_id for group in response.groups] == found


@pytest.mark.parametrize("version", delete_groups.API.versions)
async def test_only_empty_groups_are_deleted(apis: GroupApis, version: int) -> None:
    await apis.member("busy")
    joined = await apis.member("idle")
    apis.groups.leave("idle", [LeavingMember(joined.member_id, None)])
    response = await apis.call(delete_groups.API, version, DeleteGroupsRequest(("busy", "idle", "nobody", "idle")))
    assert [(result.group_id, result.error_code) for result in response.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("idle", 0),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    told = ["The group has members", None, "There is no such group"] if version >= 3 else [None] * 3
    for result, begin in zip(response.results, told, strict=True):
        assert result.error_message is None if begin is None else result.error_message.startswith(begin)


async def test_of_very_many_groups_that_are_not_there_the_first_hundred_are_explained(apis: GroupApis) -> None:
    names = tuple(f"group-{number}" for number in range(delete_groups.MOST_EXPLAINED + 5))
    response = await apis.call(delete_groups.API, 3, DeleteGroupsRequest(names))
    assert {result.error_code for result in response.results} == {ErrorCode.GROUP_ID_NOT_FOUND}
    explained = [result.group_id for result in response.results if result.error_message is not None]
    assert explained == list(names[: delete_groups.MOST_EXPLAINED])


def test_a_refusal_reaches_clients_of_every_version() -> None:
    apis, error = GroupApis(), ErrorCode.UNKNOWN_SERVER_ERROR
    for version in describe_groups.API.versions:
        refused = apis.refused(describe_groups.API, version, DescribeGroupsRequest(("g",)), error)
        assert [(group.group_id, group.error_code) for group in refused.groups] == [("g", error)]
    for version in list_groups.API.versions:
        assert apis.refused(list_groups.API, version, ListGroupsRequest(), error).groups == ()
    for version in delete_groups.API.versions:
        refused = apis.refused(delete_groups.API, version, DeleteGroupsRequest(("g",)), error)
        assert [(result.group_id, result.error_code) for result in refused.results] == [("g", error)]
