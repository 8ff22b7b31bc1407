"""Leaders that move between the nodes of one broker: what each node answers, and at which epoch."""

import asyncio

import pytest
from phantom_nodes import FIRST_PORT, code, phantom_nodes
from waiting import settled

from eosin.lab.common.errors import LabError
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest
from eosin.protocol.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)
WRONG = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_every_node_names_all_nodes_and_the_leaders() -> None:
    async with phantom_nodes() as nodes:
        for node in (1, 2, 3):
            response = await nodes.ask(node, ApiKey.METADATA, MetadataRequest(topics=None))
            assert [(each.node_id, each.port) for each in response.brokers] == [
                (1, FIRST_PORT),
                (2, FIRST_PORT + 1),
                (3, FIRST_PORT + 2),
            ]
            assert response.controller_id == 1
            (orders,) = (each for each in response.topics if each.name == "orders")
            assert [each.leader_id for each in orders.partitions] == [1, 2, 3]
            assert orders.partitions[1].replica_nodes == (2, 3, 1)
            cluster = await nodes.ask(node, ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest())
            assert [each.broker_id for each in cluster.brokers] == [1, 2, 3]
            request = DescribeTopicPartitionsRequest((TopicRequest("orders"),))
            described = await nodes.ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
            assert [each.leader_id for each in described.topics[0].partitions] == [1, 2, 3]


async def test_a_wrong_node_writes_nothing_and_names_the_leader() -> None:
    async with phantom_nodes() as nodes:
        response = await nodes.produce(2, FIRST)
        (refused,) = response.responses[0].partition_responses
        epoch = (await nodes.metadata(1, FIRST)).leader_epoch
        assert code(refused) is WRONG
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, epoch)
        assert [(each.node_id, each.port) for each in response.node_endpoints] == [(1, FIRST_PORT)]
        done = (await nodes.produce(1, FIRST)).responses[0].partition_responses[0]
        assert (code(done), done.base_offset) == (ErrorCode.NONE, 0)
        assert code(await nodes.fetch(2, FIRST)) is WRONG
        assert (await nodes.fetch(1, FIRST)).high_watermark == 1


async def test_offsets_are_told_by_the_leader_alone() -> None:
    async with phantom_nodes() as nodes:
        request = ListOffsetsRequest(-1, topics=(ListOffsetsTopic("orders", (ListOffsetsPartition(0, timestamp=-1),)),))
        codes = [
            code((await nodes.ask(node, ApiKey.LIST_OFFSETS, request)).topics[0].partitions[0]) for node in (1, 2, 3)
        ]
        assert codes == [ErrorCode.NONE, WRONG, WRONG]


async def test_a_move_is_a_new_epoch_in_metadata_and_in_the_log() -> None:
    async with phantom_nodes() as nodes:
        await nodes.produce(1, FIRST)
        before = (await nodes.metadata(1, FIRST)).leader_epoch
        assert nodes.nodes.move_leader("orders", 0, 3) == before + 1
        now = await nodes.metadata(1, FIRST)
        assert (now.leader_id, now.leader_epoch) == (3, before + 1)
        assert (await nodes.metadata(1, SECOND)).leader_epoch == before
        assert code((await nodes.produce(1, FIRST)).responses[0].partition_responses[0]) is WRONG
        assert code((await nodes.produce(3, FIRST)).responses[0].partition_responses[0]) is ErrorCode.NONE
        ends = OffsetForLeaderTopic(
            "orders",
            (OffsetForLeaderPartition(0, before + 1, before), OffsetForLeaderPartition(0, before + 1, before + 1)),
        )
        response = await nodes.ask(3, ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(-1, (ends,)))
        assert [(each.leader_epoch, each.end_offset) for each in response.topics[0].partitions] == [
            (before, 1),
            (before + 1, 2),
        ]


async def test_a_fetch_of_an_older_or_a_newer_epoch_is_told_so() -> None:
    async with phantom_nodes() as nodes:
        await nodes.produce(1, FIRST)
        epoch = nodes.nodes.move_leader("orders", 0, 3)
        assert code(await nodes.fetch(3, FIRST, leader_epoch=epoch - 1)) is ErrorCode.FENCED_LEADER_EPOCH
        assert code(await nodes.fetch(3, FIRST, leader_epoch=epoch + 1)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        read = await nodes.fetch(3, FIRST, leader_epoch=epoch)
        assert (code(read), read.high_watermark) == (ErrorCode.NONE, 1)


async def test_a_node_that_does_not_lead_compares_epochs_first() -> None:
    async with phantom_nodes() as nodes:
        await nodes.produce(1, FIRST)
        epoch = nodes.nodes.move_leader("orders", 0, 3)
        told = {
            epoch - 1: ErrorCode.FENCED_LEADER_EPOCH,
            epoch: WRONG,
            epoch + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
            -1: WRONG,
        }
        for each, error in told.items():
            assert code(await nodes.fetch(2, FIRST, leader_epoch=each)) is error
            wanted = ListOffsetsPartition(0, current_leader_epoch=each, timestamp=-1)
            offsets = ListOffsetsRequest(-1, topics=(ListOffsetsTopic("orders", (wanted,)),))
            listed = await nodes.ask(2, ApiKey.LIST_OFFSETS, offsets)
            assert code(listed.topics[0].partitions[0]) is error
            ends = OffsetForLeaderTopic("orders", (OffsetForLeaderPartition(0, each, 0),))
            response = await nodes.ask(2, ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(-1, (ends,)))
            assert code(response.topics[0].partitions[0]) is error


async def test_a_fetch_that_waits_hears_at_once_that_the_leader_has_moved() -> None:
    async with phantom_nodes() as nodes:
        waiting = asyncio.ensure_future(nodes.fetch(1, FIRST, wait_ms=600_000))
        await settled()
        assert not waiting.done()
        nodes.nodes.move_leader("orders", 0, 2)
        assert code(await waiting) is WRONG


async def test_the_next_node_is_elected_where_none_is_named() -> None:
    async with phantom_nodes() as nodes:
        for expected in (2, 3, 1):
            nodes.nodes.move_leader("orders", 0, None)
            assert (await nodes.metadata(1, FIRST)).leader_id == expected


async def test_one_node_elects_itself_at_a_new_epoch() -> None:
    async with phantom_nodes(1) as nodes:
        before = (await nodes.metadata(1, FIRST)).leader_epoch
        assert nodes.nodes.move_leader("orders", 0, None) == before + 1
        assert code(await nodes.fetch(1, FIRST, leader_epoch=before)) is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_dead_node_is_in_no_metadata_and_others_lead() -> None:
    async with phantom_nodes() as nodes:
        epoch = (await nodes.metadata(1, FIRST)).leader_epoch
        await nodes.nodes.down(1, elect=True)
        assert nodes.endpoints.closed == ["PLAINTEXT"]
        now = await nodes.metadata(2, FIRST)
        assert (now.leader_id, now.leader_epoch, now.isr_nodes, now.offline_replicas) == (2, epoch + 1, (2, 3), (1,))
        response = await nodes.ask(2, ApiKey.METADATA, MetadataRequest(topics=None))
        assert ([each.node_id for each in response.brokers], response.controller_id) == ([2, 3], 2)
        nodes.nodes.up(1)
        assert nodes.endpoints.closed == []
        now = await nodes.metadata(1, FIRST)
        assert (now.leader_id, now.leader_epoch, now.offline_replicas) == (2, epoch + 1, ())


async def test_a_death_that_nobody_has_noticed_changes_no_metadata() -> None:
    async with phantom_nodes() as nodes:
        epoch = (await nodes.metadata(1, FIRST)).leader_epoch
        await nodes.nodes.down(1, elect=False)
        now = await nodes.metadata(2, FIRST)
        assert (now.leader_id, now.leader_epoch) == (1, epoch)
        await nodes.nodes.down(1, elect=True)
        assert (await nodes.metadata(2, FIRST)).leader_id == 2


async def test_without_any_node_there_is_no_leader() -> None:
    async with phantom_nodes() as nodes:
        for node in (1, 2, 3):
            await nodes.nodes.down(node, elect=True)
        now = await nodes.metadata(1, FIRST)
        assert (now.leader_id, code(now)) == (NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE)
        nodes.nodes.up(3)
        assert (await nodes.metadata(3, FIRST)).leader_id == 3


async def test_a_topic_may_have_a_replica_on_each_node_and_is_led_by_those_that_are_there() -> None:
    async with phantom_nodes() as nodes:
        await nodes.nodes.down(1, elect=True)
        request = CreateTopicsRequest((CreatableTopic("invoices", 3, 3), CreatableTopic("many", 1, 4)), 1000)
        made, refused = (await nodes.ask(2, ApiKey.CREATE_TOPICS, request)).topics
        assert [code(made), code(refused)] == [ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR]
        leaders = [(await nodes.metadata(2, TopicPartition("invoices", index))).leader_id for index in range(3)]
        assert leaders == [2, 2, 3]


async def test_epochs_begin_anew_with_a_topic_of_the_same_name() -> None:
    async with phantom_nodes() as nodes:
        first = (await nodes.metadata(1, FIRST)).leader_epoch
        nodes.nodes.move_leader("orders", 0, 3)
        await nodes.broker.cluster.delete_topic("orders")
        await nodes.broker.cluster.create_topic("orders", partitions=1)
        now = await nodes.metadata(1, FIRST)
        assert (now.leader_id, now.leader_epoch) == (1, first)


async def test_moves_that_cannot_be_are_refused_in_a_sentence() -> None:
    async with phantom_nodes() as nodes:
        await nodes.nodes.down(3, elect=True)
        with pytest.raises(LabError, match=r"node 3 is down: up\(3\) comes first"):
            nodes.nodes.move_leader("orders", 0, 3)
        with pytest.raises(LabError, match="the nodes 1 to 3, and no 4: nodes=3 makes three"):
            nodes.nodes.move_leader("orders", 0, 4)
        with pytest.raises(LabError, match='there is no topic "order"; did you mean orders'):
            nodes.nodes.move_leader("order", 0, 1)
        with pytest.raises(LabError, match="topic orders has the partitions 0 to 2, and no 3"):
            nodes.nodes.move_leader("orders", 3, 1)
        with pytest.raises(LabError, match=r"node 3 is down: up\(\) starts it"):
            nodes.nodes.pause(3)
    async with phantom_nodes(1) as one:
        with pytest.raises(LabError, match="the only node does not go down"):
            await one.nodes.down(1, elect=True)
