"""APIs whose answer on one node, without an authorizer and without quotas, says that there is nothing to do."""

import os

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_acls,
    delete_acls,
    describe_user_scram_credentials,
    elect_leaders,
    update_features,
)
from eosin.network.api import Api
from eosin.protocol.errors import ErrorCode
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
from eosin.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from eosin.protocol.types import Message
from eosin.settings.broker import BrokerConfig

HERE = os.path.abspath("data")
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def with_orders(config: BrokerConfig | None = None) -> DataBroker:
    broker = await DataBroker.started(config)
    await broker.cluster.create_topic("orders", partitions=2)
    return broker


@pytest.mark.parametrize("version", elect_leaders.API.versions)
async def test_no_partition_needs_an_election(version: int) -> None:
    broker = await with_orders()
    asked = (TopicPartitions("orders", (0, 1, 7)), TopicPartitions("no", (0,)))
    answer = await broker.call(elect_leaders.API, ElectLeadersRequest(0, asked, timeout_ms=0), version)
    assert answer.error_code == NONE
    assert [
        (topic.topic, [(each.partition_id, each.error_code) for each in topic.partition_result])
        for topic in answer.replica_election_results
    ] == [
        ("orders", [(0, ErrorCode.ELECTION_NOT_NEEDED), (1, ErrorCode.ELECTION_NOT_NEEDED), (7, UNKNOWN)]),
        ("no", [(0, UNKNOWN)]),
    ]
    assert all(each.error_message for topic in answer.replica_election_results for each in topic.partition_result)


async def test_an_election_of_all_partitions_names_none() -> None:
    broker = await with_orders()
    answer = await broker.call(elect_leaders.API, ElectLeadersRequest(1, None))
    found = {each.topic: each.partition_result for each in answer.replica_election_results}
    assert found == {"orders": (), "__consumer_offsets": (), "__transaction_state": ()}


async def test_an_election_of_an_unknown_kind_is_refused() -> None:
    broker = await with_orders()
    answer = await broker.call(elect_leaders.API, ElectLeadersRequest(2, (TopicPartitions("orders", (0,)),)))
    (result,) = answer.replica_election_results[0].partition_result
    assert (answer.error_code, result.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", alter_partition_reassignments.API.versions)
async def test_partitions_can_be_given_the_replicas_that_they_have(version: int) -> None:
    broker = await with_orders()
    replicas: list[tuple[int, tuple[int, ...] | None]] = [
        (0, (1,)),
        (1, None),
        (7, (1,)),
        (0, ()),
        (0, (2,)),
        (0, (1, 2)),
        (0, (1, 1)),
    ]
    topic = ReassignableTopic("orders", tuple(ReassignablePartition(*each) for each in replicas))
    request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=False, topics=(topic,))
    answer = await broker.call(alter_partition_reassignments.API, request, version)
    assert (answer.error_code, answer.allow_replication_factor_change) == (NONE, version == 0)
    impossible = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [(each.partition_index, each.error_code) for each in answer.responses[0].partitions] == [
        (0, NONE),
        (1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (7, UNKNOWN),
        *[(0, impossible)] * 4,
    ]


def features(*levels: tuple[str, int], upgrade_type: int = 1) -> UpdateFeaturesRequest:
    updates = (FeatureUpdateKey(name, level, upgrade_type=upgrade_type) for name, level in levels)
    return UpdateFeaturesRequest(feature_updates=tuple(updates))


@pytest.mark.parametrize("version", update_features.API.versions)
async def test_a_feature_can_be_given_the_level_that_is_in_force(version: int) -> None:
    broker = await with_orders()
    answer = await broker.call(update_features.API, features(("transaction.version", 2), ("group.version", 0)), version)
    assert answer.error_code == NONE
    told = [(each.feature, each.error_code) for each in answer.results]
    assert told == ([("transaction.version", NONE), ("group.version", NONE)] if version < 2 else [])


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            features(("transaction.version", 2), ("transaction.version", 1)),
            "Set eosin.transaction.version=1 and restart",
        ),
        (features(("transaction.version", 3)), "only supports versions 0-2"),
        (features(("transaction.version", -1)), "only supports versions 0-2"),
        (features(("transaction.version", 2), upgrade_type=7), "no such upgrade type"),
        (features(("group.version", 2)), "only supports versions 0-1"),
        (features(("share.version", 3)), "only supports versions 0-2"),
        (features(("streams.version", 2)), "only supports versions 0-1"),
        (features(("metadata.version", 30)), "does not support this feature"),
    ],
)
async def test_no_other_level_can_be_had_while_the_broker_runs(request_: UpdateFeaturesRequest, reason: str) -> None:
    broker = await with_orders()
    answer = await broker.call(update_features.API, request_)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert reason in answer.error_message


async def test_the_level_in_force_is_that_of_the_setting() -> None:
    broker = await with_orders(BrokerConfig(eosin_transaction_version=1))
    assert (await broker.call(update_features.API, features(("transaction.version", 1)))).error_code == NONE


async def test_no_user_has_scram_credentials() -> None:
    broker = await with_orders()
    for users in (None, ()):
        answer = await broker.call(describe_user_scram_credentials.API, DescribeUserScramCredentialsRequest(users))
        assert (answer.error_code, answer.results) == (NONE, ())
    named = DescribeUserScramCredentialsRequest((UserName("a"), UserName("b"), UserName("a")))
    answer = await broker.call(describe_user_scram_credentials.API, named)
    assert [(each.user, each.error_code) for each in answer.results] == [
        ("a", ErrorCode.DUPLICATE_RESOURCE),
        ("b", ErrorCode.RESOURCE_NOT_FOUND),
    ]


@pytest.mark.parametrize("version", create_acls.API.versions)
async def test_without_an_authorizer_no_rights_can_be_given_or_taken(version: int) -> None:
    broker = await with_orders()
    created = await broker.call(create_acls.API, CreateAclsRequest((AclCreation(), AclCreation())), version)
    deleted = await broker.call(delete_acls.API, DeleteAclsRequest((DeleteAclsFilter(),)), version)
    assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
    assert created.results[0].error_message == deleted.filter_results[0].error_message


@pytest.mark.parametrize("version", alter_replica_log_dirs.API.versions)
@pytest.mark.parametrize("durability", ["os", "memory"])
async def test_partitions_can_be_moved_to_where_they_are(version: int, durability: str) -> None:
    broker = await with_orders(BrokerConfig(eosin_durability=durability))  # type: ignore[arg-type]  # both are known
    ours = "memory" if durability == "memory" else HERE
    dirs = (
        AlterReplicaLogDir(ours, (AlterReplicaLogDirTopic("orders", (0, 7)), AlterReplicaLogDirTopic("no", (0,)))),
        AlterReplicaLogDir("/elsewhere", (AlterReplicaLogDirTopic("orders", (1,)),)),
    )
    answer = await broker.call(alter_replica_log_dirs.API, AlterReplicaLogDirsRequest(dirs), version)
    found = {
        topic.topic_name: [(each.partition_index, each.error_code) for each in topic.partitions]
        for topic in answer.results
    }
    assert found == {"orders": [(0, NONE), (7, UNKNOWN), (1, ErrorCode.LOG_DIR_NOT_FOUND)], "no": [(0, UNKNOWN)]}


def quota(*entity: tuple[str, str | None], remove: bool = False) -> RequestEntryData:
    return RequestEntryData(tuple(EntityData(*each) for each in entity), (OpData("producer_byte_rate", 1.0, remove),))


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (elect_leaders.API, ElectLeadersRequest(0, (TopicPartitions("orders", (0,)),))),
        (alter_partition_reassignments.API, AlterPartitionReassignmentsRequest()),
        (update_features.API, UpdateFeaturesRequest()),
        (describe_user_scram_credentials.API, DescribeUserScramCredentialsRequest()),
        (create_acls.API, CreateAclsRequest((AclCreation(),))),
        (delete_acls.API, DeleteAclsRequest((DeleteAclsFilter(),))),
        (
            alter_replica_log_dirs.API,
            AlterReplicaLogDirsRequest((AlterReplicaLogDir("d", (AlterReplicaLogDirTopic("orders", (0,)),)),)),
        ),
        (alter_client_quotas.API, AlterClientQuotasRequest((quota(("user", "a")),))),
    ],
    ids=lambda each: each.key.name if isinstance(each, Api) else "",
)
def test_refusals_carry_their_error(api: Api, message: Message) -> None:
    for version in api.versions:
        assert "error_code=-1" in repr(refused(api, message, ErrorCode.UNKNOWN_SERVER_ERROR, version))
