"""Whoever may write a topic knows the producer ids of all others there, and the next ones: what that is worth to him
(transactions.md 6.2.4, security.md 7)."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from batches import data
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from waiting import until

from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch
from eosin.protocol.records.batch import MAX_SEQUENCE
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MALLORY: Final = "User:mallory"
TRANSACTIONAL_ID: Final = "payments"


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        await running.create_topics("orders")
        await running.grant(MALLORY, Operation.WRITE, "orders")
        yield running


async def produced(
    broker: GuardedBroker, principal: str, batch: bytes, transactional_id: str | None = None, *, version: int = 12
) -> tuple[int, int]:
    """Error and base offset of one batch."""
    topics = (TopicProduceData("orders", partition_data=(PartitionProduceData(0, batch),)),)
    request = ProduceRequest(transactional_id, -1, 5000, topics)
    response = await broker.ask(principal, ApiKey.PRODUCE, request, version=version)
    found = response.responses[0].partition_responses[0]
    return found.error_code, found.base_offset


async def introduced(broker: GuardedBroker) -> ProducerIdAndEpoch:
    request = InitProducerIdRequest(TRANSACTIONAL_ID, 60_000)
    response = await broker.ask(ADMIN, ApiKey.INIT_PRODUCER_ID, request, version=5)
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


async def ended(broker: GuardedBroker, owner: ProducerIdAndEpoch, *, commit: bool) -> ProducerIdAndEpoch:
    request = EndTxnRequest(TRANSACTIONAL_ID, *owner, commit)
    response = await broker.ask(ADMIN, ApiKey.END_TXN, request, version=5)
    assert response.error_code == ErrorCode.NONE
    await stable(broker)
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


async def stable(broker: GuardedBroker) -> int:
    """The end of the partition, once its last stable offset is there: no transaction is open any more."""
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=10_000)
    topics = (FetchTopic("orders", partitions=(partition,)),)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10_000, isolation_level=1, topics=topics)
    seen = []

    async def is_stable() -> bool:
        response = await broker.ask(ADMIN, ApiKey.FETCH, request, version=12)
        seen.append(response.responses[0].partitions[0])
        return bool(seen[-1].last_stable_offset == seen[-1].high_watermark)

    await until(is_stable)
    return int(seen[-1].high_watermark)


@pytest.mark.parametrize("ahead", [0, 5], ids=["same epoch", "higher epoch"])
async def test_a_batch_under_the_id_of_a_transactional_producer_neither_fences_it_nor_passes_for_its_own(
    broker: GuardedBroker, ahead: int
) -> None:
    """The record of the owner would be taken for one that is there already, and be missing from what it commits."""
    owner = await introduced(broker)
    forged = data(pid=owner.producer_id, epoch=owner.producer_epoch + ahead, seq=0)
    assert await produced(broker, MALLORY, forged) == (ErrorCode.NONE, 0)
    for sequence in range(2):
        own = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=sequence, txn=True)
        assert await produced(broker, ADMIN, own, TRANSACTIONAL_ID) == (ErrorCode.NONE, 1 + sequence)
    assert await produced(broker, ADMIN, own, TRANSACTIONAL_ID) == (ErrorCode.NONE, 2)  # its own retry is known
    await ended(broker, owner, commit=True)
    assert await stable(broker) == 4


async def test_after_a_transaction_nothing_outside_of_one_is_written_under_its_id(broker: GuardedBroker) -> None:
    owner = await introduced(broker)
    first = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=0, txn=True)
    assert await produced(broker, ADMIN, first, TRANSACTIONAL_ID) == (ErrorCode.NONE, 0)
    owner = await ended(broker, owner, commit=True)
    for epoch in (owner.producer_epoch, owner.producer_epoch + 5):
        forged = data(pid=owner.producer_id, epoch=epoch, seq=0)
        assert await produced(broker, MALLORY, forged) == (ErrorCode.INVALID_TXN_STATE, -1)
    next_one = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=0, txn=True)
    assert await produced(broker, ADMIN, next_one, TRANSACTIONAL_ID) == (ErrorCode.NONE, 2)


async def test_an_abort_reaches_a_partition_where_somebody_else_used_the_id(broker: GuardedBroker) -> None:
    """The marker's epoch is below that of the forged batch."""
    owner = await introduced(broker)
    forged = data(pid=owner.producer_id, epoch=owner.producer_epoch + 1000, seq=0)
    own = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=0, txn=True)
    assert await produced(broker, MALLORY, forged) == (ErrorCode.NONE, 0)
    assert await produced(broker, ADMIN, own, TRANSACTIONAL_ID) == (ErrorCode.NONE, 1)
    owner = await ended(broker, owner, commit=False)
    own = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=0, txn=True)
    assert await produced(broker, ADMIN, own, TRANSACTIONAL_ID) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_a_batch_under_an_id_of_ones_own_does_not_come_into_the_open_transaction_of_another(
    broker: GuardedBroker, version: int
) -> None:
    """It would be committed in the place of the owner's next record, which would be answered as a repeated one."""
    await broker.grant(MALLORY, Operation.WRITE, "mine", kind=ResourceType.TRANSACTIONAL_ID)
    owner = await introduced(broker)
    own = [data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=seq, txn=True) for seq in range(3)]
    assert await produced(broker, ADMIN, own[0], TRANSACTIONAL_ID) == (ErrorCode.NONE, 0)
    forged = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=1, txn=True)
    refused = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)
    assert await produced(broker, MALLORY, forged, "mine", version=version) == refused
    for seq in (1, 2):
        assert await produced(broker, ADMIN, own[seq], TRANSACTIONAL_ID) == (ErrorCode.NONE, seq)
    assert await produced(broker, MALLORY, forged, "mine", version=version) == refused
    await ended(broker, owner, commit=True)
    assert await stable(broker) == 4


@pytest.mark.parametrize("ahead", [0, 5], ids=["same epoch", "higher epoch"])
@pytest.mark.parametrize("sequence", [MAX_SEQUENCE - 5, 0], ids=["before the first", "the first"])
async def test_a_refused_batch_under_the_id_of_another_holds_up_none_of_its_own(
    broker: GuardedBroker, ahead: int, sequence: int
) -> None:
    """What comes behind a batch that is being verified, or is to be sent again, has to wait for that one."""
    await broker.grant(MALLORY, Operation.WRITE, "mine", kind=ResourceType.TRANSACTIONAL_ID)
    owner = await introduced(broker)
    for transaction in range(2):
        forged = data(pid=owner.producer_id, epoch=owner.producer_epoch + ahead, seq=sequence, txn=True)
        damaged = bytearray(data(pid=owner.producer_id, epoch=owner.producer_epoch + ahead, seq=sequence))
        damaged[-1] ^= 1
        assert await produced(broker, MALLORY, forged, "mine") == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)
        assert await produced(broker, MALLORY, bytes(damaged)) == (ErrorCode.CORRUPT_MESSAGE, -1)
        for seq in range(2):
            own = data(pid=owner.producer_id, epoch=owner.producer_epoch, seq=seq, txn=True)
            assert await produced(broker, ADMIN, own, TRANSACTIONAL_ID) == (ErrorCode.NONE, 3 * transaction + seq)
        owner = await ended(broker, owner, commit=True)
