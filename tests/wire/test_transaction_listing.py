"""DescribeProducers, DescribeTransactions and ListTransactions on the wire (KIP-664, transactions.md 10)."""

import asyncio
from typing import Any

import pytest
from wire import Wire, better_than_kafka, now_ms, unique
from wire_producer import RawProducer, idempotent, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest, TransactionState
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest, ListTransactionsResponse

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE


async def producers(wire: Wire, partition: TopicPartition) -> list[ProducerState]:
    topics = (TopicRequest(partition.topic, (partition.partition,)),)
    answer = await wire.ask(DescribeProducersRequest(topics), 0)
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.error_message) == (NONE, None)
    return list(found.active_producers)


async def described(wire: Wire, transactional_id: str) -> TransactionState:
    answer = await wire.ask(DescribeTransactionsRequest((transactional_id,)), 0)
    state: TransactionState = answer.transaction_states[0]
    return state


async def listed(wire: Wire, *, version: int = 1, **filters: Any) -> ListTransactionsResponse:
    answer: ListTransactionsResponse = await wire.ask(ListTransactionsRequest(**filters), version)
    return answer


async def ids(wire: Wire, *, version: int = 1, **filters: Any) -> list[str | None]:
    answer = await listed(wire, version=version, **filters)
    assert answer.error_code == NONE
    return [each.transactional_id for each in answer.transaction_states]


async def begun(wire: Wire, partition: TopicPartition, *, level: int = 1) -> RawProducer:
    producer = await transactional(wire, level=level)
    if level < 2:
        await producer.add(partition)
    await producer.append(partition, 3)
    return producer


# --- DescribeProducers


async def test_a_producer_in_a_transaction_is_described_with_its_start(wire: Wire) -> None:
    partition = await wire.partition()
    await wire.append(partition, 2)
    producer = await transactional(wire, level=1)
    await producer.add(partition)
    written_ms = now_ms() - 500
    await producer.append(partition, 3, timestamp=written_ms)
    (found,) = await producers(wire, partition)
    assert (found.producer_id, found.producer_epoch) == producer.pair
    assert (found.last_sequence, found.current_txn_start_offset, found.coordinator_epoch) == (2, 2, -1)
    assert found.last_timestamp == written_ms


async def test_a_producer_whose_transaction_has_ended_is_described_without_a_start(wire: Wire) -> None:
    partition = await wire.partition()
    producer = await begun(wire, partition)
    await producer.commit()
    await producer.completed()
    (found,) = await producers(wire, partition)
    assert (found.producer_id, found.producer_epoch) == producer.pair
    assert (found.last_sequence, found.current_txn_start_offset) == (2, -1)
    assert found.coordinator_epoch >= 0


async def test_the_marker_of_the_second_protocol_starts_a_new_epoch(wire: Wire) -> None:
    partition = await wire.partition()
    producer = await begun(wire, partition, level=2)
    epoch = producer.producer_epoch
    await producer.commit()
    await producer.completed()
    (found,) = await producers(wire, partition)
    assert (found.producer_epoch, found.last_sequence) == (epoch + 1, -1)


async def test_idempotent_producers_are_described(wire: Wire) -> None:
    partition = await wire.partition()
    first, second = await idempotent(wire), await idempotent(wire)
    await first.append(partition, 3)
    await second.append(partition, 1)
    found = {
        each.producer_id: (each.last_sequence, each.current_txn_start_offset)
        for each in await producers(wire, partition)
    }
    assert found == {first.producer_id: (2, -1), second.producer_id: (0, -1)}


async def test_unknown_partitions_have_an_error_each(wire: Wire) -> None:
    partition = await wire.partition()
    unknown, illegal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    topics = (
        TopicRequest(partition.topic, (0, 7)),
        TopicRequest(unique("no"), (0,)),
        TopicRequest("not/legal", (0, 1)),
    )
    answer = await wire.ask(DescribeProducersRequest(topics), 0)
    codes = {
        (topic.name, each.partition_index): (each.error_code, each.active_producers)
        for topic in answer.topics
        for each in topic.partitions
    }
    assert codes == {
        (partition.topic, 0): (NONE, ()),
        (partition.topic, 7): (unknown, ()),
        (topics[1].name, 0): (unknown, ()),
        ("not/legal", 0): (illegal, ()),
        ("not/legal", 1): (illegal, ()),
    }


# --- DescribeTransactions


async def test_an_open_transaction_is_described(wire: Wire) -> None:
    left, right = await wire.topic(2), await wire.topic()
    producer = await transactional(wire, level=1, timeout_ms=54_321)
    before = now_ms()
    await producer.add(TopicPartition(left, 1), TopicPartition(right, 0))
    await producer.add(TopicPartition(left, 0))
    found = await described(wire, producer.transactional_id or "")
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (NONE, "Ongoing", 54_321)
    assert (found.producer_id, found.producer_epoch) == producer.pair
    assert before <= found.transaction_start_time_ms <= now_ms()
    topics = {each.topic: tuple(sorted(each.partitions)) for each in found.topics}
    assert topics == {left: (0, 1), right: (0,)}


async def test_an_id_without_a_transaction_is_empty(wire: Wire) -> None:
    producer = await transactional(wire)
    name = producer.transactional_id or ""
    assert await described(wire, name) == TransactionState(NONE, name, "Empty", 60_000, -1, *producer.pair)


@pytest.mark.parametrize(("commit", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
async def test_an_ended_transaction_keeps_its_start_and_has_no_partitions(wire: Wire, commit: bool, state: str) -> None:
    producer = await begun(wire, await wire.partition())
    await producer.end(commit=commit)
    await producer.completed()
    found = await described(wire, producer.transactional_id or "")
    assert (found.transaction_state, found.topics) == (state, ())
    assert found.transaction_start_time_ms > 0


async def test_unknown_transactional_ids_have_an_error_each(wire: Wire) -> None:
    producer, nobody = await transactional(wire), unique("nobody")
    answer = await wire.ask(DescribeTransactionsRequest((nobody, producer.transactional_id or "", "")), 0)
    codes = {each.transactional_id: each.error_code for each in answer.transaction_states}
    assert codes == {
        nobody: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        producer.transactional_id: NONE,
        "": ErrorCode.INVALID_REQUEST,
    }
    (absent,) = [each for each in answer.transaction_states if each.transactional_id == nobody]
    assert absent == TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, nobody)


# --- ListTransactions


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_states_and_producers_narrow_the_list(wire: Wire, version: int) -> None:
    open_one, empty = await begun(wire, await wire.partition()), await transactional(wire)
    both = {open_one.transactional_id, empty.transactional_id}
    assert both <= set(await ids(wire, version=version))
    assert both & set(await ids(wire, version=version, state_filters=("Ongoing",))) == {open_one.transactional_id}
    assert await ids(wire, version=version, producer_id_filters=(empty.producer_id,)) == [empty.transactional_id]
    assert (
        set(await ids(wire, version=version, producer_id_filters=(empty.producer_id, open_one.producer_id, 10**14)))
        == both
    )
    nothing = {"state_filters": ("Ongoing",), "producer_id_filters": (empty.producer_id,)}
    assert await ids(wire, version=version, **nothing) == []


async def test_a_listed_transaction_has_its_id_producer_and_state(wire: Wire) -> None:
    producer = await begun(wire, await wire.partition())
    (found,) = (await listed(wire, producer_id_filters=(producer.producer_id,))).transaction_states
    assert (found.transactional_id, found.producer_id, found.transaction_state) == (
        producer.transactional_id,
        producer.producer_id,
        "Ongoing",
    )


async def test_states_that_do_not_exist_are_returned_and_match_nothing(wire: Wire) -> None:
    producer = await transactional(wire)
    only = await listed(wire, state_filters=("Sleeping", "empty"), producer_id_filters=(producer.producer_id,))
    assert (only.error_code, set(only.unknown_state_filters)) == (NONE, {"Sleeping", "empty"})
    assert only.transaction_states == ()
    some = await listed(wire, state_filters=("Sleeping", "Empty"), producer_id_filters=(producer.producer_id,))
    assert some.unknown_state_filters == ("Sleeping",)
    assert [each.transactional_id for each in some.transaction_states] == [producer.transactional_id]


@pytest.mark.parametrize("name", ["Dead", "PrepareEpochFence"])
async def test_states_that_are_never_listed_are_valid_filters(wire: Wire, name: str) -> None:
    answer = await listed(wire, state_filters=(name,))
    assert (answer.unknown_state_filters, answer.transaction_states) == ((), ())


async def test_a_duration_leaves_out_what_is_younger(wire: Wire) -> None:
    producer = await begun(wire, await wire.partition())
    mine: dict[str, Any] = {"producer_id_filters": (producer.producer_id,)}
    assert await ids(wire, duration_filter=60_000, **mine) == []
    assert await ids(wire, duration_filter=-1, **mine) == [producer.transactional_id]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_duration_finds_what_is_open_for_longer(wire: Wire, version: int) -> None:
    producer = await begun(wire, await wire.partition())
    await asyncio.sleep(0.03)
    mine: dict[str, Any] = {"version": version, "producer_id_filters": (producer.producer_id,)}
    assert await ids(wire, duration_filter=20, **mine) == [producer.transactional_id]
    assert await ids(wire, duration_filter=20, state_filters=("Empty",), **mine) == []


@pytest.mark.parametrize(("commit", "state"), [(True, "PrepareCommit"), (False, "PrepareAbort")])
async def test_a_decided_transaction_without_all_markers_is_listed_as_prepared(
    wire: Wire, commit: bool, state: str
) -> None:
    partition = await wire.partition()
    producer = await begun(wire, partition)
    # The partition takes the coordinator for an old one, and refuses its marker.
    assert await wire.write_marker(partition, producer.pair, coordinator_epoch=10**9) == NONE
    assert (await producer.end(commit=commit)).error_code == NONE
    found = await described(wire, producer.transactional_id or "")
    assert found.transaction_state == state
    assert [each.topic for each in found.topics] == [partition.topic]
    mine: dict[str, Any] = {"producer_id_filters": (producer.producer_id,)}
    assert await ids(wire, state_filters=(state,), **mine) == [producer.transactional_id]
    assert await ids(wire, state_filters=("Ongoing", "CompleteCommit", "CompleteAbort"), **mine) == []


@better_than_kafka("Apache Kafka takes the start of an ended transaction for that of an open one")
async def test_a_duration_leaves_out_what_is_not_open(wire: Wire) -> None:
    ended, empty = await begun(wire, await wire.partition()), await transactional(wire)
    await ended.commit()
    await ended.completed()
    pids = (ended.producer_id, empty.producer_id)
    assert await ids(wire, duration_filter=0, producer_id_filters=pids) == []


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("{}", True),
        ("{}.*", True),
        (".*", True),
        ("{}x", False),
        ("(?i)TX-.*", True),
        ("tx", False),
        ("[a-z]+-\\w+", True),
        (None, True),
        ("", True),
    ],
)
async def test_a_pattern_must_match_the_whole_id(wire: Wire, pattern: str | None, matches: bool) -> None:
    producer = await transactional(wire)
    name = producer.transactional_id or ""
    given = None if pattern is None else pattern.replace("{}", name)
    found = await ids(wire, version=2, transactional_id_pattern=given, producer_id_filters=(producer.producer_id,))
    assert found == ([name] if matches else [])


@pytest.mark.parametrize("pattern", ["(", "a**", "(a)\\1", "(?=a)", "a{1001}", "[z-a]"])
async def test_an_invalid_pattern_is_refused(wire: Wire, pattern: str) -> None:
    answer = await listed(wire, version=2, transactional_id_pattern=pattern)
    assert answer == ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)


async def test_a_pattern_takes_linear_time(wire: Wire) -> None:
    """With backtracking, this would not end."""
    producer = await transactional(wire, "a" * 3000 + unique("tx"))
    filters: dict[str, Any] = {"producer_id_filters": (producer.producer_id,)}
    assert await ids(wire, version=2, transactional_id_pattern="(a+)+b", **filters) == []
