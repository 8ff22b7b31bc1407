"""Requests of cluster tools, to which one node has short responses: elections, reassignments, features, rights, quotas,
directories, and settings of resources that are neither topics nor brokers."""

from typing import Any, Final

import pytest
from wire import Wire, better_than_kafka, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import incremental_alter_configs as incremental
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from eosin.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_log_dirs import DescribeLogDirsRequest
from eosin.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32
TIMEOUT_MS: Final = 10_000


async def node_id(wire: Wire, partition: TopicPartition) -> int:
    """The only replica of a partition."""
    answer = await wire.ask(MetadataRequest((MetadataRequestTopic(name=partition.topic),)), 12)
    (replica,) = answer.topics[0].partitions[0].replica_nodes
    return int(replica)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [0, 1])
async def test_no_partition_needs_an_election(wire: Wire, version: int, election_type: int) -> None:
    topic, unknown = await wire.topic(2), unique("no")
    asked = (TopicPartitions(topic, (0, 1, 7)), TopicPartitions(unknown, (0,)))
    answer = await wire.ask(ElectLeadersRequest(election_type if version else 0, asked, TIMEOUT_MS), version)
    assert answer.error_code == NONE
    found = {
        each.topic: {one.partition_id: one.error_code for one in each.partition_result}
        for each in answer.replica_election_results
    }
    assert found == {topic: {0: NOT_NEEDED, 1: NOT_NEEDED, 7: UNKNOWN}, unknown: {0: UNKNOWN}}


async def test_an_election_of_all_partitions_names_those_that_were_elected(wire: Wire) -> None:
    topic = await wire.topic()
    answer = await wire.ask(ElectLeadersRequest(0, None, TIMEOUT_MS), 2)
    assert {each.topic: each.partition_result for each in answer.replica_election_results}[topic] == ()


async def test_an_election_of_an_unknown_kind_is_refused(wire: Wire) -> None:
    answer = await wire.ask(ElectLeadersRequest(5, (TopicPartitions(await wire.topic(), (0,)),), TIMEOUT_MS), 2)
    codes = [answer.error_code, answer.replica_election_results[0].partition_result[0].error_code]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_can_be_given_the_replica_that_it_has(
    wire: Wire, partition: TopicPartition, version: int
) -> None:
    ours, other = await node_id(wire, partition), 77
    cases: list[tuple[int, tuple[int, ...] | None, ErrorCode]] = [
        (0, (ours,), NONE),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (7, (ours,), UNKNOWN),
        (0, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (other,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (ours, other), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, (ours, ours), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ]
    for index, replicas, code in cases:
        topic = ReassignableTopic(partition.topic, (ReassignablePartition(index, replicas),))
        answer = await wire.ask(AlterPartitionReassignmentsRequest(TIMEOUT_MS, topics=(topic,)), version)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (NONE, code)


@pytest.mark.parametrize("version", range(3))
async def test_a_feature_can_be_given_the_level_that_it_has(wire: Wire, version: int) -> None:
    request = UpdateFeaturesRequest(TIMEOUT_MS, (FeatureUpdateKey("transaction.version", 2),))
    answer = await wire.ask(request, version)
    assert (answer.error_code, [each.error_code for each in answer.results]) == (NONE, [NONE] if version < 2 else [])


@pytest.mark.parametrize(
    "update",
    [
        FeatureUpdateKey("transaction.version", 3),
        FeatureUpdateKey("transaction.version", -1),
        FeatureUpdateKey("transaction.version", 1),
        FeatureUpdateKey("transaction.version", 1, upgrade_type=9),
        FeatureUpdateKey("group.version", 9),
        FeatureUpdateKey("no.such.feature", 1),
    ],
    ids=str,
)
async def test_a_level_that_cannot_be_had_is_refused(wire: Wire, update: FeatureUpdateKey) -> None:
    answer = await wire.ask(UpdateFeaturesRequest(TIMEOUT_MS, (update,), validate_only=True), 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update.feature in answer.error_message


async def test_a_user_that_is_not_there_has_no_credentials(wire: Wire) -> None:
    user, twice = unique("user"), unique("user")
    names = (UserName(user), UserName(twice), UserName(twice))
    answer = await wire.ask(DescribeUserScramCredentialsRequest(names), 0)
    assert {each.user: each.error_code for each in answer.results} == {
        user: ErrorCode.RESOURCE_NOT_FOUND,
        twice: ErrorCode.DUPLICATE_RESOURCE,
    }


@pytest.mark.parametrize("version", range(1, 4))
async def test_without_an_authorizer_no_rights_are_given_or_taken(wire: Wire, version: int) -> None:
    right = AclCreation(2, "any", 3, "User:a", "*", 3, 3)
    created = await wire.ask(CreateAclsRequest((right, right)), version)
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    which = DeleteAclsFilter(2, "any", 3, None, None, 1, 1)
    deleted = await wire.ask(DeleteAclsRequest((which,)), version)
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


@pytest.mark.parametrize("version", [4, 5])
async def test_a_directory_tells_how_much_room_its_file_system_has(wire: Wire, version: int) -> None:
    (directory,) = (await wire.ask(DescribeLogDirsRequest(()), version)).results
    assert 0 <= directory.usable_bytes <= directory.total_bytes
    assert directory.total_bytes > 0


@pytest.mark.parametrize("version", [1, 2])
async def test_a_partition_can_be_moved_to_the_directory_that_it_is_in(
    wire: Wire, partition: TopicPartition, version: int
) -> None:
    await wire.append(partition)
    here = (await wire.ask(DescribeLogDirsRequest(()), 4)).results[0].log_dir
    for path, index, code in (
        (here, 0, NONE),
        (here, 7, UNKNOWN),
        ("/no/such/directory", 0, ErrorCode.LOG_DIR_NOT_FOUND),
    ):
        topic = AlterReplicaLogDirTopic(partition.topic, (index,))
        answer = await wire.ask(AlterReplicaLogDirsRequest((AlterReplicaLogDir(path, (topic,)),)), version)
        assert [each.error_code for each in answer.results[0].partitions] == [code]


async def quota(wire: Wire, *entity: tuple[str, str], remove: bool) -> ErrorCode:
    entry = RequestEntryData(tuple(EntityData(*each) for each in entity), (OpData("producer_byte_rate", 1e6, remove),))
    answer = await wire.ask(AlterClientQuotasRequest((entry,), validate_only=True), 1)
    return ErrorCode(answer.entries[0].error_code)


async def test_a_quota_that_is_not_there_can_be_removed(wire: Wire) -> None:
    assert await quota(wire, ("user", unique("user")), remove=True) == NONE
    assert await quota(wire, ("tribe", "a"), remove=True) == ErrorCode.INVALID_REQUEST
    assert await quota(wire, ("user", ""), remove=True) == ErrorCode.INVALID_REQUEST
    assert await quota(wire, remove=True) == ErrorCode.INVALID_REQUEST


async def test_a_quota_can_be_set(wire: Wire) -> None:
    assert await quota(wire, ("user", unique("user")), remove=False) == NONE


async def described(wire: Wire, kind: int, name: str) -> Any:
    return (await wire.ask(DescribeConfigsRequest((DescribeConfigsResource(kind, name, None),)), 4)).results[0]


async def altered(wire: Wire, kind: int, name: str, key: str, value: str) -> ErrorCode:
    """The answer to a check of a change."""
    resource = incremental.AlterConfigsResource(kind, name, (incremental.AlterableConfig(key, 0, value),))
    answer = await wire.ask(incremental.IncrementalAlterConfigsRequest((resource,), validate_only=True), 1)
    return ErrorCode(answer.responses[0].error_code)


async def test_the_loggers_of_a_broker_have_levels(wire: Wire, partition: TopicPartition) -> None:
    name = str(await node_id(wire, partition))
    found = await described(wire, BROKER_LOGGER, name)
    levels = {each.name: (each.value, each.config_source) for each in found.configs}
    assert levels["root"][1] == 6
    assert {level for level, _ in levels.values()} <= {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"}
    assert await altered(wire, BROKER_LOGGER, name, "root", "DEBUG") == NONE
    assert await altered(wire, BROKER_LOGGER, name, "root", "LOUD") == ErrorCode.INVALID_CONFIG
    assert await altered(wire, BROKER_LOGGER, name, "no.such", "DEBUG") == ErrorCode.INVALID_CONFIG
    for wrong in ("", "77"):
        assert (await described(wire, BROKER_LOGGER, wrong)).error_code == ErrorCode.INVALID_REQUEST
        assert await altered(wire, BROKER_LOGGER, wrong, "root", "DEBUG") == ErrorCode.INVALID_REQUEST


async def test_a_group_that_is_not_there_can_be_described(wire: Wire) -> None:
    assert (await described(wire, GROUP, unique("group"))).error_code == NONE
    assert (await described(wire, CLIENT_METRICS, unique("metrics"))).error_code == NONE
    assert (await described(wire, GROUP, "")).error_code == ErrorCode.INVALID_REQUEST
    assert await altered(wire, GROUP, unique("group"), "no.such", "1") == ErrorCode.INVALID_CONFIG
    assert await altered(wire, GROUP, "", "consumer.session.timeout.ms", "50000") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("log.cleaner.threads", "2", NONE),
        ("leader.replication.throttled.rate", "1000", NONE),
        ("log.dirs", "/elsewhere", ErrorCode.INVALID_REQUEST),
        ("process.roles", "broker", ErrorCode.INVALID_REQUEST),
        ("advertised.listeners", "PLAINTEXT://elsewhere:9", ErrorCode.INVALID_REQUEST),
        ("ssl.keystore.location", "/elsewhere", ErrorCode.INVALID_REQUEST),
        ("message.max.bytes", "many", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_settings_that_tools_change_can_be_changed(
    wire: Wire, partition: TopicPartition, key: str, value: str, code: ErrorCode
) -> None:
    for name in ("", str(await node_id(wire, partition))):
        assert await altered(wire, BROKER, name, key, value) == code


@better_than_kafka("Apache Kafka keeps whatever name it is given")
async def test_an_unknown_broker_setting_is_refused(wire: Wire) -> None:
    assert await altered(wire, BROKER, "", "log.cleaner.treads", "2") == ErrorCode.INVALID_REQUEST


async def test_advertised_listeners_are_described(wire: Wire, partition: TopicPartition) -> None:
    found = await described(wire, BROKER, str(await node_id(wire, partition)))
    (told,) = [each.value for each in found.configs if each.name == "advertised.listeners"]
    assert told.startswith("PLAINTEXT://127.0.0.1:")
