"""Topics and their settings on the wire."""

from typing import Any, Final

import pytest
from waiting import until
from wire import LATEST, Wire, better_than_kafka, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.schemas import alter_configs, incremental_alter_configs
from eosin.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eosin.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from eosin.protocol.schemas.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
TOPIC: Final = 2
"""The kind of resource that a topic is."""
SET, DELETE, APPEND, SUBTRACT = range(4)


async def metadata(
    wire: Wire, *asked: MetadataRequestTopic, version: int = 12, **how: Any
) -> list[MetadataResponseTopic]:
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False, **how)
    return list((await wire.ask(request, version)).topics)


async def is_there(wire: Wire, topic: str) -> bool:
    [found] = await metadata(wire, MetadataRequestTopic(name=topic))
    assert found.error_code in (NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found.error_code == NONE


# --- Metadata


@pytest.mark.parametrize("version", range(14))
async def test_every_version_of_metadata_lists_partitions_and_leaders(wire: Wire, version: int) -> None:
    topic = await wire.topic(3)
    answer = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), version)
    [found] = answer.topics
    [broker] = answer.brokers
    assert (found.error_code, found.name, found.is_internal) == (NONE, topic, False)
    assert sorted(each.partition_index for each in found.partitions) == [0, 1, 2]
    for each in found.partitions:
        assert (each.error_code, each.leader_id) == (NONE, broker.node_id)
        assert each.replica_nodes == each.isr_nodes == (broker.node_id,)
    if version >= 10:
        assert found.topic_id == wire.topic_id(topic)


async def test_metadata_lists_all_topics_or_none(wire: Wire) -> None:
    topic = await wire.topic()
    every = await wire.ask(MetadataRequest(topics=None), 12)
    assert topic in {each.name for each in every.topics}
    assert (await wire.ask(MetadataRequest(topics=()), 12)).topics == ()
    old = await wire.ask(MetadataRequest(topics=()), 0)
    assert topic in {each.name for each in old.topics}, "which meant all of them once"


async def test_a_topic_is_found_by_its_id(wire: Wire) -> None:
    topic = await wire.topic()
    [found] = await metadata(wire, MetadataRequestTopic(topic_id=wire.topic_id(topic), name=None))
    assert (found.error_code, found.name) == (NONE, topic)
    [lost] = await metadata(wire, MetadataRequestTopic(topic_id=b"\7" * 16, name=None))
    assert lost.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [4, 9, 12])
async def test_an_unknown_topic_stays_unknown_without_auto_creation(wire: Wire, version: int) -> None:
    name = unique("no")
    for _ in range(2):
        [found] = await metadata(wire, MetadataRequestTopic(name=name), version=version)
        assert (found.error_code, found.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 250])
async def test_an_illegal_name_is_an_invalid_topic(wire: Wire, name: str) -> None:
    answer = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 12)
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("version", range(2))
async def test_describe_cluster_agrees_with_metadata(wire: Wire, version: int) -> None:
    known = await wire.ask(MetadataRequest(topics=()), 12)
    found = await wire.ask(DescribeClusterRequest(), version)
    assert (found.error_code, found.cluster_id) == (NONE, known.cluster_id)
    assert [(each.broker_id, each.host, each.port) for each in found.brokers] == [
        (each.node_id, each.host, each.port) for each in known.brokers
    ]


async def test_topic_partitions_are_described_page_by_page(wire: Wire) -> None:
    topic = await wire.topic(5)
    first = await wire.ask(DescribeTopicPartitionsRequest((TopicRequest(topic),), response_partition_limit=3), 0)
    assert [each.partition_index for each in first.topics[0].partitions] == [0, 1, 2]
    assert first.next_cursor == Cursor(topic, 3)
    last = await wire.ask(DescribeTopicPartitionsRequest((TopicRequest(topic),), cursor=first.next_cursor), 0)
    assert [each.partition_index for each in last.topics[0].partitions] == [3, 4]
    assert last.next_cursor is None


# --- CreateTopics, DeleteTopics


async def created(
    wire: Wire,
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    version: int = 7,
    only_check: bool = False,
    **configs: str | None,
) -> list[CreatableTopicResult]:
    settings = tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items())
    topics = tuple(
        CreatableTopic(name, num_partitions=partitions, replication_factor=replicas, configs=settings) for name in names
    )
    return list((await wire.ask(CreateTopicsRequest(topics, 30_000, only_check), version)).topics)


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_topics(wire: Wire, version: int) -> None:
    name = unique("topic")
    [made] = await created(wire, name, partitions=2, version=version, retention_ms="77777")
    assert (made.name, made.error_code) == (name, NONE)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        assert {each.name: each.value for each in made.configs or ()}["retention.ms"] == "77777"
    assert (made.topic_id != ZERO_UUID) == (version >= 7)
    await until(lambda: is_there(wire, name))


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replicas": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replicas": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"no_such_setting": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"cleanup_policy": "burn"}, ErrorCode.INVALID_CONFIG),
        ({"segment_bytes": "-1"}, ErrorCode.INVALID_CONFIG),
    ],
    ids=str,
)
async def test_an_invalid_topic_is_refused(wire: Wire, how: dict[str, Any], code: ErrorCode) -> None:
    name = unique("topic")
    [refused] = await created(wire, name, **how)
    assert refused.error_code == code
    assert refused.error_message
    assert not await is_there(wire, name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
async def test_a_topic_with_an_illegal_name_is_refused(wire: Wire, name: str) -> None:
    [refused] = await created(wire, name)
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_an_existing_topic_is_refused_and_the_others_are_created(wire: Wire) -> None:
    there, fresh = await wire.topic(), unique("topic")
    found = {each.name: each.error_code for each in await created(wire, there, fresh)}
    assert found == {there: ErrorCode.TOPIC_ALREADY_EXISTS, fresh: NONE}


async def test_a_name_that_stands_twice_is_an_invalid_request(wire: Wire) -> None:
    twice, fresh = unique("topic"), unique("topic")
    found = {each.name: each.error_code for each in await created(wire, twice, twice, fresh)}
    assert found == {twice: ErrorCode.INVALID_REQUEST, fresh: NONE}


async def test_validate_only_creates_no_topic(wire: Wire) -> None:
    name = unique("topic")
    [checked] = await created(wire, name, only_check=True)
    assert (checked.error_code, checked.num_partitions) == (NONE, 1)
    assert not await is_there(wire, name)


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes_topics(wire: Wire, version: int) -> None:
    topic, unknown = await wire.topic(), unique("no")
    asked = tuple(DeleteTopicState(name=name) for name in (topic, unknown))
    answer = await wire.ask(DeleteTopicsRequest(topics=asked, topic_names=(topic, unknown), timeout_ms=30_000), version)
    assert {each.name: each.error_code for each in answer.responses} == {
        topic: NONE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }

    async def is_gone() -> bool:
        return not await is_there(wire, topic)

    await until(is_gone)


async def test_a_topic_is_deleted_by_its_id(wire: Wire) -> None:
    topic_id = wire.topic_id(await wire.topic())
    for code in (NONE, ErrorCode.UNKNOWN_TOPIC_ID):
        request = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),), timeout_ms=30_000)
        assert [each.error_code for each in (await wire.ask(request, 6)).responses] == [code]


@better_than_kafka("Apache Kafka says REQUEST_TIMED_OUT, and does it all the same")
async def test_topic_changes_are_reported_as_done_however_short_the_timeout(wire: Wire) -> None:
    name = unique("topic")
    made = await wire.ask(CreateTopicsRequest((CreatableTopic(name, 1, 1),), 0), 7)
    assert [each.error_code for each in made.topics] == [NONE]
    more = await wire.ask(CreatePartitionsRequest((CreatePartitionsTopic(name, 2),), 0), 3)
    assert [each.error_code for each in more.results] == [NONE]
    assert await _has_partitions(wire, name, 2)
    gone = await wire.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=0), 6)
    assert [each.error_code for each in gone.responses] == [NONE]
    assert not await is_there(wire, name)


# --- CreatePartitions


async def grown(wire: Wire, topic: str, count: int, *, version: int = 3, only_check: bool = False) -> ErrorCode:
    request = CreatePartitionsRequest((CreatePartitionsTopic(topic, count),), 30_000, only_check)
    [found] = (await wire.ask(request, version)).results
    return ErrorCode(found.error_code)


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions(wire: Wire, version: int) -> None:
    topic = await wire.topic(1)
    assert await grown(wire, topic, 3, version=version, only_check=True) == NONE
    assert await grown(wire, topic, 3, version=version) == NONE
    await until(lambda: _has_partitions(wire, topic, 3))
    await until(lambda: _is_empty(wire, TopicPartition(topic, 2)))
    assert await wire.append(TopicPartition(topic, 2)) == 0


async def _has_partitions(wire: Wire, topic: str, count: int) -> bool:
    [found] = await metadata(wire, MetadataRequestTopic(name=topic))
    return len(found.partitions) == count and all(each.leader_id >= 0 for each in found.partitions)


async def _is_empty(wire: Wire, partition: TopicPartition) -> bool:
    """Whether its leader says so."""
    found = await wire.list_offset(partition, LATEST)
    return (found.error_code, found.offset) == (NONE, 0)


@pytest.mark.parametrize("count", [2, 1, 0, -1])
async def test_partitions_are_only_added(wire: Wire, count: int) -> None:
    topic = await wire.topic(2)
    assert await grown(wire, topic, count) == ErrorCode.INVALID_PARTITIONS
    assert await _has_partitions(wire, topic, 2)


async def test_no_partitions_are_added_to_an_unknown_topic(wire: Wire) -> None:
    assert await grown(wire, unique("no"), 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- settings


async def settings(wire: Wire, topic: str, *names: str, version: int = 4) -> dict[str, str | None]:
    resource = DescribeConfigsResource(TOPIC, topic, names or None)
    [found] = (await wire.ask(DescribeConfigsRequest((resource,)), version)).results
    assert (found.error_code, found.resource_type, found.resource_name) == (NONE, TOPIC, topic)
    return {each.name: each.value for each in found.configs}


async def changed(
    wire: Wire, topic: str, name: str, how: int, value: str | None, *, version: int = 1, only_check: bool = False
) -> ErrorCode:
    one = incremental_alter_configs.AlterableConfig(name, how, value)
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC, topic, (one,))
    request = incremental_alter_configs.IncrementalAlterConfigsRequest((resource,), only_check)
    [found] = (await wire.ask(request, version)).responses
    return ErrorCode(found.error_code)


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_describes_settings(wire: Wire, version: int) -> None:
    topic = await wire.topic(retention_ms="77777")
    every = await settings(wire, topic, version=version)
    assert every["retention.ms"] == "77777"
    assert every["cleanup.policy"] == "delete"
    assert await settings(wire, topic, "retention.ms", version=version) == {"retention.ms": "77777"}
    assert await settings(wire, topic, "no.such.setting", version=version) == {}


async def test_settings_of_an_unknown_topic_are_not_described(wire: Wire) -> None:
    asked = DescribeConfigsRequest((DescribeConfigsResource(TOPIC, unique("no")),))
    assert [each.error_code for each in (await wire.ask(asked, 4)).results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", range(2))
async def test_one_setting_is_changed_and_the_others_stay(wire: Wire, version: int) -> None:
    topic = await wire.topic(retention_ms="77777")
    assert await changed(wire, topic, "max.message.bytes", SET, "1234", version=version) == NONE
    await until(lambda: _is(wire, topic, "max.message.bytes", "1234"))
    assert await _is(wire, topic, "retention.ms", "77777")
    assert await changed(wire, topic, "retention.ms", DELETE, None, version=version) == NONE
    await until(lambda: _is(wire, topic, "retention.ms", "604800000"))


async def _is(wire: Wire, topic: str, name: str, value: str) -> bool:
    return await settings(wire, topic, name) == {name: value}


async def test_a_list_is_appended_to_and_subtracted_from(wire: Wire) -> None:
    topic = await wire.topic()
    assert await changed(wire, topic, "cleanup.policy", APPEND, "compact") == NONE
    await until(lambda: _is(wire, topic, "cleanup.policy", "delete,compact"))
    assert await changed(wire, topic, "cleanup.policy", SUBTRACT, "delete") == NONE
    await until(lambda: _is(wire, topic, "cleanup.policy", "compact"))


@pytest.mark.parametrize(
    ("name", "how", "value"),
    [
        ("no.such.setting", SET, "1"),
        ("retention.ms", SET, "soon"),
        ("retention.ms", APPEND, "1"),
        ("min.insync.replicas", SET, "0"),
    ],
)
async def test_an_invalid_topic_setting_is_refused(wire: Wire, name: str, how: int, value: str) -> None:
    topic = await wire.topic(retention_ms="77777")
    assert await changed(wire, topic, name, how, value) == ErrorCode.INVALID_CONFIG
    assert await _is(wire, topic, "retention.ms", "77777")


async def test_validate_only_changes_no_setting(wire: Wire) -> None:
    topic = await wire.topic(retention_ms="77777")
    assert await changed(wire, topic, "retention.ms", SET, "88888", only_check=True) == NONE
    assert await changed(wire, topic, "retention.ms", SET, "soon", only_check=True) == ErrorCode.INVALID_CONFIG
    assert await _is(wire, topic, "retention.ms", "77777")


async def test_settings_of_an_unknown_topic_are_not_changed(wire: Wire) -> None:
    assert await changed(wire, unique("no"), "retention.ms", SET, "1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_all_settings(wire: Wire, version: int) -> None:
    topic = await wire.topic(retention_ms="77777", max_message_bytes="1234")
    one = alter_configs.AlterConfigsResource(TOPIC, topic, (alter_configs.AlterableConfig("retention.ms", "88888"),))
    [found] = (await wire.ask(alter_configs.AlterConfigsRequest((one,)), version)).responses
    assert found.error_code == NONE
    await until(lambda: _is(wire, topic, "retention.ms", "88888"))
    assert await _is(wire, topic, "max.message.bytes", "1048588")


# --- what else an operator asks


@pytest.mark.parametrize("version", range(1, 5))
async def test_the_size_of_a_log_is_described(wire: Wire, version: int) -> None:
    partition = await wire.partition()
    await wire.append(partition, 10)
    asked = DescribeLogDirsRequest((DescribableLogDirTopic(partition.topic, (0,)),))
    [folder] = (await wire.ask(asked, version)).results
    assert folder.error_code == NONE
    assert folder.log_dir
    [topic] = folder.topics
    [found] = topic.partitions
    assert (topic.name, found.partition_index, found.is_future_key) == (partition.topic, 0, False)
    assert found.partition_size >= 61 + 10 * 6, "a batch's header, and its records"


@pytest.mark.parametrize("version", range(1, 4))
async def test_acls_are_disabled(wire: Wire, version: int) -> None:
    """Without an authorizer nobody can say who may do what."""
    any_kind = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    answer = await wire.ask(any_kind, version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, ())
