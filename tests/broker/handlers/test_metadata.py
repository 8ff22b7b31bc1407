"""Metadata, through the codec at the versions where it differs."""

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers import metadata
from eosin.broker.handlers.metadata import API, PARTITIONS_PER_STEP
from eosin.cluster.metadata.responses import FEW_PARTITIONS
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from eosin.protocol.wire.codec import decode_request, decode_request_header
from eosin.settings.broker import BrokerConfig

INTERNAL = ["__consumer_offsets", "__transaction_state"]


def named(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=create
    )


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_tells_who_leads_a_partition(version: int) -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders", partitions=2)
    answer = await broker.call(API, named("orders"), version)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert [(each.partition_index, each.leader_id, each.error_code) for each in topic.partitions] == [
        (0, 1, 0),
        (1, 1, 0),
    ]
    assert topic.partitions[0].replica_nodes == topic.partitions[0].isr_nodes == (1,)
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert topic.topic_id == (broker.cluster.topics["orders"].topic_id if version >= 10 else bytes(16))
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, "localhost", 9092)]
    assert answer.cluster_id == (broker.cluster.cluster_id if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.error_code == 0


async def test_the_address_is_that_of_the_listener() -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, named(), listener="INSIDE")
    assert [(each.host, each.port) for each in answer.brokers] == [("broker", 19092)]


async def test_null_asks_for_all_topics_and_an_empty_list_for_none_but_in_version_0() -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders")
    everything = [*INTERNAL, "orders"]
    assert [each.name for each in (await broker.call(API, MetadataRequest(topics=None))).topics] == everything
    assert (await broker.call(API, MetadataRequest(topics=()), 1)).topics == ()
    assert [each.name for each in (await broker.call(API, MetadataRequest(topics=()), 0)).topics] == everything


async def test_an_unknown_topic_is_created_and_answered_with_its_leader_at_once() -> None:
    broker = await DataBroker.started(BrokerConfig(num_partitions=3))
    answer = await broker.call(API, named("new", "new", "other"))
    assert [(each.name, each.error_code, len(each.partitions)) for each in answer.topics] == [
        ("new", 0, 3),
        ("other", 0, 3),
    ]
    assert answer.topics[0].partitions[0].leader_id == 1
    assert "new" in broker.cluster.topics


async def test_an_unknown_topic_is_not_created_when_the_client_or_the_broker_forbids_it() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker = await DataBroker.started()
    assert [each.error_code for each in (await broker.call(API, named("new", create=False))).topics] == [unknown]
    broker = await DataBroker.started(BrokerConfig(auto_create_topics_enable=False))
    assert [each.error_code for each in (await broker.call(API, named("new"))).topics] == [unknown]
    assert list(broker.cluster.topics) == INTERNAL


async def test_a_topic_that_cannot_be_created_carries_the_reason() -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("a.b")
    answer = await broker.call(API, named("a_b", "__eosin_metadata", "c"))
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__eosin_metadata", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("c", 0),
    ]


@pytest.mark.parametrize("create", [True, False])
async def test_an_illegal_name_is_an_invalid_topic(create: bool) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, named("a/b", create=create))
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


async def test_topics_are_found_by_id_and_never_created_by_it() -> None:
    broker = await DataBroker.started()
    topic = (await broker.cluster.create_topic("orders")).topic
    assert topic is not None
    ids = (topic.topic_id, b"x" * 16)
    request = MetadataRequest(topics=tuple(MetadataRequestTopic(topic_id=each, name=None) for each in ids))
    answer = await broker.call(API, request, 12)
    assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
        ("orders", topic.topic_id, 0),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_in_requests_are_invalid_before_version_12(version: int) -> None:
    broker = await DataBroker.started()
    request = MetadataRequest(topics=(MetadataRequestTopic(topic_id=b"x" * 16, name=None),))
    answer = await broker.call(API, request, version)
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]


async def test_authorized_operations_are_told_when_asked_for() -> None:
    broker = await DataBroker.started()
    request = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    answer = await broker.call(API, request, 10)
    assert answer.cluster_authorized_operations == 0b1111110100000
    assert {each.topic_authorized_operations for each in answer.topics} == {0b110111111000}
    answer = await broker.call(API, MetadataRequest(topics=None), 10)
    assert answer.cluster_authorized_operations == answer.topics[0].topic_authorized_operations == -(2**31)


async def test_a_partition_whose_log_has_failed_has_no_leader() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders")
    broker.log("orders").fail(OSError("broken"))
    (partition,) = (await broker.call(API, named("orders"))).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == (1,)


def test_librdkafkas_null_array_of_topics_asks_for_all() -> None:
    # librdkafka 2.16.1, list_topics(): the null array takes four bytes where one would do, so three are left over.
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    header = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (API.key, 13)
    assert decode_request(API.key, 13, frame, header.body_offset).topics is None


def test_a_refusal_says_so_for_each_topic_and_as_a_whole() -> None:
    answer = refused(API, named("a", "b"), ErrorCode.UNKNOWN_SERVER_ERROR, 13)
    assert [each.error_code for each in answer.topics] == [-1, -1]
    assert answer.error_code == -1
    assert refused(API, MetadataRequest(topics=None), ErrorCode.UNKNOWN_SERVER_ERROR, 1).topics == ()


async def many_partitions() -> DataBroker:
    broker = await DataBroker.started()
    for name in ("a", "b", "c"):
        assert (await broker.cluster.create_topic(name, partitions=FEW_PARTITIONS)).error == ErrorCode.NONE
    return broker


@pytest.mark.parametrize("version", API.versions)
async def test_an_answer_that_is_kept_says_what_one_made_anew_says(version: int) -> None:
    broker = await many_partitions()
    request = MetadataRequest(topics=() if version == 0 else None, include_topic_authorized_operations=True)
    made = await broker.call(API, request, version)
    kept = await broker.call(API, request, version)
    with patch.object(metadata, "FEW_PARTITIONS", 10**9):
        assert made == kept == await broker.call(API, request, version)


async def test_a_kept_answer_names_a_broker_by_its_new_address() -> None:
    broker = await many_partitions()
    await broker.call(API, MetadataRequest(topics=None))
    broker.cluster.advertise("PLAINTEXT", "elsewhere", 9093)
    answer = await broker.call(API, MetadataRequest(topics=None))
    assert [(each.host, each.port) for each in answer.brokers] == [("elsewhere", 9093)]


async def test_an_answer_is_kept_until_a_topic_changes_or_a_partition_fails() -> None:
    broker = await many_partitions()
    made = []
    found = metadata._found

    def counted(*arguments: Any) -> Any:
        made.append(arguments[0].name)
        return found(*arguments)

    async def all_topics(**how: Any) -> dict[str, Any]:
        answer = await broker.call(API, MetadataRequest(topics=None), **how)
        return {topic.name: topic for topic in answer.topics}

    with patch.object(metadata, "_found", counted):
        await all_topics()
        made.clear()
        await all_topics()
        assert made == []
        assert (await broker.cluster.create_topic("d")).error == ErrorCode.NONE
        assert "d" in await all_topics()
        assert (await broker.cluster.delete_topic("a")).error == ErrorCode.NONE
        assert "a" not in await all_topics()
        assert (await broker.cluster.create_partitions("d", count=7)).error == ErrorCode.NONE
        assert len((await all_topics())["d"].partitions) == 7
        broker.log("d", 3).fail(OSError("broken"))
        assert (await all_topics())["d"].partitions[3].error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("again", [False, True])
async def test_a_topic_that_is_deleted_while_its_partitions_are_listed_is_unknown(again: bool) -> None:
    broker = await DataBroker.started()
    await broker.create_topic("wide", partitions=PARTITIONS_PER_STEP + 1)
    context = RequestContext(12, "c", "/127.0.0.1", "PLAINTEXT")
    steps = metadata._by_name("wide", named("wide"), context, broker.cluster)
    assert next(steps) is None
    await broker.cluster.delete_topic("wide")
    if again:
        await broker.create_topic("wide", partitions=PARTITIONS_PER_STEP + 1)
    assert next(steps) == MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="wide")
    assert list(steps) == []


async def test_each_listener_has_answers_of_its_own() -> None:
    broker = await many_partitions()
    for _ in range(2):
        for listener, host in (("PLAINTEXT", "localhost"), ("INSIDE", "broker")):
            answer = await broker.call(API, MetadataRequest(topics=None), listener=listener)
            assert [each.host for each in answer.brokers] == [host]


async def test_requests_that_come_while_a_response_is_made_share_it() -> None:
    broker = await many_partitions()
    answers = await asyncio.gather(*(broker.call(API, MetadataRequest(topics=None)) for _ in range(5)))
    assert len(broker.services.metadata_responses._kept) == 1
    assert all(answer == answers[0] for answer in answers)


async def test_answers_beyond_the_limit_are_not_kept() -> None:
    broker = await many_partitions()
    broker.services.metadata_responses._limit_bytes = 100
    await broker.call(API, MetadataRequest(topics=None))
    assert broker.services.metadata_responses._kept == {}
