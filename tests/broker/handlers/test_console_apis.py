"""What consoles ask for and Eosin has little of: ACLs, quotas, reassignments, directories, the quorum, resources."""

import os

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers import (
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_quorum,
    list_config_resources,
    list_partition_reassignments,
)
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.model.cluster import METADATA_PARTITION
from eosin.network.api import Api
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.protocol.schemas.describe_client_quotas import DescribeClientQuotasRequest
from eosin.protocol.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from eosin.protocol.schemas.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from eosin.protocol.schemas.list_config_resources import ListConfigResourcesRequest
from eosin.protocol.schemas.list_partition_reassignments import ListPartitionReassignmentsRequest
from eosin.protocol.types import Message
from eosin.settings.broker import BrokerConfig
from eosin.storage.results.log_results import AppendOrigin

HERE = os.path.abspath("data")
METADATA = DescribeQuorumRequest((TopicData("__cluster_metadata", (PartitionData(0),)),))


@pytest.mark.parametrize("version", describe_acls.API.versions)
async def test_without_an_authorizer_acls_are_disabled(version: int) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(describe_acls.API, DescribeAclsRequest(), version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert answer.error_message


@pytest.mark.parametrize("version", describe_client_quotas.API.versions)
async def test_there_are_no_quotas(version: int) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(describe_client_quotas.API, DescribeClientQuotasRequest(), version)
    assert (answer.error_code, answer.entries) == (0, ())


async def test_there_are_no_reassignments() -> None:
    broker = await DataBroker.started()
    answer = await broker.call(list_partition_reassignments.API, ListPartitionReassignmentsRequest())
    assert (answer.error_code, answer.topics) == (0, ())


async def with_logs(config: BrokerConfig | None = None) -> DataBroker:
    """Topic `a` with two logs, of which the second has failed, and topic `b` with one."""
    broker = await DataBroker.started(config, disk=LyingDisk())
    for name, count in (("a", 2), ("b", 1)):
        await broker.create_topic(name, partitions=count)
    batch = bytes(build_batch([NewRecord(b"k", b"v")], timestamp=0))
    broker.log("a", 0).append(batch, now_ms=0, origin=AppendOrigin.CLIENT)
    broker.log("a", 1).fail(OSError("broken"))
    return broker


@pytest.mark.parametrize("version", describe_log_dirs.API.versions)
async def test_every_version_tells_the_sizes_of_logs_that_work(version: int) -> None:
    broker = await with_logs()
    (result,) = (await broker.call(describe_log_dirs.API, DescribeLogDirsRequest(None), version)).results
    assert (result.error_code, result.log_dir, result.total_bytes, result.usable_bytes) == (0, HERE, -1, -1)
    assert [
        (topic.name, [(each.partition_index, each.partition_size > 0, each.offset_lag) for each in topic.partitions])
        for topic in result.topics
        if not topic.name.startswith("__")
    ] == [("a", [(0, True, 0)]), ("b", [(0, False, 0)])]


@pytest.mark.parametrize("version", describe_log_dirs.API.versions)
async def test_the_size_of_the_volume_is_told_from_version_4_on(version: int) -> None:
    broker = await with_logs()
    broker.disk.space, broker.disk.total = 3, 10
    (result,) = (await broker.call(describe_log_dirs.API, DescribeLogDirsRequest(()), version)).results
    assert (result.total_bytes, result.usable_bytes) == ((10, 3) if version >= 4 else (-1, -1))


async def test_log_dirs_can_be_asked_for_some_partitions() -> None:
    broker = await with_logs(BrokerConfig(eosin_durability="memory"))
    request = DescribeLogDirsRequest((DescribableLogDirTopic("b", (0, 7)), DescribableLogDirTopic("no", (0,))))
    (result,) = (await broker.call(describe_log_dirs.API, request)).results
    assert result.log_dir == "memory"
    assert [topic.name for topic in result.topics] == ["b"]


@pytest.mark.parametrize("version", describe_quorum.API.versions)
async def test_the_quorum_is_one_voter(version: int) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(describe_quorum.API, METADATA, version)
    (partition,) = answer.topics[0].partitions
    end = broker.logs.logs[METADATA_PARTITION].log_end_offset
    assert end > 0
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 0, end)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, end)
    assert voter.last_caught_up_timestamp == (broker.clock.now_ms() if version >= 1 else -1)
    assert partition.observers == ()
    if version >= 2:
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, listener.host, listener.port) == (1, "PLAINTEXT", "localhost", 9092)


async def test_no_other_topic_has_a_quorum() -> None:
    broker = await DataBroker.started()
    request = DescribeQuorumRequest(
        (TopicData("orders", (PartitionData(0),)), TopicData("__cluster_metadata", (PartitionData(1),)))
    )
    answer = await broker.call(describe_quorum.API, request)
    assert [each.partitions[0].error_code for each in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


async def test_config_resources_are_topics_brokers_and_their_loggers() -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders")
    everything = await broker.call(list_config_resources.API, ListConfigResourcesRequest())
    assert [(each.resource_type, each.resource_name) for each in everything.config_resources] == [
        (2, "__consumer_offsets"),
        (2, "__transaction_state"),
        (2, "orders"),
        (4, "1"),
        (8, "1"),
    ]
    brokers = await broker.call(list_config_resources.API, ListConfigResourcesRequest((4, 4)))
    assert [each.resource_name for each in brokers.config_resources] == ["1"]


async def test_version_0_of_config_resources_lists_client_metrics_of_which_there_are_none() -> None:
    broker = await DataBroker.started()
    answer = await broker.call(list_config_resources.API, ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (0, ())


async def test_an_unknown_type_of_config_resource_is_unsupported() -> None:
    broker = await DataBroker.started()
    answer = await broker.call(list_config_resources.API, ListConfigResourcesRequest((2, 77)))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())


@pytest.mark.parametrize(
    ("api", "request_message"),
    [
        (describe_acls.API, DescribeAclsRequest()),
        (describe_client_quotas.API, DescribeClientQuotasRequest()),
        (describe_log_dirs.API, DescribeLogDirsRequest()),
        (describe_quorum.API, METADATA),
        (list_config_resources.API, ListConfigResourcesRequest()),
        (list_partition_reassignments.API, ListPartitionReassignmentsRequest()),
    ],
)
def test_refusals_carry_their_error(api: Api, request_message: Message) -> None:
    for version in api.versions:
        answer = refused(api, request_message, ErrorCode.UNKNOWN_SERVER_ERROR, version)
        if not (api is describe_log_dirs.API and version < 3):  # no room for it
            assert answer.error_code == -1
