"""Two-phase commit on the wire (KIP-939): a prepared transaction waits for its decision, though its producer or the
broker dies.

A broker of its own, since it must be switched on, stopped and killed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from broker_process import BrokerProcess
from wire import OTHER_BROKER, Connect, Wire, data_offsets, unique
from wire_producer import RawProducer

from eosin.cli.__main__ import main
from eosin.client.client import Client
from eosin.client.transactions import TransactionAdmin
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

SETTINGS = {"transaction.two.phase.commit.enable": "true", "transaction.max.timeout.ms": "100"}
"""No transaction with a timeout lives for longer than a moment."""
NONE = (-1, -1)

pytestmark = pytest.mark.skipif(OTHER_BROKER, reason="it starts a broker of its own: no other serves version 6")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("two-phase") / "data", settings=SETTINGS) as running:
        yield running


@pytest.fixture
async def connect(broker: BrokerProcess) -> AsyncIterator[Connect]:
    opened: list[Wire] = []

    async def open_one(**how: str | None) -> Wire:
        opened.append(await Wire.open(broker.address, **how))
        return opened[-1]

    yield open_one
    for each in opened:
        await each.close()


def pairs(answer: InitProducerIdResponse) -> tuple[tuple[int, int], tuple[int, int]]:
    """What the client goes on with, and what was left open for it."""
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return (
        (answer.producer_id, answer.producer_epoch),
        (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch),
    )


async def init(
    wire: Wire,
    name: str,
    pair: tuple[int, int] = NONE,
    *,
    two_phase: bool = True,
    keep: bool = False,
    timeout_ms: int = 100,
    version: int = 6,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(name, timeout_ms, *pair, enable_2pc=two_phase, keep_prepared_txn=keep)
    answer: InitProducerIdResponse = await wire.ask(request, version)
    return answer


async def prepared(wire: Wire, *partitions: TopicPartition, name: str = "", level: int = 2) -> RawProducer:
    """A producer that has written all it has to, and waits for the decision."""
    name = name or unique("tx")
    (producer_id, producer_epoch), _ = pairs(await init(wire, name))
    producer = RawProducer(wire, name, producer_id, producer_epoch, level)
    if level == 1:
        await producer.add(*partitions)
    for partition in partitions:
        await producer.append(partition, 2)
    return producer


async def successor(wire: Wire, producer: RawProducer) -> RawProducer:
    """A new instance that keeps what the old one left open."""
    assert producer.transactional_id is not None
    pair, ongoing = pairs(await init(wire, producer.transactional_id, keep=True))
    assert ongoing == producer.pair
    assert pair > ongoing
    return RawProducer(wire, producer.transactional_id, *pair, producer.level)


async def committed(wire: Wire, partition: TopicPartition) -> list[int]:
    """The offsets of the batches that readers of committed records get."""
    found = await wire.fetch_committed(partition)
    aborted = {each.first_offset for each in found.aborted_transactions or ()}
    return [offset for offset in data_offsets(found.records) if offset not in aborted]


async def test_version_6_is_announced(wire: Wire) -> None:
    answer = await wire.ask(ApiVersionsRequest("a-client", "1"), 4)
    (row,) = [row for row in answer.api_keys if row.api_key == ApiKey.INIT_PRODUCER_ID]
    assert (row.min_version, row.max_version) == (0, 6)


async def test_without_its_flags_version_6_is_version_5(wire: Wire) -> None:
    name = unique("tx")
    assert pairs(await init(wire, name, two_phase=False))[1] == NONE
    refused = await init(wire, name, two_phase=False, timeout_ms=101)
    assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert pairs(await init(wire, name))[0][1] == 1


async def test_a_transaction_waits_for_its_decision_through_a_restart_and_a_kill(
    connect: Connect, broker: BrokerProcess
) -> None:
    wire = await connect()
    left, right = await wire.partition(), await wire.partition()
    first = await prepared(wire, left, right)
    name = unique("tx")
    ordinary = RawProducer(wire, name, *pairs(await init(wire, name, two_phase=False))[0])
    other = await wire.partition()
    await ordinary.append(other)
    broker.stop()
    broker.start()
    wire = await connect()
    second = await successor(wire, first)
    broker.stop()
    assert main(["check", str(broker.data_dir)]) == 0, "what was kept does not hang"
    broker.start()
    wire = await connect()
    broker.kill()
    broker.start()
    wire = await connect()
    await wire.until_stable(other, 2)  # long enough for a timeout
    third = await successor(wire, first)
    for fenced in (first, second):
        fenced.wire = wire
        assert (await fenced.end(commit=False, pair=fenced.pair)).error_code == ErrorCode.PRODUCER_FENCED
    assert await committed(wire, left) == await committed(wire, right) == []
    await third.commit()
    for partition in (left, right):
        await wire.until_stable(partition, 3)
        assert await committed(wire, partition) == [0]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_new_instance_ends_what_the_old_one_prepared_and_goes_on(wire: Wire, level: int, commit: bool) -> None:
    partition = await wire.partition()
    first = await prepared(wire, partition, level=level)
    second = await successor(wire, first)
    answer = await second.end(commit=commit)
    assert answer.error_code == ErrorCode.NONE
    await second.completed()
    assert await committed(wire, partition) == ([0] if commit else [])
    if level == 1:
        await second.add(partition)
    await second.append(partition)
    await second.commit()
    await wire.until_stable(partition, 5)
    assert await committed(wire, partition) == ([0, 3] if commit else [3])
    assert (await first.end(commit=True, pair=first.pair)).error_code == ErrorCode.PRODUCER_FENCED


async def test_an_end_whose_answer_was_lost_is_answered_again(wire: Wire) -> None:
    partition = await wire.partition()
    second = await successor(wire, await prepared(wire, partition))
    pair = second.pair
    answers = [await second.end(commit=True, pair=pair) for _ in range(3)]
    assert {(each.error_code, each.producer_id, each.producer_epoch) for each in answers} == {
        (ErrorCode.NONE, pair[0], pair[1] + 1)
    }
    assert (await second.end(commit=False, pair=pair)).error_code == ErrorCode.INVALID_TXN_STATE
    await wire.until_stable(partition, 3)
    assert await committed(wire, partition) == [0]


async def test_nothing_can_be_added_to_a_kept_transaction(wire: Wire) -> None:
    partition, other = await wire.partition(), await wire.partition()
    first = await prepared(wire, partition)
    second = await successor(wire, first)
    assert await second.add(other) == ErrorCode.INVALID_TXN_STATE
    assert await first.add(other) == ErrorCode.PRODUCER_FENCED
    assert (await second.send(other)).error_code == ErrorCode.INVALID_TXN_STATE
    assert (await first.send(other)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await second.send(partition)).error_code != ErrorCode.NONE
    assert await second.commit_offsets(unique("group"), partition, 1) == ErrorCode.INVALID_TXN_STATE
    assert await wire.end_offset(other) == 0
    await second.commit()
    await wire.until_stable(partition, 3)


async def test_offsets_of_a_group_are_part_of_what_was_prepared(wire: Wire, group: str) -> None:
    async def offset() -> int:
        request = OffsetFetchRequest(group_id=group, topics=(OffsetFetchRequestTopic(partition.topic, (0,)),))
        answer = await wire.ask(request, 7)
        return int(answer.topics[0].partitions[0].committed_offset)

    partition = await wire.partition()
    first = await prepared(wire, partition)
    assert await first.commit_offsets(group, partition, 42) == ErrorCode.NONE
    second = await successor(wire, first)
    assert await offset() == -1
    await second.commit()
    await second.completed()
    assert await offset() == 42


async def test_an_instance_that_does_not_keep_a_prepared_transaction_aborts_it(wire: Wire) -> None:
    partition = await wire.partition()
    first = await prepared(wire, partition)
    second = await successor(wire, first)
    assert first.transactional_id is not None
    pair, ongoing = pairs(await init(wire, first.transactional_id))
    assert ongoing == NONE
    assert pair > second.pair
    await wire.until_stable(partition, 3)
    assert await committed(wire, partition) == []
    assert (await second.end(commit=True, pair=second.pair)).error_code == ErrorCode.PRODUCER_FENCED
    assert pairs(await init(wire, first.transactional_id, keep=True))[1] == NONE


async def test_an_older_client_that_takes_the_id_over_aborts_a_prepared_transaction(wire: Wire) -> None:
    partition = await wire.partition()
    first = await prepared(wire, partition)
    assert first.transactional_id is not None
    answer = await init(wire, first.transactional_id, two_phase=False, version=5)
    assert answer.error_code == ErrorCode.NONE
    await wire.until_stable(partition, 3)
    assert await committed(wire, partition) == []


async def test_a_kept_transaction_stays_for_every_instance_with_its_epoch(wire: Wire) -> None:
    partition = await wire.partition()
    first = await prepared(wire, partition)
    assert first.transactional_id is not None
    second = await successor(wire, first)
    third, ongoing = pairs(await init(wire, first.transactional_id, second.pair, keep=True))
    assert ongoing == first.pair
    assert third > second.pair
    assert pairs(await init(wire, first.transactional_id, second.pair, keep=True)) == (third, ongoing)
    for zombie in (first.pair, (first.producer_id, 77)):
        assert (await init(wire, first.transactional_id, zombie, keep=True)).error_code == ErrorCode.PRODUCER_FENCED
    await RawProducer(wire, first.transactional_id, *third).commit()
    await wire.until_stable(partition, 3)
    assert await committed(wire, partition) == [0]


async def test_a_prepared_transaction_can_be_kept_by_many_at_once_and_ended_by_the_last(connect: Connect) -> None:
    wires = [await connect() for _ in range(5)]
    partition = await wires[0].partition()
    first = await prepared(wires[0], partition)
    seconds = await asyncio.gather(*(successor(wire, first) for wire in wires))
    assert len({each.pair for each in seconds}) == len(seconds)
    last = max(seconds, key=lambda each: each.pair)
    answers = await asyncio.gather(*(each.end(commit=each is last) for each in seconds))
    assert [each.error_code for each in answers] == [
        ErrorCode.NONE if each is last else ErrorCode.PRODUCER_FENCED for each in seconds
    ]
    await wires[0].until_stable(partition, 3)
    assert await committed(wires[0], partition) == [0]


# --- operators

Run = Callable[..., Awaitable[list[dict[str, object]]]]


@pytest.fixture
def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `eosin transactions` and answers what it prints as JSON."""

    async def command(*arguments: str, code: int = 0) -> list[dict[str, object]]:
        given = ["transactions", *arguments, "--json", "--bootstrap-server", broker.address]
        assert await asyncio.to_thread(main, given) == code  # a command has an event loop of its own
        out, err = capsys.readouterr()
        return [json.loads(line) for line in out.splitlines()] if code == 0 else [{"sentence": err}]

    return command


async def test_a_prepared_transaction_is_described_as_two_phase_and_does_not_hang(
    wire: Wire, run: Run, broker: BrokerProcess
) -> None:
    partition = await wire.partition()
    first = await prepared(wire, partition)
    assert first.transactional_id is not None
    for _ in range(2):
        (found,) = await run("describe", first.transactional_id)
        assert (found["state"], found["is_two_phase"], found["timeout_ms"]) == ("Ongoing", True, 2**31 - 1)
        assert (found["producer_id"], found["producer_epoch"]) == first.pair
        async with Client(broker.address) as client:
            assert await TransactionAdmin(client).find_hanging([partition], before_ms=2**62) == []
        await successor(wire, first)
    ordinary = unique("tx")
    await init(wire, ordinary, two_phase=False)
    (found,) = await run("describe", ordinary)
    assert found["is_two_phase"] is False


async def test_an_operator_can_end_a_prepared_transaction_in_all_partitions(wire: Wire, run: Run) -> None:
    left, right = await wire.partition(), await wire.partition()
    first = await prepared(wire, left, right)
    assert first.transactional_id is not None
    second = await successor(wire, first)
    (ended,) = await run("force-terminate", first.transactional_id)
    assert (ended["producer_id"], ended["producer_epoch"]) == first.pair
    assert ended["partitions"] == sorted([str(left), str(right)])
    for partition in (left, right):
        await wire.until_stable(partition, 3)
        assert await committed(wire, partition) == []
    assert (await second.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    (refused,) = await run("force-terminate", first.transactional_id, code=1)
    assert "has no open transaction" in str(refused["sentence"])
    (refused,) = await run("force-terminate", "nobody", code=1)
    assert "there is no transactional id 'nobody'" in str(refused["sentence"])
