"""Rights that requests of share groups need (share-groups.md 2, 7 and 8)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from waiting import until

from eosin.coordinator.share_states import SharePartition, ShareStateSummary
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import alter_share_group_offsets as alter
from eosin.protocol.schemas import describe_share_group_offsets as offsets
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from eosin.protocol.schemas.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest

ALICE = "User:alice"
K = ApiKey
GROUP = ResourceType.GROUP
NONE, NO_GROUP, NO_TOPIC = (
    ErrorCode.NONE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        await running.create_topics("mine", "yours")
        yield running


async def beat(broker: GuardedBroker, *topics: str, user: str = ALICE) -> Any:
    request = ShareGroupHeartbeatRequest("g", "m", 0, None, topics)
    return await broker.ask(user, ApiKey.SHARE_GROUP_HEARTBEAT, request, version=1)


async def test_a_member_reads_its_group_and_may_know_of_every_topic_that_it_names(broker: GuardedBroker) -> None:
    assert (await beat(broker, "mine")).error_code == NO_GROUP
    await broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    assert (await beat(broker, "mine")).error_code == NO_TOPIC
    await broker.grant(ALICE, Operation.DESCRIBE, "mine")
    assert (await beat(broker, "mine", "yours")).error_code == NO_TOPIC
    assert (await beat(broker, "mine")).error_code == NONE


async def test_a_group_is_described_to_whoever_may_know_of_it(broker: GuardedBroker) -> None:
    await beat(broker, "mine", user=ADMIN)

    async def described() -> int:
        request = ShareGroupDescribeRequest(("g",))
        (group,) = (await broker.ask(ALICE, ApiKey.SHARE_GROUP_DESCRIBE, request, version=1)).groups
        return int(group.error_code)

    assert await described() == NO_GROUP
    await broker.grant(ALICE, Operation.DESCRIBE, "g", kind=GROUP)
    assert await described() != NO_GROUP
    await broker.grant(ALICE, Operation.DESCRIBE, "mine")
    assert await described() == NONE


async def test_offsets_are_told_moved_and_forgotten_by_rights_on_group_and_topic(broker: GuardedBroker) -> None:
    moved = alter.AlterShareGroupOffsetsRequest(
        "g", (alter.AlterShareGroupOffsetsRequestTopic("mine", (alter.AlterShareGroupOffsetsRequestPartition(0, 0),)),)
    )
    gone = DeleteShareGroupOffsetsRequest("g", (DeleteShareGroupOffsetsRequestTopic("mine"),))
    named = offsets.DescribeShareGroupOffsetsRequestTopic("mine", (0,))
    told = offsets.DescribeShareGroupOffsetsRequest((offsets.DescribeShareGroupOffsetsRequestGroup("g", (named,)),))
    altering, deleting = ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS
    assert (await broker.ask(ALICE, altering, moved, version=0)).error_code == NO_GROUP
    assert (await broker.ask(ALICE, deleting, gone, version=0)).error_code == NO_GROUP
    describing = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    assert (await broker.ask(ALICE, describing, told, version=1)).groups[0].error_code == NO_GROUP
    await broker.ask(ADMIN, altering, moved, version=0)  # there is a group now
    for operation in (Operation.READ, Operation.DELETE):
        await broker.grant(ALICE, operation, "g", kind=GROUP)
    (topic,) = (await broker.ask(ALICE, altering, moved, version=0)).responses
    assert topic.partitions[0].error_code == NO_TOPIC
    (topic,) = (await broker.ask(ALICE, deleting, gone, version=0)).responses
    assert topic.error_code == NO_TOPIC
    (topic,) = (await broker.ask(ALICE, describing, told, version=1)).groups[0].topics
    assert topic.partitions[0].error_code == NO_TOPIC
    await broker.grant(ALICE, Operation.READ, "mine")
    (topic,) = (await broker.ask(ALICE, describing, told, version=1)).groups[0].topics
    assert topic.partitions[0].error_code != NO_TOPIC


@pytest.mark.parametrize("key", [K.INITIALIZE_SHARE_GROUP_STATE, K.DELETE_SHARE_GROUP_STATE], ids=lambda key: key.name)
async def test_only_brokers_begin_a_state_anew_or_delete_it(broker: GuardedBroker, key: ApiKey) -> None:
    topic_id = broker.server.services.cluster.topics["mine"].topic_id
    place = SharePartition("g", topic_id, 0)
    states = broker.server.services.share_states.coordinator
    begun: list[ErrorCode] = []

    async def has_begun() -> bool:
        begun.append(await states.initialize(place, state_epoch=1, start_offset=7))
        return begun[-1] is NONE

    await until(has_begun)
    for operation in (Operation.READ, Operation.DELETE, Operation.ALTER):
        await broker.grant(ALICE, operation, "g", kind=GROUP)
        await broker.grant(ALICE, operation, "mine")
    request: Any = DeleteShareGroupStateRequest("g", (DeleteStateData(topic_id, (DeleteStatePartition(0),)),))
    if key is K.INITIALIZE_SHARE_GROUP_STATE:
        part = InitializeStatePartition(0, state_epoch=100, start_offset=0)
        request = InitializeShareGroupStateRequest("g", (InitializeStateData(topic_id, (part,)),))
    told = await broker.ask(ALICE, key, request, version=0)
    assert told.results[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found = await states.summary(place)
    assert isinstance(found, ShareStateSummary)
    assert (found.state_epoch, found.start_offset) == (1, 7)
    await broker.grant(ALICE, Operation.CLUSTER_ACTION)
    told = await broker.ask(ALICE, key, request, version=0)
    assert told.results[0].partitions[0].error_code == NONE


async def test_only_brokers_look_for_the_coordinator_of_a_state(broker: GuardedBroker) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:AAAAAAAAAAAAAAAAAAAAAQ:0",))
    (found,) = (await broker.ask(ALICE, ApiKey.FIND_COORDINATOR, request, version=6)).coordinators
    assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (found,) = (await broker.ask(ADMIN, ApiKey.FIND_COORDINATOR, request, version=6)).coordinators
    assert found.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
