"""A producer whose transactions somebody else decides: what it tells, what it refuses, what it repeats (KIP-939)."""

import asyncio
from typing import Any, Self

import pytest
from stub_broker import StubBroker

from eosin.client.client import Client
from eosin.client.errors import BrokerError, ProducerStateError, UnsupportedVersion
from eosin.client.two_phase import PreparedState, TwoPhaseProducer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

pytestmark = pytest.mark.virtual

PARTITION = TopicPartition("topic", 0)
RECORDS = [NewRecord(None, b"v")]


class Setting:
    """A stub broker that has `ongoing` open for producer 1000, and a producer of it."""

    def __init__(self, *, ongoing: tuple[int, int] = (-1, -1), **stub: Any) -> None:
        self.broker = StubBroker(**stub)
        self.epoch = 4
        self.ongoing = ongoing
        self.errors: list[ErrorCode] = []
        """What the next ends are answered."""
        self.broker.answers |= {
            ApiKey.INIT_PRODUCER_ID: self.init,
            ApiKey.PRODUCE: self.produce,
            ApiKey.END_TXN: self.end,
        }

    async def __aenter__(self) -> Self:
        await self.broker.__aenter__()
        self.client = Client([self.broker.address], retry_timeout_ms=300)
        self.producer = TwoPhaseProducer(self.client, "tx")
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.close()
        await self.broker.__aexit__(*error)

    def init(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        assert (version, request.enable_2pc) == (6, True)
        self.epoch += 1
        ongoing = self.ongoing if request.keep_prepared_txn else (-1, -1)
        return InitProducerIdResponse(0, 0, 1000, self.epoch, *ongoing)

    def produce(self, request: ProduceRequest, _: int) -> ProduceResponse:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=(PartitionProduceResponse(index=0),)
                )
                for topic in request.topic_data
            )
        )

    def end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        assert version == 5
        if self.errors and (error := self.errors.pop(0)):
            return EndTxnResponse(error_code=error)
        self.epoch += 1
        return EndTxnResponse(0, 0, 1000, self.epoch)

    def ends(self) -> list[tuple[int, bool]]:
        """The epoch and the outcome of each end that was asked for."""
        return [(each.producer_epoch, each.committed) for each in self.broker.requests(ApiKey.END_TXN)]


@pytest.mark.parametrize(("state", "text"), [(PreparedState(42, 7), "42:7"), (PreparedState(), "")])
def test_a_prepared_state_is_stored_as_text(state: PreparedState, text: str) -> None:
    assert str(state) == text
    assert PreparedState.parse(text) == state
    assert state.is_transaction is bool(text)


@pytest.mark.parametrize("text", ["42", "42:", ":7", "a:b", "42:-1", "42:7:9", " "])
def test_a_text_that_is_no_prepared_state_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="a prepared state is PRODUCER-ID:EPOCH or empty, not"):
        PreparedState.parse(text)


async def test_a_prepared_transaction_is_told_by_its_own_pair_and_committed_when_that_was_stored() -> None:
    async with Setting() as at:
        assert await at.producer.init() == ProducerIdAndEpoch(1000, 5)
        at.producer.begin()
        await at.producer.send(PARTITION, RECORDS)
        state = await at.producer.prepare()
        assert str(state) == "1000:5"
        assert await at.producer.prepare() == state
        assert await at.producer.complete("1000:5")
        assert at.ends() == [(5, True)]
        at.producer.begin()
        await at.producer.send(PARTITION, RECORDS)
        assert str(await at.producer.prepare()) == "1000:6", "no two transactions have the same"
        assert not await at.producer.complete("1000:5")
        assert at.ends() == [(5, True), (6, False)]


@pytest.mark.parametrize(("stored", "commits"), [("1000:3", True), ("1000:2", False), ("", False)])
async def test_a_transaction_left_open_is_ended_as_it_was_decided_with_a_pair_of_its_own(
    stored: str, commits: bool
) -> None:
    async with Setting(ongoing=(1000, 3)) as at:
        assert await at.producer.recover() == PreparedState(1000, 3)
        assert await at.producer.complete(stored) is commits
        assert at.ends() == [(5, commits)]
        at.producer.begin()
        await at.producer.send(PARTITION, RECORDS)


async def test_with_nothing_left_open_there_is_nothing_to_complete() -> None:
    async with Setting() as at:
        assert await at.producer.recover() == PreparedState()
        assert not await at.producer.complete("1000:3")
        assert at.ends() == []
        with pytest.raises(ProducerStateError, match="no transaction is prepared"):
            await at.producer.complete("1000:3")


async def test_a_prepared_transaction_takes_nothing_more() -> None:
    async with Setting(ongoing=(1000, 3)) as at:
        await at.producer.recover()
        for refused in (at.producer.send(PARTITION, RECORDS), at.producer.send_offsets({PARTITION: 1}, "group")):
            with pytest.raises(ProducerStateError, match="all that is left is to complete it"):
                await refused
        with pytest.raises(ProducerStateError, match="a transaction is open already"):
            at.producer.begin()
        assert not at.broker.requests(ApiKey.PRODUCE)


async def test_a_transaction_without_anything_in_it_has_no_state_that_another_could_match() -> None:
    async with Setting() as at:
        await at.producer.init()
        at.producer.begin()
        state = await at.producer.prepare()
        assert str(state) == ""
        await at.producer.complete(state)
        assert at.ends() == []
        at.producer.begin()


async def test_a_shared_transaction_has_a_state_though_only_others_wrote_to_it() -> None:
    async with Setting() as at:
        await at.producer.init()
        at.producer.begin()
        at.producer.share()
        state = await at.producer.prepare()
        assert str(state) == "1000:5", "without one it would be aborted when it is recovered"
        assert await at.producer.complete(state)
        assert at.ends() == [(5, True)]


async def test_a_commit_that_failed_is_tried_again_and_never_becomes_an_abort() -> None:
    async with Setting() as at:
        await at.producer.init()
        at.producer.begin()
        await at.producer.send(PARTITION, RECORDS)
        state = await at.producer.prepare()
        for end in (at.producer.commit, lambda: at.producer.complete(state)):
            at.errors = [ErrorCode.UNKNOWN_SERVER_ERROR]
            with pytest.raises(BrokerError):
                await end()
        assert await at.producer.complete(state)
        assert at.ends() == [(5, True)] * 3


async def test_a_transaction_in_which_something_failed_cannot_be_prepared() -> None:
    async with Setting() as at:
        await at.producer.init()
        at.producer.begin()
        with pytest.raises(BrokerError):
            await at.producer.send(TopicPartition("no-such-topic", 0), RECORDS)
        with pytest.raises(ProducerStateError, match="must abort"):
            await at.producer.prepare()
        await at.producer.abort()
        assert at.ends() == [(5, False)]


async def test_nothing_is_prepared_while_records_are_on_their_way() -> None:
    async with Setting() as at:
        await at.producer.init()
        at.producer.begin()
        sending = asyncio.ensure_future(at.producer.send(PARTITION, RECORDS))
        await asyncio.sleep(0)
        with pytest.raises(ProducerStateError, match="wait for each send"):
            await at.producer.prepare()
        await sending
        assert (await at.producer.prepare()).is_transaction


async def test_out_of_turn_it_says_so() -> None:
    async with Setting() as at:
        await at.producer.init()
        with pytest.raises(ProducerStateError, match="no transaction is open"):
            await at.producer.prepare()
        at.producer.begin()
        with pytest.raises(ProducerStateError, match="no transaction is prepared"):
            await at.producer.complete("1000:5")
        with pytest.raises(ProducerStateError, match="not given up"):
            await at.producer.init(keep=True)


async def test_a_broker_that_has_it_not_is_told_by_what_it_offers() -> None:
    async with Setting() as at:
        at.broker.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)
        with pytest.raises(UnsupportedVersion, match=r"Eosin does with transaction\.two\.phase\.commit\.enable"):
            await at.producer.recover()
        assert not at.broker.requests(ApiKey.INIT_PRODUCER_ID), "at version 5 the wish would be lost without a word"


async def test_without_an_epoch_for_each_transaction_it_cannot_be_done() -> None:
    async with Setting(features=1) as at:
        with pytest.raises(UnsupportedVersion, match=r"transaction\.version 2"):
            await at.producer.recover()
