"""Transactions whose outcome somebody else decides (KIP-939): through deaths, restarts, time, and used up epochs."""

import asyncio
import random

import msgspec
import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, FakeBroker, Killed, Producer

from eosin.coordinator.transactions.rules.config import DAY_MS, TransactionConfig
from eosin.coordinator.transactions.rules.state import LAST_CLIENT_EPOCH, NO_TIMEOUT_MS, TransactionState
from eosin.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
ON = TransactionConfig(transaction_two_phase_commit_enable=True)
PARTITIONS = (ORDERS_0, ORDERS_1)


def participant(broker: FakeBroker, *, client_transaction_version: int = 2) -> Producer:
    producer = Producer(broker, client_transaction_version=client_transaction_version)
    producer.two_phase = True
    return producer


async def started(config: TransactionConfig = ON) -> FakeBroker:
    broker = FakeBroker(config)
    await broker.start()
    return broker


async def prepared(broker: FakeBroker, value: str = "v", *, client_transaction_version: int = 2) -> Producer:
    """A producer that has written all it has to, and waits for the decision."""
    producer = participant(broker, client_transaction_version=client_transaction_version)
    assert await producer.init() is NONE
    assert await producer.add(*PARTITIONS) is NONE
    for partition in PARTITIONS:
        assert producer.produce(partition, value) is NONE
    return producer


def state(broker: FakeBroker) -> TransactionState:
    return broker.log.contents()["tx"].state


@pytest.mark.parametrize(("two_phase", "keeps"), [(True, False), (True, True), (False, True)])
async def test_where_it_is_off_it_is_refused_and_nothing_is_stored(two_phase: bool, keeps: bool) -> None:
    broker = await started(TransactionConfig())
    producer = Producer(broker)
    producer.two_phase = two_phase
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if two_phase else ErrorCode.UNSUPPORTED_VERSION
    assert await producer.init(keeps=keeps) is error
    assert broker.log.stored == []


async def test_it_is_off_while_the_cluster_s_transaction_version_is_lower() -> None:
    broker = await started()
    broker.transactions.use_transaction_version(1)
    assert await participant(broker).init() is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.transactions.use_transaction_version(2)
    assert await participant(broker).init() is NONE


async def test_a_transaction_that_others_decide_is_known_to_be_open_until_it_ends() -> None:
    broker = await started()
    other = Producer(broker, "other")
    assert await other.init() is NONE
    assert await other.add(*PARTITIONS) is NONE
    assert not broker.transactions.has_open_two_phase
    producer = await prepared(broker)
    assert broker.transactions.has_open_two_phase
    assert await producer.end(commit=True) is NONE
    assert not broker.transactions.has_open_two_phase


async def test_the_longest_timeout_does_not_bind_a_producer_without_one() -> None:
    broker = await started()
    producer = participant(broker)
    producer.timeout_ms = 2**31 - 1
    assert await producer.init() is NONE
    found = broker.transactions.describe("tx")
    assert not isinstance(found, ErrorCode)
    assert found.timeout_ms == NO_TIMEOUT_MS
    producer.two_phase = False
    assert await producer.init() is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("restarts", [False, True])
async def test_it_waits_for_its_decision_as_long_as_it_takes(restarts: bool) -> None:
    broker = await started()
    producer = await prepared(broker)
    for _ in range(3):
        await broker.clock.run(100 * DAY_MS)
        if restarts:
            await broker.restart()
    assert state(broker) is TransactionState.ONGOING
    assert await producer.commit() is NONE
    assert [broker.partitions[each].committed for each in PARTITIONS] == [["v"], ["v"]]


@pytest.mark.parametrize("client_transaction_version", [0, 2])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("commit", [False, True])
async def test_a_new_instance_carries_the_decision_out(
    client_transaction_version: int, restarts: bool, commit: bool
) -> None:
    broker = await started()
    first = await prepared(broker, client_transaction_version=client_transaction_version)
    second = participant(broker, client_transaction_version=client_transaction_version)
    for _ in range(3):
        assert await second.init(keeps=True) is NONE
        assert second.ongoing == first.pair
        if restarts:
            await broker.restart()
    assert await first.commit() is ErrorCode.PRODUCER_FENCED
    assert first.produce(ORDERS_0, "late") is ErrorCode.PRODUCER_FENCED
    assert second.produce(ORDERS_0, "more") is ErrorCode.INVALID_TXN_STATE
    assert await second.end(commit=commit) is NONE
    for partition in PARTITIONS:
        assert broker.partitions[partition].committed == (["v"] if commit else [])
        assert broker.partitions[partition].aborted == ([] if commit else ["v"])
    assert await second.transaction("w", *PARTITIONS) == [NONE] * 4
    assert await first.commit() is ErrorCode.PRODUCER_FENCED


async def test_an_instance_that_does_not_keep_it_ends_it() -> None:
    broker = await started()
    first = await prepared(broker)
    second, third = participant(broker), Producer(broker)
    assert await second.init(keeps=True) is NONE
    assert await third.init() is NONE
    for partition in PARTITIONS:
        assert broker.partitions[partition].aborted == ["v"]
    for fenced in (first, second):
        assert await fenced.commit() is ErrorCode.PRODUCER_FENCED
    assert third.pair not in (first.pair, second.pair)


async def test_only_the_newest_instance_counts_as_the_producer() -> None:
    broker = await started()
    first, second = await prepared(broker), participant(broker)
    assert await second.init(keeps=True) is NONE
    assert await first.abort() is ErrorCode.PRODUCER_FENCED
    assert await second.abort() is NONE


async def test_with_nothing_open_there_is_nothing_to_keep() -> None:
    broker = await started()
    producer = participant(broker)
    for epoch in range(3):
        assert await producer.init(keeps=True) is NONE
        assert (producer.producer_epoch, producer.ongoing) == (epoch, None)


@pytest.mark.parametrize("first_is_two_phase", [False, True])
async def test_settings_of_a_new_instance_count_from_its_own_transactions_on(first_is_two_phase: bool) -> None:
    broker = await started()
    first, second = Producer(broker, client_transaction_version=2), Producer(broker, client_transaction_version=2)
    first.two_phase, second.two_phase = first_is_two_phase, not first_is_two_phase
    await first.init()
    await first.add(ORDERS_0)
    await second.init(keeps=True)
    await broker.restart()
    await broker.clock.run(61_000)
    # Promised to one of them, so it holds for this one.
    assert state(broker) is TransactionState.ONGOING
    assert await second.commit() is NONE
    await second.add(ORDERS_0)
    await broker.clock.run(61_000)
    assert state(broker) is (TransactionState.COMPLETE_ABORT if first_is_two_phase else TransactionState.ONGOING)


async def test_an_ordinary_transaction_that_is_kept_times_out_as_before() -> None:
    broker = await started()
    first, second = Producer(broker, client_transaction_version=2), Producer(broker, client_transaction_version=2)
    await first.init()
    await first.add(ORDERS_0)
    await broker.clock.run(30_000)
    await second.init(keeps=True)
    await broker.clock.run(31_000)
    assert state(broker) is TransactionState.COMPLETE_ABORT
    assert await second.commit() is not NONE
    assert await second.init(second.pair) is NONE, "nobody has replaced it"
    assert await second.transaction("v", ORDERS_0) == [NONE] * 3


@pytest.mark.parametrize("epochs_left", [0, 1, 2])
@pytest.mark.parametrize("commit", [False, True])
async def test_epochs_may_run_out_while_it_waits(epochs_left: int, commit: bool) -> None:
    broker = await started()
    first = participant(broker)
    await first.init()
    entry = broker.transactions.entry("tx")
    assert entry is not None
    entry.txn = msgspec.structs.replace(entry.txn, producer_epoch=LAST_CLIENT_EPOCH - epochs_left)
    first.producer_epoch = LAST_CLIENT_EPOCH - epochs_left
    await first.add(*PARTITIONS)
    for partition in PARTITIONS:
        assert first.produce(partition, "v") is NONE
    pairs = {first.pair}
    second = participant(broker)
    for _ in range(4):
        assert await second.init(keeps=True) is NONE
        assert second.ongoing == first.pair
        assert second.pair not in pairs
        assert second.producer_epoch <= LAST_CLIENT_EPOCH
        pairs.add(second.pair)
        await broker.restart()
    assert await second.end(commit=commit) is NONE
    for partition in PARTITIONS:
        assert broker.partitions[partition].committed == (["v"] if commit else [])
    assert await second.transaction("w", *PARTITIONS) == [NONE] * 4


RECORDS = 5
"""How many records an undisturbed recovery writes: two to prepare, two to keep, one to end."""


@pytest.mark.parametrize("kept", [False, True], ids=["lost", "kept"])
@pytest.mark.parametrize("record", range(1, RECORDS + 1))
async def test_the_decision_is_carried_out_wherever_the_process_ends(record: int, kept: bool) -> None:
    broker = await started()
    broker.log.kill_at, broker.log.kill_keeps = record, kept
    first, second = participant(broker), participant(broker)

    async def until_done(ask: str, **how: bool) -> None:
        producer = first if ask in ("begin", "add") else second
        while True:
            try:
                if ask == "add":
                    answer = await producer.add(*PARTITIONS)
                elif ask == "end":
                    answer = await producer.end(commit=True)
                else:
                    answer = await producer.init(**how)
            except Killed:
                await broker.restart()
                continue
            if answer is NONE:
                return
            assert answer.retriable, answer

    await until_done("begin")
    await until_done("add")
    for partition in PARTITIONS:
        assert first.produce(partition, "v") is NONE
    for _ in range(2):
        await until_done("keep", keeps=True)
        assert second.ongoing == first.pair
    await until_done("end")
    assert broker.log.appends >= RECORDS
    assert [broker.partitions[each].committed for each in PARTITIONS] == [["v"], ["v"]]
    assert await second.transaction("w", *PARTITIONS) == [NONE] * 4


@pytest.mark.parametrize("seed", range(40))
async def test_in_any_order_the_decision_of_the_external_coordinator_is_what_happens(seed: int) -> None:
    """Instances come and go, and so does the broker; the external coordinator knows which pair is to be committed."""
    chance = random.Random(seed)
    broker = await started()
    decided: tuple[int, int] | None = None
    committed: list[str] = []
    for number in range(25):
        producer = participant(broker, client_transaction_version=chance.choice((0, 2)))
        if not await _settled(producer, chance, broker):
            continue
        if producer.ongoing is not None:
            if chance.random() < 0.3:
                continue  # it dies, and the next one finds the same
            assert await producer.end(commit=producer.ongoing == decided) is NONE
        value = f"v{number}"
        if chance.random() < 0.1 and await producer.add(*PARTITIONS) is NONE:
            continue  # it dies before it has written anything
        pair = producer.pair
        assert await producer.add(*PARTITIONS) is NONE
        for partition in PARTITIONS:
            assert producer.produce(partition, value) is NONE
        if chance.random() < 0.4:
            continue  # it dies undecided: the next one aborts
        decided = pair
        committed.append(value)
        if chance.random() < 0.4:
            await broker.clock.run(chance.choice((1, DAY_MS)))
            continue  # it dies once it is decided: a later one commits
        assert await producer.commit() is NONE
    last = participant(broker)
    assert await last.init(keeps=True) is NONE
    if last.ongoing is not None:
        assert await last.end(commit=last.ongoing == decided) is NONE
    for partition in PARTITIONS:
        assert broker.partitions[partition].committed == committed
        assert broker.partitions[partition].open == {}


async def _settled(producer: Producer, chance: random.Random, broker: FakeBroker) -> bool:
    """Introduce it, maybe with a restart before or after; whether it lives."""
    if chance.random() < 0.3:
        await broker.restart()
    while (answer := await producer.init(keeps=True)) is not NONE:
        assert answer.retriable, answer
        await asyncio.sleep(0)
    if chance.random() < 0.3:
        await broker.restart()
    return chance.random() < 0.9
