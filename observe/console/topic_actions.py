"""`TopicActions`: topics made, changed and deleted from the console, and records written to try one out (console.md
5.5).

Each is a request of Kafka's protocol that the console asks of its own broker (`OwnRequests`). Always true: what changes
or deletes a topic names its id, which a later topic of the same name does not have, and the value that was seen.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from eosin.broker.services import Services
from eosin.model.cluster import ConfigOperation, Topic
from eosin.network import audit
from eosin.network.api import RequestContext
from eosin.observe.console.log_routes import partition_named
from eosin.observe.console.own_requests import OwnRequests, RequestRefused
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition, uuid_text
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TEST_ID: Final = "eosin-console"
"""Transactional ids of test records begin with it; a number follows, so that this broker coordinates it."""
TEST_TIMEOUT_MS: Final = 10_000
TRIES: Final = 100
TRY_MS: Final = 100
"""The number of tries with a coordinator that is being found or ends a transaction, and the time between them."""
LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
REQUEST_TIMEOUT_MS: Final = 30_000
ALL_REPLICAS: Final = -1
TRANSACTIONAL_IDS: Final = 1
MOVED_ON: Final = "it is not as it was when you looked: look again"


class CreateTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Make a topic."""

    name: str
    partitions: int = -1
    """-1: the broker's default; likewise the replication factor."""
    replication_factor: int = -1
    configs: dict[str, str] = {}


class DeleteTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delete a topic with all its records."""

    name: str
    topic_id: str
    typed: str
    """The name once more, as the operator has typed it."""


class ChangeTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Change a setting of a topic."""

    name: str
    topic_id: str
    config: str
    value: str | None = None
    """None: no value of the topic's own."""
    before: str | None = None
    """The topic's own value as the operator has seen it; None where it had none."""


class DeleteRecords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delete the records of a partition below an offset."""

    partition: str
    before: int
    log_start: int
    """The log's start as the operator has seen it."""
    typed: str


class TestRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Write a record."""

    partition: str
    key: str | None = None
    value: str | None = None
    headers: dict[str, str] = {}
    outcome: Literal["plain", "commit", "abort"] = "plain"
    """Without a transaction, or in one that is committed or aborted."""


class Done(NamedTuple):
    """The result of an action."""

    status: int
    sentence: str


class TopicActions:
    """The actions on topics of one broker's console."""

    def __init__(self, services: Services, requests: OwnRequests) -> None:
        self._services = services
        self._requests = requests
        self._testing = asyncio.Lock()
        """One transactional id is for one test at a time: the next one would fence it."""

    async def create(self, asked: CreateTopic, context: RequestContext) -> Done:
        """Make a topic."""
        configs = tuple(CreatableTopicConfig(name, value) for name, value in asked.configs.items())
        topic = CreatableTopic(asked.name, asked.partitions or -1, asked.replication_factor or -1, (), configs)
        request = CreateTopicsRequest((topic,), REQUEST_TIMEOUT_MS)
        response = await self._requests.request(ApiKey.CREATE_TOPICS, request, context)
        (made,) = response.topics
        _raise(made.error_code, made.error_message)
        audit.note("the console creates a topic", context, topic=asked.name)
        return Done(200, f"Topic {asked.name} is there.")

    async def delete(self, asked: DeleteTopic, context: RequestContext) -> Done:
        """Delete a topic."""
        if asked.typed != asked.name:
            return Done(400, "type the topic's name to confirm")
        topic = self._topic(asked.name, asked.topic_id)
        if isinstance(topic, Done):
            return topic
        request = DeleteTopicsRequest((DeleteTopicState(None, topic.topic_id),), (), REQUEST_TIMEOUT_MS)
        response = await self._requests.request(ApiKey.DELETE_TOPICS, request, context)
        (gone,) = response.responses
        _raise(gone.error_code, gone.error_message)
        audit.note("the console deletes a topic", context, topic=asked.name, topic_id=asked.topic_id)
        return Done(200, f"Topic {asked.name} was deleted.")

    async def change(self, asked: ChangeTopic, context: RequestContext) -> Done:
        """Change a setting."""
        topic = self._topic(asked.name, asked.topic_id)
        if isinstance(topic, Done):
            return topic
        if topic.configs.get(asked.config) != asked.before:
            return Done(409, f"{asked.config} has another value by now: {MOVED_ON}")
        operation = ConfigOperation.DELETE if asked.value is None else ConfigOperation.SET
        change = AlterableConfig(asked.config, operation, asked.value)
        resource = AlterConfigsResource(ConfigResourceType.TOPIC, asked.name, (change,))
        request = IncrementalAlterConfigsRequest((resource,))
        response = await self._requests.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, context)
        (changed,) = response.responses
        _raise(changed.error_code, changed.error_message)
        audit.note(
            "the console changes a topic", context, topic=asked.name, config=asked.config, value=asked.value or ""
        )
        if asked.value is None:
            return Done(200, f"{asked.config} of {asked.name} follows the broker again.")
        return Done(200, f"{asked.config} of {asked.name} is {asked.value} now.")

    async def delete_records(self, asked: DeleteRecords, context: RequestContext) -> Done:
        """Move the start of a log."""
        partition = partition_named(asked.partition)
        log = None if partition is None else self._services.partitions.get(partition)
        if partition is None or log is None or isinstance(log, ErrorCode):
            return Done(404, f"this broker does not lead {asked.partition[:300]!r}")
        if asked.typed != asked.partition:
            return Done(400, "type the partition's name to confirm")
        if log.log_start_offset != asked.log_start:
            return Done(409, f"{partition} begins at {log.log_start_offset} by now: {MOVED_ON}")
        if asked.before <= asked.log_start:
            return Done(400, f"{partition} begins at {asked.log_start}: there is nothing below {asked.before}")
        topic = DeleteRecordsTopic(partition.topic, (DeleteRecordsPartition(partition.partition, asked.before),))
        request = DeleteRecordsRequest((topic,), REQUEST_TIMEOUT_MS)
        response = await self._requests.request(ApiKey.DELETE_RECORDS, request, context)
        (result,) = response.topics[0].partitions
        _raise(result.error_code, _RECORDS.get(result.error_code))
        audit.note("the console deletes records", context, partition=asked.partition, before=asked.before)
        return Done(200, f"{partition} begins at {result.low_watermark} now.")

    # Test records ---------------------------------------------------------------------------------------------------

    async def test(self, asked: TestRecord, context: RequestContext) -> Done:
        """Write a record."""
        partition = partition_named(asked.partition)
        if partition is None:
            return Done(404, f"this broker has no log of {asked.partition[:300]!r}")
        headers = tuple((name, value.encode()) for name, value in asked.headers.items())
        record = NewRecord(_bytes(asked.key), _bytes(asked.value), headers=headers)
        if asked.outcome == "plain":
            offset = await self._produce(partition, record, context, None, -1, -1)
            ended = ""
        else:
            async with self._testing:
                offset = await self._in_transaction(partition, record, context, commit=asked.outcome == "commit")
            ended = ", in a transaction that was " + ("committed" if asked.outcome == "commit" else "aborted")
        audit.note("the console writes a test record", context, partition=asked.partition, offset=offset)
        return Done(200, f"The record has offset {offset} of {partition}{ended}.")

    async def _in_transaction(
        self, partition: TopicPartition, record: NewRecord, context: RequestContext, *, commit: bool
    ) -> int:
        name = await self._transactional_id(context)

        async def init() -> Any:
            return await self._requests.request(
                ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(name, TEST_TIMEOUT_MS), context
            )

        pair = await self._soon(init)
        producer = (pair.producer_id, pair.producer_epoch)
        offset = await self._produce(partition, record, context, name, *producer)

        async def end() -> Any:
            return await self._requests.request(ApiKey.END_TXN, EndTxnRequest(name, *producer, commit), context)

        await self._soon(end)
        return offset

    async def _transactional_id(self, context: RequestContext) -> str:
        """One that this broker coordinates. The first question creates the topic of the coordinators."""

        async def find() -> Any:
            request = FindCoordinatorRequest("", TRANSACTIONAL_IDS, (TEST_ID,))
            response = await self._requests.request(ApiKey.FIND_COORDINATOR, request, context)
            return response.coordinators[0]

        await self._soon(find)
        cluster, transactions = self._services.cluster, self._services.transactions
        for number in range(TRIES):
            name = f"{TEST_ID}-{number}"
            index = transactions.partition_for(name)
            if cluster.leader_of(TopicPartition(TRANSACTION_STATE_TOPIC, index)) == cluster.node_id:
                return name
        raise RequestRefused(
            ErrorCode.NOT_COORDINATOR, "this broker coordinates no transactions: ask another one's console"
        )

    async def _soon(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer of a coordinator that may not be ready yet. Raises Refused."""
        for _ in range(TRIES - 1):
            answer = await ask()
            if answer.error_code not in LATER:
                break
            await self._services.wire_clock.sleep(TRY_MS)
        else:
            answer = await ask()
        _raise(answer.error_code)
        return answer

    async def _produce(
        self,
        partition: TopicPartition,
        record: NewRecord,
        context: RequestContext,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
    ) -> int:
        """The offset of the record. Raises Refused."""
        is_transactional = transactional_id is not None
        batch = build_batch(
            (record,),
            timestamp=self._services.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
        data = TopicProduceData(
            name=partition.topic, partition_data=(PartitionProduceData(partition.partition, bytes(batch)),)
        )
        request = ProduceRequest(transactional_id, ALL_REPLICAS, REQUEST_TIMEOUT_MS, (data,))
        response = await self._requests.request(ApiKey.PRODUCE, request, context)
        (result,) = response.responses[0].partition_responses
        _raise(result.error_code, result.error_message)
        offset: int = result.base_offset
        return offset

    def _topic(self, name: str, topic_id: str) -> Topic | Done:
        topic = self._services.cluster.topics.get(name)
        if topic is None:
            return Done(404, f"there is no topic {name[:300]!r}")
        if uuid_text(topic.topic_id) != topic_id:
            return Done(409, f"another topic has this name by now: {MOVED_ON}")
        return topic


_RECORDS: Final = {
    ErrorCode.POLICY_VIOLATION: "only topics whose cleanup.policy has delete may lose records",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the high watermark is not so far",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "internal topics keep their records",
}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _raise(error: int, message: str | None = None) -> None:
    if error != ErrorCode.NONE:
        code = ErrorCode(error)
        raise RequestRefused(code, f"{message} ({code.name})" if message else f"the broker refuses: {code.name}")
