"""What a broker with an authorizer lets through, request by request (security.md 4.5 to 4.7, 9.3)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from batches import data
from guarded_broker import ADMIN, GuardedBroker, guarded_broker

from eosin.model.acls import PatternType, Permission
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ALICE = "User:alice"
GROUP, TRANSACTIONAL_ID = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        yield running


def produce(*batches: tuple[str, bytes], transactional_id: str | None = None, acks: int = -1) -> ProduceRequest:
    topics = tuple(TopicProduceData(name, partition_data=(PartitionProduceData(0, batch),)) for name, batch in batches)
    return ProduceRequest(transactional_id, acks, 5000, topics)


async def produced(broker: GuardedBroker, principal: str, request: ProduceRequest) -> dict[str, int]:
    response = await broker.ask(principal, ApiKey.PRODUCE, request, version=12)
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def fetch(*names: str, max_wait_ms: int = 0, replica_id: int = -1, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    topics = tuple(
        FetchTopic(name, partitions=(FetchPartition(0, fetch_offset=0, partition_max_bytes=10_000),)) for name in names
    )
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=10_000,
        topics=topics,
        session_id=session[0],
        session_epoch=session[1],
    )


def fetched(response: Any) -> dict[str, tuple[int, bool]]:
    return {
        topic.topic: (topic.partitions[0].error_code, bool(topic.partitions[0].records)) for topic in response.responses
    }


def metadata(*names: str, creates: bool = False) -> MetadataRequest:
    return MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in names), creates)


async def topics_of(broker: GuardedBroker, principal: str, request: MetadataRequest) -> dict[str, int]:
    response = await broker.ask(principal, ApiKey.METADATA, request)
    return {topic.name: topic.error_code for topic in response.topics}


# Data ----------------------------------------------------------------------------------------------------------------


async def test_a_batch_is_written_by_whoever_may_write_its_topic(broker: GuardedBroker) -> None:
    await broker.create_topics("mine", "yours")
    await broker.grant(ALICE, Operation.WRITE, "mine")
    errors = await produced(broker, ALICE, produce(("mine", data()), ("yours", data()), ("absent", data())))
    assert errors == {"mine": ErrorCode.NONE, "yours": DENIED, "absent": DENIED}


async def test_a_denial_that_cannot_be_answered_closes_the_connection(broker: GuardedBroker) -> None:
    await broker.create_topics("yours")
    peer = broker.peer(ALICE)
    peer.send(ApiKey.PRODUCE, 12, produce(("yours", data()), acks=0))
    assert peer.transport.is_closing()


async def test_every_batch_is_looked_at_for_a_foreign_transactional_id(broker: GuardedBroker) -> None:
    """Case 38 of security.md 9.3: the second batch is the transactional one."""
    await broker.create_topics("a", "b")
    await broker.grant(ALICE, Operation.WRITE, "*")
    request = produce(("a", data()), ("b", data(pid=7, seq=0, txn=True)), transactional_id="foreign")
    foreign = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await produced(broker, ALICE, request) == {"a": foreign, "b": foreign}
    response = await broker.ask(ADMIN, ApiKey.FETCH, fetch("a", "b"), version=12)
    assert fetched(response) == {"a": (ErrorCode.NONE, False), "b": (ErrorCode.NONE, False)}


async def test_no_client_id_opens_internal_topics(broker: GuardedBroker) -> None:
    """Case 34 of security.md 9.3."""
    peer = broker.peer(ALICE)
    frame = peer.frame(ApiKey.PRODUCE, 12, produce(("__transaction_state", data())), client_id="__admin_client")
    peer.transport.feed(frame)
    response = await broker.answer(peer)
    assert response.responses[0].partition_responses[0].error_code == DENIED


async def test_a_consumer_reads_what_it_may_read(broker: GuardedBroker) -> None:
    await broker.create_topics("mine", "yours")
    await produced(broker, ADMIN, produce(("mine", data()), ("yours", data())))
    await broker.grant(ALICE, Operation.READ, "mine")
    response = await broker.ask(ALICE, ApiKey.FETCH, fetch("mine", "yours", "absent"), version=12)
    assert fetched(response) == {"mine": (0, True), "yours": (DENIED, False), "absent": (DENIED, False)}
    hidden = response.responses[1].partitions[0]
    assert (hidden.high_watermark, hidden.last_stable_offset, hidden.log_start_offset) == (-1, -1, -1)


async def test_a_session_is_asked_about_each_partition_at_each_fetch(broker: GuardedBroker) -> None:
    await broker.create_topics("mine")
    await broker.grant(ALICE, Operation.READ, "mine")
    first = await broker.ask(ALICE, ApiKey.FETCH, fetch("mine", session=(0, 0)), version=12)
    assert first.session_id
    await broker.revoke(ALICE)
    again = await broker.ask(ALICE, ApiKey.FETCH, fetch(session=(first.session_id, 1)), version=12)
    assert fetched(again) == {"mine": (DENIED, False)}


async def test_a_session_is_its_owners_alone(broker: GuardedBroker) -> None:
    """Case 37 of security.md 9.3."""
    await broker.create_topics("mine")
    for principal in (ALICE, "User:bob"):
        await broker.grant(principal, Operation.READ, "mine")
    opened = await broker.ask(ALICE, ApiKey.FETCH, fetch("mine", session=(0, 0)), version=12)
    foreign = await broker.ask("User:bob", ApiKey.FETCH, fetch(session=(opened.session_id, 1)), version=12)
    assert foreign.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await broker.ask("User:bob", ApiKey.FETCH, fetch(session=(opened.session_id, -1)), version=12)
    own = await broker.ask(ALICE, ApiKey.FETCH, fetch(session=(opened.session_id, 1)), version=12)
    assert (own.error_code, own.session_id) == (ErrorCode.NONE, opened.session_id)


async def test_the_metadata_of_the_broker_itself_are_no_topic_for_anybody(broker: GuardedBroker) -> None:
    """Case 36 of security.md 9.3."""
    name = "__eosin_metadata"
    assert await topics_of(broker, ADMIN, metadata(name)) == {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    response = await broker.ask(ADMIN, ApiKey.FETCH, fetch(name), version=12)
    assert fetched(response) == {name: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)}
    described = await broker.ask(
        ADMIN, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest((DescribeConfigsResource(2, name, None),))
    )
    assert described.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = CreateTopicsRequest((CreatableTopic(name, 1, 1),), 5000)
    created = await broker.ask(ADMIN, ApiKey.CREATE_TOPICS, request)
    assert created.topics[0].error_code == DENIED  # the name is reserved, also for super users


@pytest.mark.parametrize("name", ["super.users", "authorizer.class.name", "allow.everyone.if.no.acl.found"])
async def test_the_settings_behind_rights_change_with_a_restart_only(broker: GuardedBroker, name: str) -> None:
    """Case 47 of security.md 9.3."""
    change = AlterConfigsResource(4, "", (AlterableConfig(name, 0, "User:alice"),))
    response = await broker.ask(
        ADMIN, ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest((change,), False)
    )
    assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_a_fetch_that_waits_is_asked_again_when_it_wakes(broker: GuardedBroker) -> None:
    await broker.create_topics("mine")
    await broker.grant(ALICE, Operation.READ, "mine")
    peer = broker.peer(ALICE)
    peer.send(ApiKey.FETCH, 12, fetch("mine", max_wait_ms=20_000))
    await asyncio.sleep(0)
    assert peer.answers() == []
    await broker.revoke(ALICE)
    await produced(broker, ADMIN, produce(("mine", data())))
    assert fetched(await broker.answer(peer)) == {"mine": (DENIED, False)}


async def test_nobody_reads_as_a_replica_without_acting_for_the_cluster(broker: GuardedBroker) -> None:
    """Case 35 of security.md 9.3."""
    await broker.create_topics("mine")
    await broker.grant(ALICE, Operation.READ, "mine")
    response = await broker.ask(ALICE, ApiKey.FETCH, fetch("mine", replica_id=1), version=12)
    assert fetched(response) == {"mine": (DENIED, False)}
    wanted = (ListOffsetsTopic("mine", (ListOffsetsPartition(0, timestamp=-1),)),)
    response = await broker.ask(ALICE, ApiKey.LIST_OFFSETS, ListOffsetsRequest(1, 0, wanted))
    assert response.topics[0].partitions[0].error_code == DENIED


# Transactions --------------------------------------------------------------------------------------------------------


async def test_a_foreign_transactional_id_is_neither_fenced_nor_ended(broker: GuardedBroker) -> None:
    """Case 39 of security.md 9.3."""
    owner = await broker.ask(ADMIN, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 60_000), version=5)
    foreign = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    await broker.grant(ALICE, Operation.DESCRIBE, "tx", kind=TRANSACTIONAL_ID)
    taken = await broker.ask(ALICE, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 60_000), version=5)
    assert (taken.error_code, taken.producer_id) == (foreign, -1)
    end = EndTxnRequest("tx", owner.producer_id, owner.producer_epoch, committed=True)
    assert (await broker.ask(ALICE, ApiKey.END_TXN, end)).error_code == foreign
    again = await broker.ask(ADMIN, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 60_000), version=5)
    assert again.producer_epoch == owner.producer_epoch + 1


async def test_two_phase_commit_is_a_right_of_its_own() -> None:
    """Case 40 of security.md 9.3."""
    async with guarded_broker(transaction_two_phase_commit_enable=True) as broker:
        request = InitProducerIdRequest("tx", 60_000, enable_2pc=True)
        await broker.grant(ALICE, Operation.WRITE, "tx", kind=TRANSACTIONAL_ID)
        response = await broker.ask(ALICE, ApiKey.INIT_PRODUCER_ID, request, version=6)
        assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        await broker.grant(ALICE, Operation.TWO_PHASE_COMMIT, "tx", kind=TRANSACTIONAL_ID)
        response = await broker.ask(ALICE, ApiKey.INIT_PRODUCER_ID, request, version=6)
        assert response.error_code == ErrorCode.NONE


async def test_a_user_who_may_write_some_topic_may_write_idempotently(broker: GuardedBroker) -> None:
    request = InitProducerIdRequest(None, 60_000)
    response = await broker.ask(ALICE, ApiKey.INIT_PRODUCER_ID, request, version=5)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await broker.grant(ALICE, Operation.WRITE, "some", pattern=PatternType.PREFIXED)
    response = await broker.ask(ALICE, ApiKey.INIT_PRODUCER_ID, request, version=5)
    assert response.error_code == ErrorCode.NONE


async def test_a_listing_of_transactions_shows_what_may_be_described(broker: GuardedBroker) -> None:
    """Case 42 of security.md 9.3: a pattern widens nothing."""
    for name in ("mine", "yours"):
        await broker.ask(ADMIN, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(name, 60_000), version=5)

    async def listed() -> list[str]:
        request = ListTransactionsRequest(transactional_id_pattern=".*")
        response = await broker.ask(ALICE, ApiKey.LIST_TRANSACTIONS, request)
        return [each.transactional_id for each in response.transaction_states]

    assert await listed() == []
    await broker.grant(ALICE, Operation.WRITE, "mine", kind=TRANSACTIONAL_ID)
    assert await listed() == ["mine"]


# Topics --------------------------------------------------------------------------------------------------------------


async def test_a_hidden_topic_is_told_as_one_that_does_not_exist(broker: GuardedBroker) -> None:
    """Case 41 of security.md 9.3."""
    await broker.create_topics("hidden")
    response = await broker.ask(ALICE, ApiKey.METADATA, metadata("hidden", "absent"))
    assert [(each.error_code, each.topic_id, each.partitions) for each in response.topics] == [
        (DENIED, ZERO_UUID, ()),
        (DENIED, ZERO_UUID, ()),
    ]
    everything = await broker.ask(ALICE, ApiKey.METADATA, MetadataRequest(None))
    assert everything.topics == ()
    assert (await broker.ask(ALICE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest())).topics == ()


async def test_by_its_id_a_hidden_topic_is_told_without_its_name(broker: GuardedBroker) -> None:
    await broker.create_topics("hidden")
    topic_id = broker.server.cluster.topics["hidden"].topic_id
    request = MetadataRequest((MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"x" * 16, None)))
    response = await broker.ask(ALICE, ApiKey.METADATA, request)
    assert [(each.error_code, each.name) for each in response.topics] == [
        (DENIED, None),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
    ]


async def test_a_topic_is_created_by_metadata_for_whoever_may_create_it(broker: GuardedBroker) -> None:
    """Case 43 of security.md 9.3."""
    await broker.grant(ALICE, Operation.WRITE, "t", pattern=PatternType.PREFIXED)
    assert await topics_of(broker, ALICE, metadata("t1", creates=True)) == {"t1": DENIED}
    assert await topics_of(broker, ALICE, metadata("t1")) == {"t1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert "t1" not in broker.server.cluster.topics
    await broker.grant(ALICE, Operation.CREATE, "t1")
    request = metadata("t1", "t2", creates=True)
    assert await topics_of(broker, ALICE, request) == {"t1": ErrorCode.NONE, "t2": DENIED}
    await broker.grant(ALICE, Operation.CREATE)
    assert await topics_of(broker, ALICE, metadata("t2", creates=True)) == {"t2": ErrorCode.NONE}


async def test_authorized_operations_are_told_as_they_are(broker: GuardedBroker) -> None:
    await broker.create_topics("mine")
    await broker.grant(ALICE, Operation.ALTER, "mine")
    request = MetadataRequest((MetadataRequestTopic(name="mine"),), False, True, True)
    response = await broker.ask(ALICE, ApiKey.METADATA, request, version=10)
    alter_and_describe = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert response.topics[0].topic_authorized_operations == alter_and_describe
    assert response.cluster_authorized_operations == 0
    await broker.grant(ALICE, Operation.ALTER)
    response = await broker.ask(ALICE, ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(True))
    assert response.cluster_authorized_operations == alter_and_describe


async def test_a_topic_is_deleted_by_whoever_may_delete_it_and_hidden_from_others(broker: GuardedBroker) -> None:
    await broker.create_topics("mine", "seen", "hidden")
    await broker.grant(ALICE, Operation.DELETE, "mine")
    await broker.grant(ALICE, Operation.DESCRIBE, "seen")
    await broker.grant(ALICE, Operation.DESCRIBE, "absent-but-seen")
    topics = broker.server.cluster.topics
    ids = {name: topics[name].topic_id for name in ("seen", "hidden")}

    async def deleted(*states: DeleteTopicState) -> list[tuple[int, str | None]]:
        response = await broker.ask(ALICE, ApiKey.DELETE_TOPICS, DeleteTopicsRequest(states, timeout_ms=5000))
        return [(each.error_code, each.name) for each in response.responses]

    named = [DeleteTopicState(name) for name in ("mine", "seen", "hidden", "absent", "absent-but-seen")]
    assert await deleted(*named) == [
        (ErrorCode.NONE, "mine"),
        (DENIED, "seen"),
        (DENIED, "hidden"),
        (DENIED, "absent"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "absent-but-seen"),
    ]
    by_id = [DeleteTopicState(None, each) for each in (ids["seen"], ids["hidden"], b"x" * 16)]
    assert await deleted(*by_id) == [(DENIED, "seen"), (DENIED, None), (ErrorCode.UNKNOWN_TOPIC_ID, None)]
    assert set(topics) >= {"seen", "hidden"}


async def test_settings_of_an_absent_topic_are_told_as_denied(broker: GuardedBroker) -> None:
    await broker.create_topics("hidden")
    resources = tuple(DescribeConfigsResource(2, name, None) for name in ("hidden", "absent"))
    response = await broker.ask(ALICE, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources))
    assert [each.error_code for each in response.results] == [DENIED, DENIED]
    response = await broker.ask(ADMIN, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources))
    assert [each.error_code for each in response.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# Groups --------------------------------------------------------------------------------------------------------------


async def test_offsets_are_committed_and_told_by_group_and_topic(broker: GuardedBroker) -> None:
    await broker.create_topics("mine", "yours")
    commit = OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            OffsetCommitRequestTopic(name, partitions=(OffsetCommitRequestPartition(0, 5),))
            for name in ("mine", "yours")
        ),
    )

    async def committed(principal: str) -> list[int]:
        response = await broker.ask(principal, ApiKey.OFFSET_COMMIT, commit, version=9)
        return [each.partitions[0].error_code for each in response.topics]

    assert await committed(ALICE) == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2
    await broker.grant(ALICE, Operation.READ, "g", kind=GROUP)
    await broker.grant(ALICE, Operation.READ, "mine")
    assert await committed(ALICE) == [ErrorCode.NONE, DENIED]
    assert await committed(ADMIN) == [ErrorCode.NONE] * 2
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),))
    response = await broker.ask(ALICE, ApiKey.OFFSET_FETCH, request, version=9)
    assert [each.name for each in response.groups[0].topics] == ["mine"]


# Access control entries ----------------------------------------------------------------------------------------------


def creation(principal: str = ALICE, **changed: Any) -> AclCreation:
    facts = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(principal=principal, **{**facts, **changed})


async def test_entries_are_changed_by_whoever_may_alter_the_cluster_and_shown_to_who_may_describe_it(
    broker: GuardedBroker,
) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request = CreateAclsRequest((creation(), creation(operation=4)))
    response = await broker.ask(ALICE, ApiKey.CREATE_ACLS, request)
    assert [each.error_code for each in response.results] == [denied, denied]
    response = await broker.ask(ALICE, ApiKey.DELETE_ACLS, DeleteAclsRequest((DeleteAclsFilter(1),)))
    assert [each.error_code for each in response.filter_results] == [denied]
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    assert (await broker.ask(ALICE, ApiKey.DESCRIBE_ACLS, everything)).error_code == denied
    await broker.grant(ALICE, Operation.ALTER)
    response = await broker.ask(ALICE, ApiKey.CREATE_ACLS, request)
    assert [each.error_code for each in response.results] == [ErrorCode.NONE, ErrorCode.NONE]
    response = await broker.ask(ALICE, ApiKey.DESCRIBE_ACLS, everything)
    assert [(each.resource_name, len(each.acls)) for each in response.resources] == [
        ("kafka-cluster", 1),
        ("orders", 2),
    ]


async def test_an_entry_counts_before_its_response_leaves(broker: GuardedBroker) -> None:
    await broker.create_topics("orders")
    alice = broker.peer(ALICE)
    assert fetched(await broker.ask(ALICE, ApiKey.FETCH, fetch("orders"), version=12)) == {"orders": (DENIED, False)}
    response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, CreateAclsRequest((creation(),)))
    assert response.results[0].error_code == ErrorCode.NONE
    alice.send(ApiKey.FETCH, 12, fetch("orders"))
    assert fetched(await broker.answer(alice)) == {"orders": (ErrorCode.NONE, False)}


@pytest.mark.parametrize(
    "changed",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"resource_pattern_type": 0},
        {"operation": 0},
        {"operation": 1},
        {"operation": 99},
        {"permission_type": 0},
        {"permission_type": 1},
        {"resource_name": ""},
        {"resource_type": 4, "resource_name": "another"},
        {"principal": "alice"},
        {"principal": ":alice"},
    ],
)
async def test_an_entry_without_sense_is_refused_and_the_others_are_added(
    broker: GuardedBroker, changed: dict[str, Any]
) -> None:
    request = CreateAclsRequest((creation(), creation(**changed), creation(operation=4)))
    response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request)
    assert [each.error_code for each in response.results] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert response.results[1].error_message


async def test_an_entry_that_is_there_is_there(broker: GuardedBroker) -> None:
    request = CreateAclsRequest((creation(), creation()))
    for _ in range(2):
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request)
        assert [each.error_code for each in response.results] == [0, 0]
    assert broker.server.services.authorizer.index.size == 1  # type: ignore[union-attr, attr-defined]


async def test_entries_have_a_limit() -> None:
    async with guarded_broker(eosin_acl_max_entries=2) as broker:
        request = CreateAclsRequest(tuple(creation(operation=number) for number in (3, 4, 5)))
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request)
        assert [each.error_code for each in response.results] == [0, 0, ErrorCode.POLICY_VIOLATION]


async def test_useless_hosts_are_stored_and_told_with_escaped_names(
    broker: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 46 of security.md 9.3."""
    host = "broker-1"
    with caplog.at_level(logging.INFO):
        request = CreateAclsRequest((creation(host=host), creation(resource_name="a\nINFO forged")))
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request)
    assert [each.error_code for each in response.results] == [0, 0]
    assert any("matches nobody" in line and host in line for line in caplog.messages)
    assert all("\n" not in str(getattr(record, "eosin_fields", "")) for record in caplog.records)


@pytest.mark.parametrize("host", ["", "10.0.0.0/33", "orders/8", "/"])
async def test_a_host_that_is_no_network_is_refused(broker: GuardedBroker, host: str) -> None:
    request = CreateAclsRequest((creation(host=host), creation(host="10.0.0.0/8")))
    refused, good = (await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request)).results
    assert (refused.error_code, good.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert "10.0.0.0/8" in refused.error_message


async def test_entries_go_by_filters_and_each_filter_tells_what_it_found(broker: GuardedBroker) -> None:
    await broker.ask(
        ADMIN,
        ApiKey.CREATE_ACLS,
        CreateAclsRequest(
            (
                creation(),
                creation(resource_name="ord", resource_pattern_type=4),
                creation(resource_name="*", permission_type=2),
                creation("User:bob", resource_name="other"),
            )
        ),
    )
    match = DeleteAclsFilter(2, "orders", PatternType.MATCH, None, None, 1, 1)
    literal = DeleteAclsFilter(2, "orders", PatternType.LITERAL, None, None, 1, 1)
    unknown = DeleteAclsFilter(0, None, 1, None, None, 1, 1)
    response = await broker.ask(ADMIN, ApiKey.DELETE_ACLS, DeleteAclsRequest((match, literal, unknown)))
    names = [[each.resource_name for each in result.matching_acls] for result in response.filter_results]
    assert names == [["orders", "ord", "*"], ["orders"], []]
    assert [each.error_code for each in response.filter_results] == [0, 0, ErrorCode.INVALID_REQUEST]
    response = await broker.ask(ADMIN, ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
    assert [each.resource_name for each in response.resources] == ["other"]


async def test_version_0_knows_literal_patterns_only(broker: GuardedBroker) -> None:
    request = CreateAclsRequest((creation(),))
    assert (await broker.ask(ADMIN, ApiKey.CREATE_ACLS, request, version=0)).results[0].error_code == 0
    prefixed = CreateAclsRequest((creation(resource_name="o", resource_pattern_type=4),))
    await broker.ask(ADMIN, ApiKey.CREATE_ACLS, prefixed)
    response = await broker.ask(
        ADMIN, ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(1, None, 3, None, None, 1, 1), version=0
    )
    assert [each.resource_name for each in response.resources] == ["orders"]


# The log -------------------------------------------------------------------------------------------------------------


async def test_equal_denials_have_one_line_that_names_the_rule(
    broker: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.grant(ALICE, Operation.READ, "orders", permission=Permission.DENY)
    with caplog.at_level(logging.INFO, "eosin.authorizer"):
        for _ in range(5):
            await broker.ask(ALICE, ApiKey.FETCH, fetch("orders"), version=12)
    (line,) = [record.eosin_fields for record in caplog.records if record.name == "eosin.authorizer"]  # type: ignore[attr-defined]
    assert (line["principal"], line["operation"], line["resource"], line["api"]) == (ALICE, "READ", "orders", "FETCH")
    assert line["rule"] == "DENY User:alice READ on LITERAL TOPIC orders from *"


async def test_denials_that_a_rule_calls_quiet_are_not_logged(
    broker: GuardedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create_topics("hidden")
    with caplog.at_level(logging.INFO, "eosin.authorizer"):
        await broker.ask(ALICE, ApiKey.METADATA, MetadataRequest(None))
    assert not [record for record in caplog.records if record.name == "eosin.authorizer"]
