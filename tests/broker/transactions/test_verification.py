"""Asking the transaction coordinator before the first batch of a transaction: answers, versions, order."""

import asyncio
from typing import Any, cast

import pytest
from data_fakes import FakeVerifiedLog, FakeVerifier
from manual_clock import ManualClock

from eosin.broker.producing.produced import ProducedBatch
from eosin.broker.transactions.verification import TransactionVerification, VerificationRequest
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.header import read_header
from eosin.runtime.start_now import start_now
from eosin.settings.broker import BrokerConfig
from eosin.storage.results.log_results import Refused, VerificationGuard

pytestmark = pytest.mark.virtual

BUSY = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
GUARD = VerificationGuard()

HEADER = read_header(
    build_batch(
        [NewRecord(b"k", b"v")], timestamp=0, producer_id=7, producer_epoch=3, base_sequence=0, transactional=True
    )
)


class Batch(ProducedBatch):
    """A transactional batch, as the verification sees it."""

    def __init__(self, log: FakeVerifiedLog, index: int = 0) -> None:
        super().__init__("orders", index, None)
        self.partition = TopicPartition("orders", index)
        self.header = HEADER
        self.log = cast(Any, log)

    @property
    def error(self) -> ErrorCode | None:
        return self.outcome.error if isinstance(self.outcome, Refused) else None


def question(*batches: Batch, version: int) -> VerificationRequest:
    return VerificationRequest("tx", batches, api_version=version)


def verification(verifier: FakeVerifier, clock: ManualClock | None = None, **config: Any) -> TransactionVerification:
    return TransactionVerification(verifier, clock=clock or ManualClock(), config=BrokerConfig(**config))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_partition_whose_transaction_is_open_needs_no_word_of_the_coordinator() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    batch = Batch(FakeVerifiedLog(None))
    assert verification(verifier).verify_now(question(batch, version=12))
    assert (batch.guard, batch.outcome, verifier.asked) == (None, None, [])


@pytest.mark.parametrize("version", [3, 10, 11])
def test_an_older_client_is_verified_at_once_and_gets_its_guard(version: int) -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    first, second = Batch(FakeVerifiedLog(GUARD), 0), Batch(FakeVerifiedLog(None), 1)
    assert verification(verifier).verify_now(question(first, second, version=version))
    assert first.guard is GUARD
    assert second.guard is None
    assert verifier.asked == [("verify", (first.partition,))]


def test_from_version_12_on_asking_adds_the_partitions_all_at_once() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    batches = [Batch(FakeVerifiedLog(GUARD), index) for index in range(3)]
    asking = question(*batches, version=12)
    asker = verification(verifier)
    assert asker.verify_now(asking)
    assert all(batch.guard is GUARD and batch.outcome is None for batch in batches)
    assert verifier.asked == [("add", tuple(batch.partition for batch in batches))]


async def test_a_coordinator_that_has_been_asked_at_once_is_not_asked_again_while_its_answer_is_waited_for() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    verifier.gate = asyncio.Event()
    batch = Batch(log := FakeVerifiedLog(GUARD))
    asker, asking = verification(verifier), question(batch, version=12)
    assert not asker.verify_now(asking)
    waiting = start_now(asker.verify(asking))
    assert isinstance(waiting, asyncio.Task)
    verifier.gate.set()
    await waiting
    assert (batch.guard, batch.outcome) == (GUARD, None)
    assert (verifier.asked, log.asked) == ([("add", (batch.partition,))], 1)


@pytest.mark.parametrize(
    ("answer", "up_to_v10", "v11", "from_v12"),
    [
        ("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
        ("INVALID_TXN_STATE", "INVALID_TXN_STATE", "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
        ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS"),
        ("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
        ("INVALID_PRODUCER_ID_MAPPING",) * 4,
    ],
)
async def test_each_version_hears_the_coordinators_answer_in_its_own_codes(
    answer: str, up_to_v10: str, v11: str, from_v12: str
) -> None:
    for version, expected in ((3, up_to_v10), (10, up_to_v10), (11, v11), (12, from_v12), (13, from_v12)):
        clock = ManualClock()
        asker = verification(FakeVerifier(ErrorCode[answer]), clock)
        batch = Batch(FakeVerifiedLog(GUARD))
        asking = question(batch, version=version)
        if not asker.verify_now(asking):
            verifying = asyncio.create_task(asker.verify(asking))
            await clock.run(100)
            await verifying
        assert batch.error is ErrorCode[expected], version
        assert isinstance(batch.outcome, Refused)
        assert batch.outcome.message or expected == answer


async def test_a_busy_coordinator_is_asked_again_every_20_ms_for_100_ms() -> None:
    clock = ManualClock()
    verifier = FakeVerifier(ErrorCode.CONCURRENT_TRANSACTIONS)
    batch = Batch(FakeVerifiedLog(GUARD))
    verifying = asyncio.create_task(verification(verifier, clock).verify(question(batch, version=12)))
    await clock.run(99)
    assert not verifying.done()
    await clock.run(1)
    assert verifying.done()
    assert len(verifier.asked) == 6
    assert batch.error is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wall_clock_that_is_set_neither_shortens_nor_lengthens_the_asking(hours: int) -> None:
    clock = ManualClock()
    verifier = FakeVerifier(ErrorCode.CONCURRENT_TRANSACTIONS)
    batch = Batch(FakeVerifiedLog(GUARD))
    verifying = asyncio.create_task(verification(verifier, clock).verify(question(batch, version=12)))
    await clock.run(30)
    clock.ahead_ms = hours * 3_600_000
    await clock.run(70)
    assert verifying.done()
    assert len(verifier.asked) == 6


@pytest.mark.parametrize("version", [11, 12])
async def test_a_marker_that_comes_while_the_coordinator_is_asked_has_it_asked_again(version: int) -> None:
    """That of the producer's transaction before, in a partition to which that wrote nothing: it takes the guard away,
    and an append under it would be refused for good."""
    verifier = FakeVerifier(ErrorCode.NONE)
    later = VerificationGuard()
    log = FakeVerifiedLog(GUARD, later)
    log.markers = 1
    batch = Batch(log)
    await verification(verifier).verify(question(batch, version=version))
    assert (batch.guard, batch.outcome) == (later, None)
    assert len(verifier.asked) == 2


async def test_a_coordinator_that_is_busy_for_a_moment_costs_the_client_nothing() -> None:
    clock = ManualClock()
    verifier = FakeVerifier(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)
    batch = Batch(FakeVerifiedLog(GUARD))
    verifying = asyncio.create_task(verification(verifier, clock).verify(question(batch, version=12)))
    await clock.run(40)
    assert verifying.done()
    assert (batch.guard, batch.outcome) == (GUARD, None)


async def test_b4_a_batch_of_the_next_transaction_waits_until_the_last_ones_marker_is_there() -> None:
    clock = ManualClock()
    log = FakeVerifiedLog(BUSY, BUSY, GUARD)
    verifier = FakeVerifier(ErrorCode.NONE)
    batch = Batch(log)
    asker, asking = verification(verifier, clock), question(batch, version=12)
    assert not asker.verify_now(asking)
    verifying = asyncio.create_task(asker.verify(asking))
    await settle()
    assert "add" not in [kind for kind, _ in verifier.asked]
    await clock.run(20)
    await verifying
    assert (batch.guard, batch.outcome) == (GUARD, None)
    assert verifier.asked[-1] == ("add", (batch.partition,))


def test_b4_below_version_12_the_next_transactions_batch_is_told_to_come_back() -> None:
    batch = Batch(FakeVerifiedLog(BUSY))
    assert verification(FakeVerifier(ErrorCode.NONE)).verify_now(question(batch, version=10))
    assert batch.error is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_an_epoch_that_was_never_given_does_not_wait_for_the_last_transactions_marker(
    answer: ErrorCode, told: ErrorCode, version: int
) -> None:
    batch = Batch(FakeVerifiedLog(BUSY))
    asker, asking = verification(FakeVerifier(answer)), question(batch, version=version)
    if not asker.verify_now(asking):
        await asker.verify(asking)
    assert batch.error is told


def test_without_verification_nobody_asks_which_epoch_it_is() -> None:
    batch, verifier = Batch(FakeVerifiedLog(BUSY)), FakeVerifier(ErrorCode.PRODUCER_FENCED)
    asker = verification(verifier, transaction_partition_verification_enable=False)
    assert asker.verify_now(question(batch, version=11))
    assert (batch.error, verifier.asked) == (ErrorCode.NOT_ENOUGH_REPLICAS, [])


def test_a_fenced_producers_batch_is_refused_without_asking() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    batch = Batch(FakeVerifiedLog(Refused(ErrorCode.INVALID_PRODUCER_EPOCH)))
    assert verification(verifier).verify_now(question(batch, version=12))
    assert batch.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert verifier.asked == []


def test_without_verification_only_version_12_still_asks_because_it_adds() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    asker = verification(verifier, transaction_partition_verification_enable=False)
    old, new = Batch(FakeVerifiedLog(GUARD)), Batch(FakeVerifiedLog(GUARD))
    assert asker.verify_now(question(old, version=11))
    assert old.guard is GUARD
    assert verifier.asked == []
    assert asker.verify_now(question(new, version=12))
    assert verifier.asked == [("add", (new.partition,))]


async def test_a_producers_later_requests_wait_for_its_earlier_one() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    verifier.gate = asyncio.Event()
    asker = verification(verifier)
    done: list[str] = []

    async def work(name: str, asking: VerificationRequest) -> str:
        await asker.verify(asking)
        done.append(name)
        return name

    first = question(Batch(FakeVerifiedLog(GUARD)), version=12)
    second = question(Batch(FakeVerifiedLog(None)), version=12)
    started = start_now(work("first", first))
    assert isinstance(started, asyncio.Task)
    assert not asker.verify_now(second), "the log would take it, but its predecessor is not there yet"
    behind = start_now(work("second", second))
    assert isinstance(behind, asyncio.Task)
    await settle()
    assert done == []
    verifier.gate.set()
    await asyncio.gather(started, behind)
    assert done == ["first", "second"]
    assert asker.verify_now(second), "nobody is left to wait for"


async def test_another_producer_waits_for_nobody() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    verifier.gate = asyncio.Event()
    asker = verification(verifier)
    elsewhere = question(Batch(FakeVerifiedLog(GUARD)), version=12)
    elsewhere.producer = ProducerIdAndEpoch(8, 0)
    waiting = start_now(asker.verify(elsewhere))
    assert isinstance(waiting, asyncio.Task)
    assert asker.verify_now(question(Batch(FakeVerifiedLog(None)), version=12))
    waiting.cancel()
    await asyncio.wait((waiting,))


async def test_a_verification_that_needs_no_wait_ends_at_once() -> None:
    asker, batch = verification(FakeVerifier(ErrorCode.NONE)), Batch(FakeVerifiedLog(GUARD))
    assert not isinstance(start_now(asker.verify(question(batch, version=12))), asyncio.Task)
    assert batch.guard is GUARD


async def test_a_request_given_up_lets_the_next_one_pass() -> None:
    verifier = FakeVerifier(ErrorCode.NONE)
    verifier.gate = asyncio.Event()
    asker = verification(verifier)

    async def work() -> str:
        await asker.verify(question(Batch(FakeVerifiedLog(GUARD)), version=12))
        return "done"

    tasks = [cast("asyncio.Task[str]", start_now(work())) for _ in range(3)]
    await settle()
    tasks[1].cancel()
    tasks[0].cancel()
    verifier.gate.set()
    assert await tasks[2] == "done"


async def test_b26_requests_of_one_producer_are_judged_each_by_its_own_version() -> None:
    verifier = FakeVerifier(ErrorCode.TRANSACTION_ABORTABLE)
    asker = verification(verifier)
    old, new = Batch(FakeVerifiedLog(GUARD), 0), Batch(FakeVerifiedLog(GUARD), 1)
    asking_new, asking_old = question(new, version=12), question(old, version=9)
    tasks = [start_now(asker.verify(asking)) for asking in (asking_new, asking_old)]
    await asyncio.gather(*(task for task in tasks if isinstance(task, asyncio.Task)))
    assert (new.error, old.error) == (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)
    assert [how for how, _ in verifier.asked] == ["add", "verify"]
