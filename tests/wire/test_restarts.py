"""A restart keeps producers, records and open transactions. Each case runs after a clean stop and after kill -9.

All situations are made before one restart, each by the function that its case names. After kill -9 a coordinator may
write a marker once more, which changes nothing; so no case relies on the end of a log.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
from asked_broker import KILLED, STOPPED, restartable_broker
from wire import LATEST, Wire, better_than_kafka, data_offsets, produced, settled, unique
from wire_group import commit_offset, fetch_offset
from wire_producer import RawProducer, idempotent, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT

pytestmark = [pytest.mark.smoke, pytest.mark.restarts]

_LAST_ONLY: Final = "its snapshot has the last batch of each producer only, and an older repetition is a gap"

Situation = Callable[[Wire], Awaitable[Any]]
_SITUATIONS: Final[list[Situation]] = []


def before(make: Situation) -> Situation:
    """Mark what makes a situation before the restart."""
    _SITUATIONS.append(make)
    return make


class After:
    """What was made before the restart, and a connection after it."""

    def __init__(self, wire: Wire, made: dict[Situation, Any]) -> None:
        self.wire = wire
        self._made = made

    def __getitem__(self, situation: Situation) -> Any:
        """What `situation` has made; its producers go on with the new connection."""
        made = self._made[situation]
        for each in made if isinstance(made, tuple) else (made,):
            if isinstance(each, RawProducer):
                each.wire = self.wire
        return made


@pytest.fixture(scope="module", params=[STOPPED, KILLED])
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[Situation, Any]]]:
    """The address of a broker that was restarted, and what was made before."""
    with restartable_broker(tmp_path_factory.mktemp("restarted") / "data") as broker:
        made = asyncio.run(_made(broker.address))
        broker.restart(request.param)
        yield broker.address, made


async def _made(address: str) -> dict[Situation, Any]:
    wire = await Wire.open(address)
    try:
        return {make: await make(wire) for make in _SITUATIONS}
    finally:
        await wire.close()


@pytest.fixture
async def after(restarted: tuple[str, dict[Situation, Any]]) -> AsyncIterator[After]:
    wire = await Wire.open(restarted[0])
    yield After(wire, restarted[1])
    await wire.close()


async def ready_group(wire: Wire) -> str:
    """The name of a group that does not exist yet, whose coordinator is ready."""
    name = unique("group")
    asked = FindCoordinatorRequest(key=name, key_type=0)
    await settled(lambda: wire.ask(asked, 2), lambda answer: int(answer.error_code))
    return name


async def begun(wire: Wire, partition: TopicPartition, level: int) -> RawProducer:
    """A producer with an open transaction that has one record in the partition."""
    producer = await transactional(wire, level=level)
    if level == 1:
        assert await producer.add(partition) == NONE
    await producer.append(partition)
    return producer


async def ended(wire: Wire, partition: TopicPartition, level: int, *, commit: bool = True) -> RawProducer:
    """One whose transaction is over, whatever its marker's reader is told."""
    producer = await begun(wire, partition, level)
    await producer.end(commit=commit)
    await wire.until_stable(partition, 2)
    return producer


# --- idempotent producers


@before
async def two_batches(wire: Wire) -> Any:
    partition, producer = await wire.partition(), await idempotent(wire)
    await producer.append(partition, 2)
    last = producer.batch(partition, 3)
    await producer.resend(partition, last)
    return partition, producer, last


async def test_a_last_batch_is_known_after_a_restart(after: After) -> None:
    partition, producer, last = after[two_batches]
    again = await producer.resend(partition, last)
    assert (again.error_code, again.base_offset) == (NONE, 2)
    assert (await producer.send(partition, sequence=9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.append(partition) == 5


@before
async def seven_batches(wire: Wire) -> Any:
    partition, producer = await wire.partition(), await idempotent(wire)
    batches = [producer.batch(partition, 2) for _ in range(7)]
    for batch in batches:
        await producer.resend(partition, batch)
    return partition, producer, batches


@better_than_kafka(_LAST_ONLY)
async def test_each_of_the_last_five_batches_is_known_after_a_restart(after: After) -> None:
    partition, producer, batches = after[seven_batches]
    again = [await producer.resend(partition, batch) for batch in batches[2:]]
    assert [(each.error_code, each.base_offset) for each in again] == [(NONE, offset) for offset in (4, 6, 8, 10, 12)]
    assert await after.wire.end_offset(partition) == 14


@before
async def five_in_flight(wire: Wire) -> Any:
    """As a client sends them: all at once."""
    partition, producer = await wire.partition(), await idempotent(wire)
    await producer.append(partition)
    batches = [producer.batch(partition, 2) for _ in range(5)]
    under_way = [wire.send(producer.request(partition, batch), 11) for batch in batches]
    await asyncio.gather(*under_way)
    return partition, producer, batches


@better_than_kafka(_LAST_ONLY)
async def test_five_batches_without_responses_are_written_once_over_a_restart(after: After) -> None:
    partition, producer, batches = after[five_in_flight]
    under_way = [after.wire.send(producer.request(partition, batch), 11) for batch in batches]
    again = [produced(each) for each in await asyncio.gather(*under_way)]
    assert [each.base_offset for each in again] == [1, 3, 5, 7, 9]
    assert await after.wire.end_offset(partition) == 11


@before
async def second_epoch(wire: Wire) -> Any:
    partition, producer = await wire.partition(), await idempotent(wire)
    await producer.append(partition, epoch=1)
    return partition, producer


async def test_an_older_epoch_is_refused_after_a_restart(after: After) -> None:
    partition, producer = after[second_epoch]
    assert (await producer.send(partition, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@before
async def three_ids(wire: Wire) -> Any:
    return [await wire.init(None) for _ in range(3)]


async def test_no_producer_id_is_given_twice_over_a_restart(after: After) -> None:
    given = [*after[three_ids], *[await after.wire.init(None) for _ in range(3)]]
    assert {(each.error_code, each.producer_epoch) for each in given} == {(NONE, 0)}
    assert len({each.producer_id for each in given}) == 6


# --- transactions


async def _open(wire: Wire, level: int) -> Any:
    partition = await wire.partition()
    return partition, await begun(wire, partition, level)


@before
async def open_at_first(wire: Wire) -> Any:
    return [await _open(wire, 1) for _ in range(2)]


@before
async def open_at_second(wire: Wire) -> Any:
    return [await _open(wire, 2) for _ in range(2)]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("level", [1, 2])
async def test_a_producer_goes_on_with_its_open_transaction_after_a_restart(
    after: After, level: int, commit: bool
) -> None:
    wire = after.wire
    partition, producer = after[open_at_first if level == 1 else open_at_second][int(commit)]
    producer.wire = wire
    await producer.append(partition)
    assert await wire.stable_offset(partition) == 0, "readers are still held back"
    await producer.end(commit=commit)
    await wire.until_stable(partition, 3)
    found = await wire.fetch_committed(partition)
    assert data_offsets(found.records) == [0, 1]
    aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    assert aborted == ([] if commit else [(producer.producer_id, 0)])


@before
async def aborted(wire: Wire) -> Any:
    partition = await wire.partition()
    return partition, await ended(wire, partition, 2, commit=False)


async def test_an_aborted_transaction_is_listed_after_a_restart(after: After) -> None:
    partition, producer = after[aborted]
    found = await after.wire.fetch_committed(partition)
    listed = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    assert listed == [(producer.producer_id, 0)]
    assert data_offsets(found.records) == [0]
    assert await after.wire.stable_offset(partition) == await after.wire.end_offset(partition)


@before
async def committed(wire: Wire) -> Any:
    found = []
    for level in (1, 2, 2):
        partition = await wire.partition()
        producer = await begun(wire, partition, level)
        pair = producer.pair
        first = await producer.end(commit=True)
        await wire.until_stable(partition, 2)
        await producer.completed()
        found.append((partition, producer, pair, first))
    return found


@pytest.mark.parametrize("level", [1, 2])
async def test_a_repeated_end_is_answered_the_same_after_a_restart(after: After, level: int) -> None:
    partition, producer, pair, first = after[committed][level - 1]
    producer.wire = after.wire
    again = await producer.end(commit=True, pair=pair)
    assert again == first
    assert data_offsets((await after.wire.fetch_committed(partition)).records) == [0]


async def test_an_end_with_the_other_outcome_is_refused_after_a_restart(after: After) -> None:
    _, producer, pair, _ = after[committed][2]
    producer.wire = after.wire
    assert (await producer.end(commit=False, pair=pair)).error_code == ErrorCode.INVALID_TXN_STATE


@before
async def replaced(wire: Wire) -> Any:
    found = {}
    for level in (1, 2):
        partition, producer = await _open(wire, level)
        successor = await transactional(wire, producer.transactional_id, level=level)
        await wire.until_stable(partition, 2)
        found[level] = partition, producer, successor
    return found


@pytest.mark.parametrize("level", [1, 2])
async def test_a_replaced_instance_is_fenced_after_a_restart(after: After, level: int) -> None:
    partition, producer, successor = after[replaced][level]
    producer.wire = successor.wire = after.wire
    assert (await producer.send(partition)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.add(partition) == ErrorCode.PRODUCER_FENCED
    assert (await producer.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await after.wire.init(producer.transactional_id, producer.pair)).error_code == ErrorCode.PRODUCER_FENCED
    if level == 1:
        assert await successor.add(partition) == NONE
    assert await successor.append(partition) >= 2
    await successor.commit()


@before
async def left_open(wire: Wire) -> Any:
    return await _open(wire, 2)


async def test_a_new_instance_aborts_what_was_open_before_a_restart(after: After) -> None:
    partition, producer = after[left_open]
    successor = await transactional(after.wire, producer.transactional_id)
    assert successor.producer_id == producer.producer_id
    assert successor.producer_epoch > producer.producer_epoch
    await after.wire.until_stable(partition, 2)
    listed = (await after.wire.fetch_committed(partition)).aborted_transactions or ()
    assert [each.first_offset for each in listed] == [0]


@before
async def introduced(wire: Wire) -> Any:
    producer = await transactional(wire)
    return producer, await wire.init(producer.transactional_id, producer.pair)


@better_than_kafka("what KIP-360 needs is not stored: a request that is repeated after a restart is fenced")
async def test_a_repeated_init_producer_id_is_answered_the_same_after_a_restart(after: After) -> None:
    producer, first = after[introduced]
    assert await after.wire.init(producer.transactional_id, producer.pair) == first


@before
async def described(wire: Wire) -> Any:
    _, producer = await _open(wire, 2)
    asked = DescribeTransactionsRequest((producer.transactional_id,))
    return asked, (await wire.ask(asked, 0)).transaction_states


async def test_an_open_transaction_is_described_the_same_after_a_restart(after: After) -> None:
    asked, told = after[described]
    assert (await after.wire.ask(asked, 0)).transaction_states == told
    assert [each.transaction_state for each in told] == ["Ongoing"]


# --- offsets


@before
async def plain_offset(wire: Wire) -> Any:
    partition, group = await wire.partition(), await ready_group(wire)
    await commit_offset(wire, group, partition, 7)
    return partition, group


async def test_committed_offsets_are_there_after_a_restart(after: After) -> None:
    partition, group = after[plain_offset]
    assert await fetch_offset(after.wire, group, partition, require_stable=True) == [(NONE, 7)]


@before
async def pending_offsets(wire: Wire) -> Any:
    found = []
    for _ in range(2):
        partition, group = await wire.partition(), await ready_group(wire)
        await commit_offset(wire, group, partition, 4)
        producer = await transactional(wire)
        assert await producer.commit_offsets(group, partition, 9) == NONE
        found.append((partition, group, producer))
    return found


@pytest.mark.parametrize(("commit", "expected"), [(True, 9), (False, 4)])
async def test_offsets_of_an_open_transaction_are_unstable_after_a_restart(
    after: After, commit: bool, expected: int
) -> None:
    wire = after.wire
    partition, group, producer = after[pending_offsets][int(commit)]
    producer.wire = wire
    assert await fetch_offset(wire, group, partition, require_stable=True) == [(UNSTABLE, -1)]
    assert await fetch_offset(wire, group, partition) == [(NONE, 4)]
    await producer.end(commit=commit)
    await producer.completed()
    assert await fetch_offset(wire, group, partition, require_stable=True) == [(NONE, expected)]


# --- leaders


@before
async def leader_epoch(wire: Wire) -> Any:
    partition = await wire.partition()
    await wire.append(partition)
    return partition, (await wire.list_offset(partition, LATEST)).leader_epoch


async def test_a_leader_epoch_from_before_a_restart_is_fenced(after: After) -> None:
    partition, epoch = after[leader_epoch]
    await after.wire.append(partition)
    assert (await after.wire.list_offset(partition, LATEST)).leader_epoch > epoch
    assert (await after.wire.fetch(partition, leader_epoch=epoch)).error_code == ErrorCode.FENCED_LEADER_EPOCH
