"""Transactions as an operator sees and ends them (KIP-664): of the whole cluster, whatever broker knows of them.

Always true: a list is complete, since a broker that does not answer fails the whole question; and a transaction is only
called hanging when it is still open after every coordinator was asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import BrokerError, UnsupportedVersion, check
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from eosin.protocol.schemas.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
FIRST_COORDINATOR_EPOCH: Final = 0
"""For a producer that no coordinator has written a marker for in the partition."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of transactions that an external coordinator decides (KIP-939)."""
_SHORTEST_TIMEOUT_MS: Final = 1
_NOBODYS: Final = "eosin-is-this-shown"
"""A transactional id that nobody uses."""

TRANSACTION_STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""The states that an id can be listed in."""

_ONGOING: Final = "Ongoing"
_PREPARING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One transactional id in the list of its coordinator."""

    coordinator: int
    """Node id."""
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """One transactional id as its coordinator knows it."""

    coordinator: int
    """Node id."""
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    """-1 when no transaction was begun."""
    partitions: tuple[TopicPartition, ...]

    @property
    def is_two_phase(self) -> bool:
        """True if its transactions never time out, since an external coordinator decides them (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_open(self) -> bool:
        """True if a transaction is open whose outcome is not decided."""
        return self.state == _ONGOING


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction as a partition knows it."""

    partition: TopicPartition
    producer: ProducerState

    @property
    def start_offset(self) -> int:
        """The offset at which it begins."""
        return self.producer.current_txn_start_offset


class TransactionAdmin:
    """Operations on transactions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def producers(self, partition: TopicPartition) -> tuple[ProducerState, ...]:
        """The producers that the leader of a partition knows. Raises BrokerError."""

        async def attempt() -> tuple[ProducerState, ...]:
            node = await self._client.leader(partition)
            return (await self._producers_of(node, (partition,)))[partition]

        return await self._client.retry(attempt)

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Every transactional id for which all filters hold, by id. Raises BrokerError, and UnsupportedVersion when a
        broker does not know a filter; INVALID_REQUEST for a state that does not exist."""
        request = ListTransactionsRequest(tuple(states), tuple(producer_ids), longer_than_ms, pattern)
        brokers = sorted((await self._client.retry(self._client.fetch_metadata)).brokers)
        responses = await asyncio.gather(*(self._list_of(node, request) for node in brokers))
        return sorted(
            (each for response in responses for each in response),
            key=lambda each: (each.transactional_id, each.coordinator),
        )

    async def _list_of(self, node: int, request: ListTransactionsRequest) -> list[ListedTransaction]:
        needs = 2 if request.transactional_id_pattern else 1 if request.duration_filter >= 0 else 0

        async def attempt() -> list[ListedTransaction]:
            versions = (await self._client.peer(node)).versions
            if versions.pick(ApiKey.LIST_TRANSACTIONS) < needs:
                what = "a pattern" if needs == 2 else "a duration"
                raise UnsupportedVersion(f"broker {node} is too old to list transactions by {what}")
            response: ListTransactionsResponse = await self._client.request(
                ApiKey.LIST_TRANSACTIONS, request, node=node
            )
            check(response.error_code, f"listing the transactions of broker {node}")
            for state in response.unknown_state_filters:
                known = f"there is no state {state!r}, only {', '.join(TRANSACTION_STATES)}"
                raise BrokerError(ErrorCode.INVALID_REQUEST, "listing transactions", known)
            return [
                ListedTransaction(node, each.transactional_id, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]

        return await self._client.retry(attempt)

    async def sees_all_ids(self) -> bool:
        """True if a transactional id that nobody has is shown as unknown: who may not see it is not told of others
        either, since lists leave out what one may not see. Raises ClientError."""
        try:
            await self.describe(_NOBODYS)
        except BrokerError as error:
            return error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return True

    async def describe(self, transactional_id: str) -> DescribedTransaction:
        """The coordinator's knowledge of an id. Raises BrokerError, TRANSACTIONAL_ID_NOT_FOUND among others."""
        request = DescribeTransactionsRequest((transactional_id,))

        async def attempt() -> DescribedTransaction:
            node = await self._client.coordinator(CoordinatorType.TRANSACTION, transactional_id)
            response: DescribeTransactionsResponse = await self._client.request(
                ApiKey.DESCRIBE_TRANSACTIONS, request, node=node
            )
            (state,) = response.transaction_states
            check(state.error_code, f"describing transactional id {transactional_id!r}")
            return _described(node, state)

        return await self._client.retry(attempt)

    async def wait_for_markers(self, transactional_id: str) -> None:
        """Wait until the transaction of an id that was ended has its markers: readers are shown its records then. An
        EndTxn may be answered before. Raises a ClientError, CONCURRENT_TRANSACTIONS if it lasts."""

        async def attempt() -> None:
            if (await self.describe(transactional_id)).state in _PREPARING:
                check(ErrorCode.CONCURRENT_TRANSACTIONS, f"writing the markers of {transactional_id!r}")

        await self._client.retry(attempt)

    async def force_terminate(self, transactional_id: str) -> None:
        """Abort what is open under an id and fence its producer, as a new instance of it does (KIP-939). For an id
        that is known: another one would be made. Raises BrokerError."""
        request = InitProducerIdRequest(transactional_id, transaction_timeout_ms=_SHORTEST_TIMEOUT_MS)

        async def attempt() -> None:
            response: InitProducerIdResponse = await self._client.call_coordinator(
                CoordinatorType.TRANSACTION, transactional_id, ApiKey.INIT_PRODUCER_ID, request
            )
            check(response.error_code, f"terminating the transaction of {transactional_id!r}")

        await self._client.retry(attempt)

    async def max_timeout_ms(self) -> int:
        """The longest timeout that any broker lets a transaction have."""
        brokers = (await self._client.retry(self._client.fetch_metadata)).brokers
        admin, longest_ms = Admin(self._client), 0
        for node in sorted(brokers):
            settings = await admin.describe_configs(
                str(node), kind=ConfigResourceType.BROKER, keys=[MAX_TIMEOUT_SETTING]
            )
            longest_ms = max(longest_ms, int(settings[MAX_TIMEOUT_SETTING].value or 0))
        return longest_ms

    # Hanging transactions -------------------------------------------------------------------------------------------

    async def find_hanging(self, partitions: Sequence[TopicPartition], *, before_ms: int) -> list[OpenTransaction]:
        """The transactions open in `partitions` that will never end: they have no record since `before_ms`, and their
        coordinator does not know them (transactions.md 10.4). Raises BrokerError where this user may not know."""
        candidates = [
            each for each in await self.open_transactions(partitions) if each.producer.last_timestamp < before_ms
        ]
        if not candidates:
            return []
        known = await self._known({each.producer.producer_id: None for each in candidates})
        if any(each.producer.producer_id not in known for each in candidates) and not await self.sees_all_ids():
            code, why = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "it needs DESCRIBE on every TransactionalId"
            raise BrokerError(code, "asking whose the open transactions are", why)
        suspects = [each for each in candidates if not will_end(each, known.get(each.producer.producer_id))]
        # One that ended while its coordinator was asked is open no more.
        places = list(dict.fromkeys(each.partition for each in suspects))
        still_open = {(each.partition, each.start_offset) for each in await self.open_transactions(places)}
        return [each for each in suspects if (each.partition, each.start_offset) in still_open]

    async def open_transactions(self, partitions: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """Every transaction open in `partitions`, in their order and by offset. Asks each leader once."""

        async def attempt() -> list[OpenTransaction]:
            by_node: dict[int, list[TopicPartition]] = {}
            for partition in partitions:
                by_node.setdefault(await self._client.leader(partition), []).append(partition)
            found: dict[TopicPartition, tuple[ProducerState, ...]] = {}
            for node, led in by_node.items():
                found.update(await self._producers_of(node, led))
            transactions = [
                OpenTransaction(partition, producer)
                for partition in partitions
                for producer in sorted(found[partition], key=lambda producer: producer.current_txn_start_offset)
            ]
            return [each for each in transactions if each.start_offset >= 0]

        return await self._client.retry(attempt)

    async def abort(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an ABORT marker into one partition: with the pair and the epoch that DescribeProducers returns, it
        ends the open transaction, and the coordinator's own marker is not refused later. Raises BrokerError."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(partition.topic, (partition.partition,)),),
            coordinator_epoch=max(coordinator_epoch, FIRST_COORDINATOR_EPOCH),
        )

        async def attempt() -> None:
            node = await self._client.leader(partition)
            response: WriteTxnMarkersResponse = await self._client.request(
                ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest((marker,)), node=node
            )
            ((result,),) = (
                [each for topic in result.topics for each in topic.partitions] for result in response.markers
            )
            check(result.error_code, f"aborting the transaction of producer {producer_id} in {partition}")

        await self._client.retry(attempt)

    async def _producers_of(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        request = DescribeProducersRequest(
            tuple(TopicRequest(name, tuple(indexes)) for name, indexes in by_topic.items())
        )
        response: DescribeProducersResponse = await self._client.request(ApiKey.DESCRIBE_PRODUCERS, request, node=node)
        found = {}
        for each in response.topics:
            for state in each.partitions:
                partition = TopicPartition(each.name, state.partition_index)
                check(state.error_code, f"describing the producers of {partition}", state.error_message)
                found[partition] = state.active_producers
        return found

    async def _known(self, producer_ids: Mapping[int, None]) -> dict[int, DescribedTransaction]:
        """The coordinators' knowledge of these producer ids."""
        known = {}
        for each in await self.list_transactions(producer_ids=tuple(producer_ids)):
            try:
                known[each.producer_id] = await self.describe(each.transactional_id)
            except BrokerError as error:
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
        return known


def will_end(transaction: OpenTransaction, known: DescribedTransaction | None) -> bool:
    """True if the coordinator is going to write a marker for it. One that is being ended may have a newer epoch by now
    than its records (KIP-890); one that is ongoing with another epoch is another transaction."""
    producer = transaction.producer
    if known is None or known.producer_id != producer.producer_id or transaction.partition not in known.partitions:
        return False
    return known.state in _PREPARING or (known.state == _ONGOING and known.producer_epoch == producer.producer_epoch)


def _described(node: int, state: TransactionState) -> DescribedTransaction:
    partitions = (TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)
    return DescribedTransaction(
        coordinator=node,
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=state.transaction_start_time_ms,
        partitions=tuple(sorted(partitions)),
    )
