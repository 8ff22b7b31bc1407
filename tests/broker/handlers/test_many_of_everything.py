"""Requests of very many elements: each has its own answer, once, and what no honest request is made of is refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker

from eosin.broker.handlers import alter_client_quotas, alter_user_scram_credentials, list_groups
from eosin.broker.handlers.leave_group import MEMBERS_AT_ONCE
from eosin.broker.handlers.update_features import MOST_UPDATES
from eosin.broker.handlers.write_txn_markers import PARTITIONS_AT_ONCE
from eosin.broker.unserved_groups import MOST_REPORTED
from eosin.cluster.metadata.config_changes import MOST_CHANGES
from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE
from eosin.model.features import LEVELS_OF_NEW_DIRECTORIES
from eosin.network.many_items import CHARS_PER_ITEM, ITEMS_PER_TURN, in_parts
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from eosin.protocol.types import Message
from eosin.security.acl_requests import MOST_CREATION_CHARS, MOST_CREATIONS, MOST_FILTERS

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SETTING = AlterableConfig("retention.ms", "1000")
ENTRY = RequestEntryData((EntityData("user", "a"),), (OpData("producer_byte_rate", 1.0, False),))


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        yield running


TOO_MANY: dict[ApiKey, tuple[Message, str]] = {
    ApiKey.DELETE_ACLS: (
        DeleteAclsRequest((DeleteAclsFilter(2, "x", 3, None, None, 1, 1),) * (MOST_FILTERS + 1)),
        "filter_results",
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        AlterClientQuotasRequest((ENTRY,) * (alter_client_quotas.MOST_PER_REQUEST + 1)),
        "entries",
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        AlterUserScramCredentialsRequest(
            (ScramCredentialDeletion("a", 1),) * (alter_user_scram_credentials.MOST_PER_REQUEST + 1)
        ),
        "results",
    ),
    ApiKey.ALTER_CONFIGS: (
        AlterConfigsRequest((AlterConfigsResource(2, "orders", (SETTING,) * (MOST_CHANGES + 1)),)),
        "responses",
    ),
}


@pytest.mark.parametrize("key", TOO_MANY, ids=lambda key: key.name)
async def test_more_than_any_honest_request_has_is_refused(broker: GuardedBroker, key: ApiKey) -> None:
    await broker.create_topics("orders")
    request, field = TOO_MANY[key]
    response = await broker.ask(ADMIN, key, request)
    assert {each.error_code for each in getattr(response, field)} == {ErrorCode.INVALID_REQUEST}


async def test_an_admin_adds_so_many_access_control_entries_and_no_longer_ones_at_once(broker: GuardedBroker) -> None:
    """All of a request are added in one step."""
    made = [AclCreation(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(MOST_CREATIONS + 1)]
    long = [AclCreation(2, f"{number}".ljust(32_000, "x"), 3, "User:a", "*", 3, 3) for number in range(40)]
    assert sum(len(each.resource_name) for each in long) > MOST_CREATION_CHARS
    for creations, code in ((made, ErrorCode.INVALID_REQUEST), (long, ErrorCode.INVALID_REQUEST), (made[:-1], 0)):
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, CreateAclsRequest(tuple(creations)))
        assert {each.error_code for each in response.results} == {code}


async def test_a_new_topic_has_no_more_settings_than_there_are(broker: GuardedBroker) -> None:
    settings = tuple(CreatableTopicConfig(f"no.{number}", "1") for number in range(MOST_CHANGES + 1))
    request = CreateTopicsRequest((CreatableTopic("t", 1, 1, configs=settings),), timeout_ms=1000)
    response = await broker.ask(ADMIN, ApiKey.CREATE_TOPICS, request)
    assert response.topics[0].error_code == ErrorCode.INVALID_REQUEST


async def test_more_states_than_there_are_is_refused(broker: GuardedBroker) -> None:
    states = tuple(f"S{number}" for number in range(list_groups.MOST_FILTERS + 1))
    for key, request in (
        (ApiKey.LIST_GROUPS, ListGroupsRequest(states_filter=states)),
        (ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=states)),
        (ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(state_filters=states)),
    ):
        assert (await broker.ask(ADMIN, key, request)).error_code == ErrorCode.INVALID_REQUEST


async def test_more_topics_than_may_be_created_do_not_grow_either(broker: GuardedBroker) -> None:
    topics = tuple(CreatePartitionsTopic(f"t{number}", 2) for number in range(MAX_PARTITIONS_PER_CHANGE + 1))
    response = await broker.ask(ADMIN, ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(topics))
    assert {each.error_code for each in response.results} == {ErrorCode.POLICY_VIOLATION}


async def test_more_features_than_there_are_is_refused(broker: GuardedBroker) -> None:
    updates = (FeatureUpdateKey("transaction.version", 2),) * (MOST_UPDATES + 1)
    response = await broker.ask(ADMIN, ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(1000, updates))
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_of_many_names_of_settings_those_that_exist_are_described(broker: GuardedBroker) -> None:
    """A look through all of them for each setting that a broker has took seconds."""
    await broker.create_topics("orders")
    keys = ("retention.ms", *(f"no.{number}" for number in range(10_000)), "segment.bytes")
    request = DescribeConfigsRequest((DescribeConfigsResource(2, "orders", keys),))
    response = await broker.ask(ADMIN, ApiKey.DESCRIBE_CONFIGS, request)
    assert {each.name for each in response.results[0].configs} == {"retention.ms", "segment.bytes"}


@pytest.mark.parametrize("made", [ShareGroupDescribeRequest, ConsumerGroupDescribeRequest])
async def test_the_first_of_many_groups_are_told_why_they_are_refused(broker: GuardedBroker, made: Any) -> None:
    key = ApiKey.SHARE_GROUP_DESCRIBE if made is ShareGroupDescribeRequest else ApiKey.CONSUMER_GROUP_DESCRIBE
    names = tuple(f"g{number}" for number in range(3 * MOST_REPORTED))
    lowered = tuple(FeatureUpdateKey(each, 0, upgrade_type=2) for each in LEVELS_OF_NEW_DIRECTORIES)
    await broker.ask(ADMIN, ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(1000, lowered))
    response = await broker.ask(ADMIN, key, made(names))
    assert [each.group_id for each in response.groups] == list(names)
    assert {each.error_code for each in response.groups} == {ErrorCode.UNSUPPORTED_VERSION}
    assert [each.error_message is not None for each in response.groups] == [True] * MOST_REPORTED + [
        False
    ] * 2 * MOST_REPORTED


async def test_markers_of_very_many_partitions_have_one_result_each(broker: GuardedBroker) -> None:
    await broker.create_topics("orders")
    many = tuple(range(2 * PARTITIONS_AT_ONCE + 1))
    topics = (WritableTxnMarkerTopic("orders", (0,)), WritableTxnMarkerTopic("none", many))
    markers = tuple(WritableTxnMarker(each, 0, False, topics) for each in (5, 5, 6))
    response = await broker.ask(ADMIN, ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers))
    assert [each.producer_id for each in response.markers] == [5, 5, 6]
    for result in response.markers:
        named = [(topic.name, each.partition_index) for topic in result.topics for each in topic.partitions]
        assert named == [("orders", 0), *(("none", index) for index in many)]
        errors = {(topic.name, each.error_code) for topic in result.topics for each in topic.partitions}
        assert errors == {("orders", ErrorCode.NONE), ("none", UNKNOWN)}


async def test_very_many_members_leave_each_with_an_answer(broker: GuardedBroker) -> None:
    members = tuple(MemberIdentity(f"m{number}") for number in range(2 * MEMBERS_AT_ONCE + 1))
    response = await broker.ask(ADMIN, ApiKey.LEAVE_GROUP, LeaveGroupRequest("group", members=members))
    assert [each.member_id for each in response.members] == [each.member_id for each in members]
    assert {each.error_code for each in response.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


async def test_very_many_groups_are_deleted_each_with_an_answer(broker: GuardedBroker) -> None:
    names = tuple(f"g{number}" for number in range(3 * ITEMS_PER_TURN))
    response = await broker.ask(ADMIN, ApiKey.DELETE_GROUPS, DeleteGroupsRequest(names))
    assert [each.group_id for each in response.results] == list(names)
    assert {each.error_code for each in response.results} == {ErrorCode.GROUP_ID_NOT_FOUND}


def test_long_names_come_in_smaller_parts() -> None:
    assert [len(part) for part in in_parts(["x"] * (ITEMS_PER_TURN + 1), str)] == [ITEMS_PER_TURN, 1]
    long = "x" * (CHARS_PER_ITEM * ITEMS_PER_TURN)
    assert [len(part) for part in in_parts([long] * 3, str)] == [1, 1, 1]
    assert list(in_parts([], str)) == []
