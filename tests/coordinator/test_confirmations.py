"""What a coordinator of a cluster answers from memory waits for its log (cluster.md 6.5)."""

import asyncio

import pytest
from coordinator_fakes import ORDERS_0, FakeBroker, Producer

from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode

pytestmark = pytest.mark.virtual


async def committed(version: int = 0) -> tuple[FakeBroker, Producer]:
    """A coordinator of a cluster, and a producer that has committed one transaction."""
    broker = FakeBroker(confirms_responses=True)
    await broker.start()
    producer = Producer(broker, client_transaction_version=version)
    assert await producer.init() is ErrorCode.NONE
    assert await producer.add(ORDERS_0) is ErrorCode.NONE
    assert await producer.commit() is ErrorCode.NONE
    return broker, producer


async def asked(broker: FakeBroker, question: "asyncio.Task[ErrorCode]") -> None:
    """Let a question be decided, as far as it comes."""
    for _ in range(3):
        await asyncio.sleep(0)
        broker.clock.advance(0)


async def test_a_repeated_commit_is_confirmed_only_by_who_coordinates_still() -> None:
    """Else a deposed coordinator would call the next transaction committed, which it has never heard of."""
    broker, producer = await committed()
    broker.log.held = True  # its replicas follow its successor
    question = asyncio.create_task(producer.commit())
    await asked(broker, question)
    assert not question.done()

    broker.transactions.resign(0)  # the controllers are heard again

    assert await question is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("commit", [False, True])
async def test_a_refusal_from_memory_waits_for_the_log_and_is_then_given(commit: bool) -> None:
    broker, producer = await committed()
    broker.log.held = True
    producer.producer_epoch -= 1
    question = asyncio.create_task(producer.end(commit=commit))
    await asked(broker, question)
    assert not question.done()

    broker.log.release()

    assert await question is ErrorCode.PRODUCER_FENCED


async def test_an_unknown_id_is_refused_only_by_who_coordinates_still() -> None:
    broker, _ = await committed()
    broker.log.refuses_all = ErrorCode.NOT_LEADER_OR_FOLLOWER
    stranger = Producer(broker, "of the successor's")
    stranger.producer_id, stranger.producer_epoch = 5, 0
    question = asyncio.create_task(stranger.commit())
    await asked(broker, question)

    assert await question is ErrorCode.NOT_COORDINATOR


async def test_too_few_replicas_in_sync_are_no_refusal_for_good() -> None:
    broker, producer = await committed()
    broker.log.refuses_all = ErrorCode.NOT_ENOUGH_REPLICAS
    question = asyncio.create_task(producer.commit())
    await asked(broker, question)

    assert await question is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_answers_of_one_moment_share_a_record_that_changes_nothing() -> None:
    broker, producer = await committed()
    broker.states(producer.transactional_id)  # nothing is owed any more
    appends = broker.log.appends

    questions = [asyncio.create_task(producer.commit()) for _ in range(5)]
    await asked(broker, questions[-1])

    assert [await each for each in questions] == [ErrorCode.NONE] * 5
    assert broker.log.appends == appends + 1
    assert list(broker.log.contents()) == [producer.transactional_id]
    await broker.restart()
    found = broker.transactions.txn(producer.transactional_id)
    assert found is not None
    assert found.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [0, 2])
async def test_transactions_that_nobody_repeats_write_no_record_more(version: int) -> None:
    """The cost is that of repetitions and refusals, which follow a failover or a fencing."""

    async def appends(*, confirms: bool) -> int:
        broker = FakeBroker(confirms_responses=confirms)
        await broker.start()
        producer = Producer(broker, client_transaction_version=version)
        assert await producer.init() is ErrorCode.NONE
        for number in range(20):
            assert await producer.add(ORDERS_0) is ErrorCode.NONE
            assert await producer.end(commit=bool(number % 2)) is ErrorCode.NONE
            broker.states(producer.transactional_id)
        return broker.log.appends

    assert await appends(confirms=True) == await appends(confirms=False) > 20


async def test_a_coordinator_that_ends_answers_what_it_has_not_confirmed() -> None:
    broker, producer = await committed()
    broker.log.held = True
    question = asyncio.create_task(producer.commit())
    await asked(broker, question)

    with broker.logs.out_of_reach():
        await broker.transactions.stop()

    assert await question is ErrorCode.NOT_COORDINATOR


async def test_a_broker_that_runs_alone_answers_at_once_and_writes_nothing() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    await producer.add(ORDERS_0)
    await producer.commit()
    broker.states(producer.transactional_id)
    appends = broker.log.appends

    assert await producer.commit() is ErrorCode.NONE
    assert broker.log.appends == appends
