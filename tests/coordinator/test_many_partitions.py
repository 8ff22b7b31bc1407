"""A transaction of very many partitions: no step of the event loop goes through all of them (security.md 6.2)."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from coordinator_fakes import FakeBroker, Producer
from hypothesis import given
from hypothesis import strategies as st
from loop_steps import LoopSteps
from manual_clock import ManualClock
from msgspec.structs import replace

from eosin.coordinator.transactions.log.encoder import encode_txn
from eosin.coordinator.transactions.log.records import decoded_txn
from eosin.coordinator.transactions.prepared_partitions import prepared
from eosin.coordinator.transactions.rules.decide import decide
from eosin.coordinator.transactions.rules.events import AddPartitions, EndTxn
from eosin.coordinator.transactions.rules.many_partitions import MANY, ManyPartitions, grouped, joined, ordered
from eosin.coordinator.transactions.rules.state import NO_PARTITIONS, TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

MOST_S = 0.025
"""Of processor time: it took 60 ms and more."""
PARTITIONS = [TopicPartition(f"topic-{index % 20_000}", index // 20_000) for index in range(50_000)]
OPEN = Txn("tx", 7, producer_epoch=5, state=TransactionState.ONGOING, start_ms=1, updated_ms=1)
ONE_MORE = AddPartitions(7, 5, frozenset({TopicPartition("topic-1", 9)}))
SETS = st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 80)), max_size=2 * MANY)


def took(do: Callable[[], Any]) -> float:
    """The processor time of the quickest of three times, s."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        do()
        times.append(time.thread_time() - began)
    return min(times)


def added(txn: Txn, event: AddPartitions) -> Txn:
    after, _ = decide(txn, event, 2)
    assert after.pending is not None
    return after.pending.after


@given(st.lists(st.tuples(SETS, st.booleans()), min_size=1, max_size=4), st.sampled_from([0, 1]))
def test_partitions_that_join_bit_by_bit_are_those_of_a_plain_set(
    steps: list[tuple[set[TopicPartition], bool]], version: int
) -> None:
    partitions, plain = NO_PARTITIONS, NO_PARTITIONS
    for some, in_groups in steps:
        partitions = joined(partitions, grouped(sorted(some)) if in_groups and len(some) > MANY else frozenset(some))
        plain |= some
        assert partitions == plain
        assert isinstance(partitions, ManyPartitions) == (len(plain) > MANY)
        assert sorted(ordered(partitions)) == sorted(plain)
        txn = replace(OPEN, partitions=partitions)
        assert decoded_txn("tx", encode_txn(txn, version)) == replace(OPEN, partitions=plain)


def test_many_partitions_are_in_order_of_topics_as_they_joined_in_memory_as_in_the_log() -> None:
    first = [TopicPartition("b", index) for index in range(MANY)]
    then = [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", MANY)]
    partitions = joined(frozenset(first), frozenset(then))
    expected = [*first, TopicPartition("b", MANY), TopicPartition("a", 1)]
    assert list(ordered(partitions)) == expected
    stored = decoded_txn("tx", encode_txn(replace(OPEN, partitions=partitions), 1))
    assert list(ordered(stored.partitions)) == expected


def test_one_more_of_very_many_partitions_is_added_in_milliseconds() -> None:
    txn = replace(OPEN, partitions=grouped(PARTITIONS))
    encode_txn(txn, 1)
    assert took(lambda: encode_txn(added(txn, ONE_MORE), 1)) < MOST_S


async def test_very_many_partitions_are_made_ready_in_turns() -> None:
    with LoopSteps() as steps:
        partitions = await prepared(dict.fromkeys(PARTITIONS), ManualClock())
    assert partitions == frozenset(PARTITIONS)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
    event = AddPartitions(7, 5, partitions)
    assert took(lambda: encode_txn(added(replace(OPEN, state=TransactionState.EMPTY), event), 1)) < MOST_S
    txn = replace(OPEN, partitions=frozenset({TopicPartition("other", 1)}))
    assert took(lambda: encode_txn(added(txn, event), 1)) < MOST_S


def test_the_end_of_a_transaction_of_very_many_partitions_takes_milliseconds() -> None:
    txn = replace(OPEN, partitions=grouped(PARTITIONS))
    encode_txn(txn, 1)

    def end() -> None:
        prepared, _ = decide(txn, EndTxn(7, 5, commit=True, client_transaction_version=0), 2)
        assert prepared.pending is not None
        encode_txn(prepared.pending.after, 1)
        assert len(dict.fromkeys(ordered(prepared.pending.after.partitions))) == len(PARTITIONS)

    assert took(end) < MOST_S


@pytest.mark.slow
async def test_a_coordinator_adds_describes_and_ends_very_many_partitions_without_a_long_step() -> None:
    broker = FakeBroker()
    transactions = await broker.start()
    producer = Producer(broker)
    await producer.init()
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    with LoopSteps() as steps:
        partitions = await prepared(dict.fromkeys(PARTITIONS), broker.clock)
        asked = steps.begin(transactions.add_partitions, "tx", partitions=partitions, **who)
        assert (await asked).error is ErrorCode.NONE
        more = [TopicPartition("topic-1", 9)]
        assert (await steps.begin(transactions.add_partitions, "tx", partitions=more, **who)).error is ErrorCode.NONE
        found = steps.begin(transactions.describe, "tx")
        assert len(found.partitions) == len(PARTITIONS) + 1
        ended = steps.begin(transactions.end, "tx", commit=True, client_transaction_version=0, **who)
        await ended
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)
