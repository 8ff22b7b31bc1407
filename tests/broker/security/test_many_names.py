"""A request of many names is decided about in turns with everybody else (security.md 6.2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import GuardedBroker, guarded_broker
from waiting import until

from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE
from eosin.model.acls import PatternType
from eosin.model.resources import Operation
from eosin.network.many_items import ITEMS_PER_TURN
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from eosin.protocol.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from eosin.protocol.schemas.describe_topic_partitions import TopicRequest as PageTopic
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from eosin.protocol.types import Message
from eosin.security.session import Session

pytestmark = pytest.mark.virtual

COUNT = 10 * ITEMS_PER_TURN
NAMES = tuple(f"name-{index}" for index in range(COUNT))
MALLORY = "User:mallory"


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        yield running


REQUESTS: dict[ApiKey, Message] = {
    ApiKey.METADATA: MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES)),
    ApiKey.FIND_COORDINATOR: FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=NAMES),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest(group_ids=NAMES),
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=NAMES),
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest(transactional_ids=NAMES),
    ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest(tuple(TopicRequest(name, (0,)) for name in NAMES)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(tuple(PageTopic(name) for name in NAMES)),
    ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest(tuple(DescribeConfigsResource(2, name) for name in NAMES)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=tuple(OffsetForLeaderTopic(name, (OffsetForLeaderPartition(0, -1, 0),)) for name in NAMES),
    ),
    ApiKey.DELETE_RECORDS: DeleteRecordsRequest(
        topics=tuple(DeleteRecordsTopic(name, (DeleteRecordsPartition(0, 1),)) for name in NAMES), timeout_ms=1000
    ),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
async def test_decisions_about_the_names_of_a_request_are_made_in_turns(
    broker: GuardedBroker, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizer = broker.server.services.authorizer
    assert authorizer is not None
    loop = asyncio.get_running_loop()
    of_turns = [0]
    may = authorizer.may

    def counted(session: Session, *args: Any, **options: Any) -> bool:
        if not of_turns[-1]:
            loop.call_soon(of_turns.append, 0)
        of_turns[-1] += 1
        return may(session, *args, **options)

    monkeypatch.setattr(authorizer, "may", counted)
    response = await broker.ask(MALLORY, key, REQUESTS[key])
    assert sum(of_turns) >= COUNT
    assert max(of_turns) <= 2 * ITEMS_PER_TURN
    assert response is not None


async def test_a_connection_begins_nothing_before_its_request_of_many_names_is_answered(
    broker: GuardedBroker,
) -> None:
    peer = broker.peer(MALLORY)
    peer.send(ApiKey.FIND_COORDINATOR, 6, REQUESTS[ApiKey.FIND_COORDINATOR])
    peer.send(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=("g",)))
    answers: list[Any] = []
    await until(lambda: answers.extend(peer.answers()) or len(answers) == 2)
    assert [len(answers[0].coordinators), len(answers[1].groups)] == [COUNT, 1]
    assert {each.error_code for each in answers[0].coordinators} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert [each.key for each in answers[0].coordinators] == list(NAMES)


async def test_metadata_of_many_names_shows_what_may_be_seen_and_creates_what_may_be_created(
    broker: GuardedBroker,
) -> None:
    """A client with a right to a prefix made each name a look through a list of all: 26 s for a request of 2 MB."""
    await broker.grant(MALLORY, Operation.DESCRIBE, "name-", pattern=PatternType.PREFIXED)
    await broker.grant(MALLORY, Operation.CREATE, "name-19", pattern=PatternType.PREFIXED)
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in (*NAMES, "other")), allow_auto_topic_creation=True
    )
    response = await broker.ask(MALLORY, ApiKey.METADATA, request)
    found: dict[int, set[str]] = {}
    for each in response.topics:
        found.setdefault(each.error_code, set()).add(each.name)
    assert found[ErrorCode.NONE] == {name for name in NAMES if name.startswith("name-19")}
    assert found[ErrorCode.TOPIC_AUTHORIZATION_FAILED] == {"other"} | set(NAMES) - found[ErrorCode.NONE]


async def test_one_metadata_request_creates_no_more_than_one_of_create_topics() -> None:
    each_has = 100
    async with guarded_broker(num_partitions=each_has) as broker:
        await broker.grant(MALLORY, Operation.ALL, "name-", pattern=PatternType.PREFIXED)
        names = [f"name-{index}" for index in range(MAX_PARTITIONS_PER_CHANGE // each_has + 1)]
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=True
        )
        response = await broker.ask(MALLORY, ApiKey.METADATA, request)
        assert {each.error_code for each in response.topics} == {ErrorCode.POLICY_VIOLATION}
        assert not any(name.startswith("name-") for name in broker.server.services.cluster.topics)
