"""Dead letters (KIP-1191) in a cluster as Apache Kafka 4.4 formats it: whoever leads the partition and whoever leads
that of the letters, each record that is rejected is in the dead-letter topic (cluster.md 6.9)."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
from mixed_cluster import EOSIN, KAFKA, Brokers, Cluster, connected, create, firmly, leads, mixed_brokers
from waiting import until
from wire import unique
from wire_share_fetcher import ACCEPT, REJECT, Fetcher
from wire_share_group import ShareMember

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic

GROUP: Final = 32


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with mixed_brokers(tmp_path_factory.mktemp("mixed")) as made:
        yield made


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    async with connected(brokers) as made:
        yield made


async def letters_of(cluster: Cluster, leader: int, topic: str) -> int:
    """Number of records in the dead-letter topic."""
    asked = ListOffsetsTopic(topic, (ListOffsetsPartition(0, timestamp=-1),))
    answer = await cluster.wires[leader].ask(ListOffsetsRequest(replica_id=-1, topics=(asked,)), 6)
    return int(answer.topics[0].partitions[0].offset)


@pytest.mark.parametrize("leader", [EOSIN, KAFKA], ids=["led by eosin", "led by kafka"])
@pytest.mark.parametrize("letters_at", [EOSIN, KAFKA], ids=["letters at eosin", "letters at kafka"])
async def test_each_rejected_record_has_a_dead_letter_whoever_leads(
    cluster: Cluster, leader: int, letters_at: int
) -> None:
    wire = cluster.wires[leader]
    topic, group, letters = unique("jobs"), unique("workers"), "dlq." + unique("jobs")
    await create(wire, topic, {0: (leader,)})
    made = CreatableTopic(
        letters, -1, -1, (CreatableReplicaAssignment(0, (letters_at,)),),
        (CreatableTopicConfig("errors.deadletterqueue.group.enable", "true"),),
    )  # fmt: skip
    answer = await wire.ask(CreateTopicsRequest((made,), timeout_ms=10_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer
    for each in cluster.wires.values():
        await leads(each, topic, leader)
        await leads(each, letters, letters_at)
    settings = (
        AlterableConfig("share.auto.offset.reset", 0, "earliest"),
        AlterableConfig("errors.deadletterqueue.topic.name", 0, letters),
        AlterableConfig("errors.deadletterqueue.copy.record.enable", 0, "true"),
    )
    request = IncrementalAlterConfigsRequest((AlterConfigsResource(GROUP, group, settings),))
    await firmly(lambda: cluster.wires[EOSIN].ask(request, 1), lambda answer: answer.responses[0].error_code)
    await wire.append(TopicPartition(topic, 0), 4)
    coordinator = cluster.wires[EOSIN]
    await cluster.move(EOSIN)
    member = ShareMember(coordinator, group)
    await firmly(lambda: member.join(topic), lambda answer: int(answer.error_code))
    await member.has(1)
    told = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
    fetcher = Fetcher(wire, group, told.topics[0].topic_id)
    assert await fetcher.fetch() == [(0, 3, 1)]
    assert await fetcher.acknowledge((0, 0, (ACCEPT,)), (1, 2, (REJECT,)), (3, 3, (ACCEPT,))) == ErrorCode.NONE

    async def are_there() -> bool:
        return await letters_of(cluster, letters_at, letters) >= 2

    await until(are_there, every_s=0.1)
    assert await letters_of(cluster, letters_at, letters) == 2
