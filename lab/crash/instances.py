"""`InstanceOperations`: other instances of an application, which write, commit and fence as a test commands.

A zombie has the identity of the present instance, and goes on with it whatever comes; a successor fences the present
one. Always true: what an instance does is what Kafka's protocol lets any client do, and each step tells the name of the
broker's answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import BrokerError, check
from eosin.client.producer import TV2, Producer
from eosin.client.transactions import TransactionAdmin
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import PartitionName
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import NewRecord, next_sequence
from eosin.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.runtime.clock import SystemClock

Text = str | bytes | None
_TV2_END_TXN: Final = 5


class InstanceSeen(msgspec.Struct, frozen=True):
    """An instance as it began."""

    number: int
    """By which a test names it."""
    producer_id: int
    producer_epoch: int
    partitions: tuple[PartitionName, ...]
    """Of the transaction that was open then."""


class _Instance(msgspec.Struct):
    """One instance: what it knows of itself."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    sequences: dict[TopicPartition, int]


class InstanceOperations:
    """The steps of such instances."""

    _client: Client
    _instances: list[_Instance]

    async def open_zombie(self, transactional_id: str) -> InstanceSeen:
        """One more with the identity of the present instance. Raises LabError if the id has not been used."""
        try:
            found = await TransactionAdmin(self._client).describe(transactional_id)
        except BrokerError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise LabError(f'nobody has used the transactional id "{transactional_id}" yet') from None
            raise
        identity = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
        return self._opened(transactional_id, identity, found.partitions)

    async def open_successor(self, transactional_id: str) -> InstanceSeen:
        """A new instance, which fences the present one."""
        producer = Producer(self._client, transactional_id)
        return self._opened(transactional_id, await producer.init(), ())

    def _opened(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> InstanceSeen:
        self._instances.append(_Instance(transactional_id, identity, {}))
        return InstanceSeen(
            len(self._instances) - 1,
            identity.producer_id,
            identity.producer_epoch,
            tuple(sorted(PartitionName(*each) for each in partitions)),
        )

    async def instance_write(self, number: int, topic: str, partition: int, values: list[Text]) -> str:
        """Write records to its transaction; the name of the answer's code."""
        instance, place = self._instances[number], TopicPartition(topic, partition)
        producer = await self._producer(instance)
        if place not in instance.sequences:
            instance.sequences[place] = await self._next_sequence(instance.identity, place)
        producer.sequences[place] = instance.sequences[place]
        now_ms = SystemClock().now_ms()
        records = [NewRecord(None, each.encode() if isinstance(each, str) else each, now_ms, ()) for each in values]
        code = await _code(producer.send(place, records))
        if code == ErrorCode.NONE.name:
            instance.sequences[place] = next_sequence(instance.sequences[place], len(records))
        return code

    async def instance_send_offsets(self, number: int, group: str, topic: str, partition: int, offset: int) -> str:
        """Commit an offset of a group in its transaction; the name of the answer's code."""
        producer = await self._producer(self._instances[number])
        return await _code(producer.send_offsets({TopicPartition(topic, partition): offset}, group))

    async def instance_end(self, number: int, commit: bool) -> str:
        """End its transaction; the name of the answer's code."""
        instance = self._instances[number]
        identity = instance.identity
        request = EndTxnRequest(instance.transactional_id, identity.producer_id, identity.producer_epoch, commit)
        version = (await self._producer(instance)).transaction_version

        async def attempt() -> EndTxnResponse:
            answer: EndTxnResponse = await self._client.call_coordinator(
                CoordinatorType.TRANSACTION,
                instance.transactional_id,
                ApiKey.END_TXN,
                request,
                at_most=_TV2_END_TXN if version >= TV2 else _TV2_END_TXN - 1,
            )
            check(answer.error_code, "ending a transaction")
            if answer.producer_id >= 0:
                self._adopt(instance, ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
            return answer

        return await _code(self._client.retry(attempt))

    async def instance_init(self, number: int) -> str:
        """Have it initialise again, to go on as what it was (KIP-360); the name of the answer's code."""
        instance = self._instances[number]
        producer = await self._producer(instance)
        code = await _code(producer.init(keep=True))
        if code == ErrorCode.NONE.name:
            self._adopt(instance, producer.identity)
        return code

    def _adopt(self, instance: _Instance, identity: ProducerIdAndEpoch) -> None:
        if identity != instance.identity:
            instance.identity = identity
            instance.sequences.clear()

    async def _producer(self, instance: _Instance) -> Producer:
        """A producer that has failed in nothing yet, in the middle of a transaction."""
        producer = Producer(self._client, instance.transactional_id)
        await producer.act_as(instance.identity)
        producer.begin()
        return producer

    async def _next_sequence(self, identity: ProducerIdAndEpoch, place: TopicPartition) -> int:
        """The sequence that the present instance would use next."""
        request = DescribeProducersRequest((TopicRequest(place.topic, (place.partition,)),))
        node = await self._client.leader(place)
        answer: DescribeProducersResponse = await self._client.request(ApiKey.DESCRIBE_PRODUCERS, request, node=node)
        for topic in answer.topics:
            for each in topic.partitions:
                for state in each.active_producers:
                    if (state.producer_id, state.producer_epoch) == identity and state.last_sequence >= 0:
                        return next_sequence(state.last_sequence, 1)
        return 0


async def _code(step: Awaitable[object]) -> str:
    """The name of the code that a step was answered with."""
    try:
        await step
    except BrokerError as refused:
        return refused.code.name
    return ErrorCode.NONE.name


Code = TypeVar("Code")
"""`str`, or what is to be awaited for it."""


class LabInstance(Generic[Code]):
    """One more instance of an application (`zombie`, `successor`). Each step returns the name of the broker's answer:
    `NONE` if it was carried out."""

    def __init__(self, call: Callable[..., Any], transactional_id: str, seen: InstanceSeen) -> None:
        self._call: Final = call
        self.transactional_id: Final = transactional_id
        self.producer_id: Final = seen.producer_id
        self.producer_epoch: Final = seen.producer_epoch
        self.partitions: Final = list(seen.partitions)
        """Of the transaction that was open when it began."""
        self._number: Final = seen.number

    def write(self, topic: str, *values: Text, partition: int = 0) -> Code:
        """Write records in its transaction."""
        code: Code = self._call(InstanceOperations.instance_write, self._number, topic, partition, list(values))
        return code

    def send_offsets(self, group: str, topic: str, offset: int, *, partition: int = 0) -> Code:
        """Commit an offset of a group in its transaction."""
        code: Code = self._call(InstanceOperations.instance_send_offsets, self._number, group, topic, partition, offset)
        return code

    def commit(self) -> Code:
        """Commit its transaction."""
        code: Code = self._call(InstanceOperations.instance_end, self._number, True)
        return code

    def abort(self) -> Code:
        """Abort its transaction."""
        code: Code = self._call(InstanceOperations.instance_end, self._number, False)
        return code

    def init(self) -> Code:
        """Initialise again with the identity that it has."""
        code: Code = self._call(InstanceOperations.instance_init, self._number)
        return code

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.transactional_id} {self.producer_id}/{self.producer_epoch}>"
