"""InitProducerId on the wire: which producer goes on, which is fenced, and what a retry gets (transactions.md 3,
KIP-360)."""

import asyncio

import pytest
from wire import Connect, Wire, better_than_kafka, unique
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

pytestmark = pytest.mark.virtual

LAST_EPOCH = 32766
"""The highest epoch that is ever given to a client."""
MAX_TIMEOUT_MS = 900_000


async def started(wire: Wire, name: str, *, epoch: int = 0, level: int = 2) -> RawProducer:
    """A producer that has raised its epoch to `epoch`."""
    producer = await transactional(wire, name, level=level)
    while producer.producer_epoch < epoch:
        producer.adopt(await wire.init(name, producer.pair))
    return producer


def refusal(answer: InitProducerIdResponse) -> ErrorCode:
    """The error of an answer that gives nothing away."""
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    return ErrorCode(answer.error_code)


async def init_when_settled(wire: Wire, name: str, pair: tuple[int, int] = (-1, -1)) -> InitProducerIdResponse:
    """Init as clients do it: again, as long as a transaction is being completed."""
    while True:
        answer = await wire.init(name, pair)
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            return answer
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("version", range(6))
async def test_a_new_id_begins_with_epoch_0(wire: Wire, version: int) -> None:
    answer = await wire.init(unique("tx"), version=version)
    assert answer.error_code == ErrorCode.NONE
    assert answer.producer_id >= 0
    assert answer.producer_epoch == 0


async def test_a_new_instance_gets_the_next_epoch(wire: Wire) -> None:
    name = unique("tx")
    answers = [await wire.init(name) for _ in range(4)]
    assert len({each.producer_id for each in answers}) == 1
    assert [each.producer_epoch for each in answers] == [0, 1, 2, 3]


async def test_an_instance_that_shows_its_pair_goes_on_in_the_next_epoch(wire: Wire) -> None:
    producer = await started(wire, name := unique("tx"))
    answer = await wire.init(name, producer.pair)
    assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, 1)


async def test_a_repeated_request_is_answered_with_the_same_epoch(wire: Wire) -> None:
    producer = await started(wire, name := unique("tx"), epoch=3)
    answers = [await wire.init(name, producer.pair) for _ in range(3)]
    assert {(each.error_code, each.producer_epoch) for each in answers} == {(ErrorCode.NONE, 4)}
    assert (await wire.init(name, (producer.producer_id, 4))).producer_epoch == 5


@pytest.mark.parametrize(("other_id", "epoch"), [(0, 1), (0, 2), (0, 4), (0, 100), (10**9, 3)])
async def test_any_other_pair_is_fenced(wire: Wire, other_id: int, epoch: int) -> None:
    producer = await started(wire, name := unique("tx"), epoch=2)
    await wire.init(name)  # a new instance with epoch 3, so that not even the last epoch is one to go on from
    answer = await wire.init(name, (producer.producer_id + other_id, epoch))
    assert refusal(answer) == ErrorCode.PRODUCER_FENCED
    assert (await wire.init(name, (producer.producer_id, 3))).producer_epoch == 4


async def test_a_replaced_instance_is_fenced(wire: Wire) -> None:
    producer = await started(wire, name := unique("tx"), epoch=2)
    successor = await wire.init(name)
    for version, code in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED), (5, 90)):
        assert refusal(await wire.init(name, producer.pair, version=version)) == code
    assert (await wire.init(name, (successor.producer_id, successor.producer_epoch))).producer_epoch == 4


async def test_a_pair_shown_for_an_id_that_is_forgotten_is_replaced(wire: Wire) -> None:
    answer = await wire.init(unique("tx"), (12345, 7))
    assert answer.error_code == ErrorCode.NONE
    assert answer.producer_id != 12345
    assert answer.producer_epoch == 0


@pytest.mark.parametrize("pair", [(5, -1), (-1, 5)])
async def test_half_a_pair_is_an_invalid_request(wire: Wire, pair: tuple[int, int]) -> None:
    assert refusal(await wire.init(unique("tx"), pair)) == ErrorCode.INVALID_REQUEST


async def test_an_empty_id_is_an_invalid_request(wire: Wire) -> None:
    assert refusal(await wire.init("")) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1, 2**31 - 1])
async def test_a_timeout_out_of_bounds_is_refused(wire: Wire, timeout_ms: int) -> None:
    name = unique("tx")
    answer = await wire.init(name, timeout_ms=timeout_ms)
    assert refusal(answer) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (await wire.init(name)).producer_epoch == 0


@pytest.mark.parametrize("timeout_ms", [1, MAX_TIMEOUT_MS])
async def test_the_bounds_of_the_timeout_belong_to_it(wire: Wire, timeout_ms: int) -> None:
    assert (await wire.init(unique("tx"), timeout_ms=timeout_ms)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("level", [1, 2])
async def test_a_new_instance_aborts_what_the_old_one_left_open(wire: Wire, level: int) -> None:
    partition = await wire.partition()
    old = await started(wire, name := unique("tx"), level=level)
    if level == 1:
        await old.add(partition)
    await old.append(partition)
    answer = await init_when_settled(wire, name)
    assert (answer.producer_id, answer.producer_epoch) == (old.producer_id, 2)  # 1 is the marker's
    await wire.until_stable(partition, 2)
    found = await wire.fetch_committed(partition)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()] == [
        (old.producer_id, 0)
    ]
    assert (await old.send(partition)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await old.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("level", [1, 2])
async def test_an_instance_that_shows_its_pair_in_a_transaction_aborts_it_and_goes_on(wire: Wire, level: int) -> None:
    partition = await wire.partition()
    producer = await started(wire, name := unique("tx"), level=level)
    await producer.add(partition)
    await producer.append(partition)
    answer = await init_when_settled(wire, name, producer.pair)
    assert answer.error_code == ErrorCode.NONE
    assert answer.producer_id == producer.producer_id
    assert answer.producer_epoch > producer.producer_epoch
    producer.adopt(answer)
    await producer.add(partition)
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 4)
    assert len((await wire.fetch_committed(partition)).aborted_transactions or ()) == 1


@better_than_kafka("Apache Kafka lets a zombie abort its successor's transaction")
@pytest.mark.parametrize("epochs_ago", [1, 2])
async def test_a_zombie_cannot_touch_an_open_transaction(wire: Wire, epochs_ago: int) -> None:
    partition = await wire.partition()
    producer = await started(wire, name := unique("tx"), epoch=5)
    await producer.append(partition)
    zombie = (producer.producer_id, producer.producer_epoch - epochs_ago)
    assert refusal(await wire.init(name, zombie)) == ErrorCode.PRODUCER_FENCED
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 3)
    assert (await wire.fetch_committed(partition)).aborted_transactions == ()


async def test_an_id_of_any_characters_will_do(wire: Wire) -> None:
    for name in (unique("ü-\U0001f600"), unique("a b/c"), "x" * 500 + unique("long")):
        assert (await wire.init(name)).error_code == ErrorCode.NONE


async def exhaust(wire: Wire, name: str, *, timeout_ms: int = 60_000) -> RawProducer:
    """A producer that has used up the epochs of its id."""
    answer = await wire.init(name)
    while answer.producer_epoch < LAST_EPOCH:
        next_epochs = range(answer.producer_epoch, min(answer.producer_epoch + 60, LAST_EPOCH))
        requests = [InitProducerIdRequest(name, timeout_ms, answer.producer_id, epoch) for epoch in next_epochs]
        answers = await asyncio.gather(*[wire.send(request, 5) for request in requests])
        answer = answers[-1]
        assert answer.error_code == ErrorCode.NONE
    return RawProducer(wire, name, answer.producer_id, answer.producer_epoch)


@better_than_kafka("it takes minutes to use up the epochs, and a retry is fenced after a failover", asked=False)
async def test_an_id_whose_epochs_are_used_up_goes_on_with_another_producer_id(wire: Wire) -> None:
    partition = await wire.partition()
    producer = await exhaust(wire, unique("tx"))
    await producer.append(partition)
    old = producer.pair
    await producer.commit()
    assert producer.producer_id != old[0]
    assert producer.producer_epoch == 0
    retried = await producer.end(commit=True, pair=old)
    assert (retried.error_code, retried.producer_id, retried.producer_epoch) == (ErrorCode.NONE, *producer.pair)
    assert producer.transactional_id is not None
    again = await wire.init(producer.transactional_id, old)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (ErrorCode.NONE, *producer.pair)
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 4)
    assert (await wire.fetch_committed(partition)).aborted_transactions == ()


@pytest.mark.full
@better_than_kafka("it takes minutes to use up the epochs", asked=False)
async def test_a_timeout_in_the_last_epoch_is_a_clean_abort(wire: Wire) -> None:
    # Apache Kafka before 4.3 stayed in the transaction for ever (KAFKA-19367, KAFKA-20090).
    partition = await wire.partition()
    producer = await exhaust(wire, unique("tx"), timeout_ms=50)
    await producer.append(partition)
    await wire.until_stable(partition, 2)
    old = producer.producer_id
    await producer.abort()
    assert producer.producer_id != old
    assert producer.producer_epoch == 0
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, 4)
    found = await wire.fetch_committed(partition)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()] == [(old, 0)]


async def test_a_storm_of_new_producers_is_served_or_told_to_wait(connect: Connect) -> None:
    # More than one block of producer ids (transactions.md 9).
    wires = [await connect() for _ in range(20)]
    left = [None if number % 6 == 0 else unique("tx") for number in range(1200)]
    given: list[int] = []
    async with asyncio.timeout(30):
        while left:
            requests = [InitProducerIdRequest(name, 60_000) for name in left]
            sent = [wires[number % 20].send(request, 5) for number, request in enumerate(requests)]
            answers = await asyncio.gather(*sent)
            codes = {each.error_code for each in answers}
            assert codes <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            given += [each.producer_id for each in answers if each.error_code == ErrorCode.NONE]
            left = [name for name, each in zip(left, answers, strict=True) if each.error_code]
    assert len(given) == len(set(given)) == 1200
