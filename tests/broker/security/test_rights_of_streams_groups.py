"""Rights that requests of streams groups need (streams-groups.md 2, 3 and 9)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import GuardedBroker, guarded_broker
from wire_streams_group import counting

from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

ALICE = "User:alice"
GROUP = ResourceType.GROUP
NONE, NO_GROUP, NO_TOPIC = (
    ErrorCode.NONE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
INTERNAL = ("g-changelog", "g-repartition")
MISSING_INTERNAL = 3


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        await running.create_topics("mine")
        yield running


async def join(broker: GuardedBroker) -> Any:
    request = StreamsGroupHeartbeatRequest(
        "g",
        "m",
        0,
        rebalance_timeout_ms=1000,
        topology=counting("mine", "g"),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="p",
    )
    return await broker.ask(ALICE, ApiKey.STREAMS_GROUP_HEARTBEAT, request, version=1)


async def test_a_member_knows_of_its_topics_and_creates_those_that_are_missing_by_its_own_right(
    broker: GuardedBroker,
) -> None:
    assert (await join(broker)).error_code == NO_GROUP
    await broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    await broker.grant(ALICE, Operation.DESCRIBE, "mine")
    assert (await join(broker)).error_code == NO_TOPIC
    for name in INTERNAL:
        await broker.grant(ALICE, Operation.DESCRIBE, name)
    refused = await join(broker)
    assert refused.error_code == NONE
    details = {each.status_code: each.status_detail for each in refused.status}
    assert "g-changelog" in details[MISSING_INTERNAL]
    assert "not authorized to create" in details[MISSING_INTERNAL]
    for name in INTERNAL:
        await broker.grant(ALICE, Operation.CREATE, name)
    created = await join(broker)
    assert (created.error_code, MISSING_INTERNAL in {each.status_code for each in created.status}) == (NONE, False)


async def test_a_group_is_described_to_whoever_may_know_of_it_and_of_its_topics(broker: GuardedBroker) -> None:
    await broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    for name in ("mine", *INTERNAL):
        await broker.grant(ALICE, Operation.DESCRIBE, name)
    await join(broker)

    async def described(user: str) -> int:
        request = StreamsGroupDescribeRequest(("g",))
        (group,) = (await broker.ask(user, ApiKey.STREAMS_GROUP_DESCRIBE, request, version=1)).groups
        return int(group.error_code)

    other = "User:bob"
    assert await described(other) == NO_GROUP
    await broker.grant(other, Operation.DESCRIBE, "g", kind=GROUP)
    assert await described(other) == NO_TOPIC
    assert await described(ALICE) == NONE


async def test_a_topology_is_described_by_who_may_read_the_group(broker: GuardedBroker) -> None:
    async def describe(user: str) -> int:
        request = StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 0)
        answer = await broker.ask(user, ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, request, version=0)
        return int(answer.error_code)

    assert await describe(ALICE) == NO_GROUP
    await broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    for name in ("mine", *INTERNAL):
        await broker.grant(ALICE, Operation.DESCRIBE, name)
    await join(broker)
    assert await describe(ALICE) == NONE
