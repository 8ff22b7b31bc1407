"""Batches that take long to check: off the event loop, and in their place all the same."""

import asyncio
import random
import threading
import zlib
from collections.abc import Callable
from typing import Any

import hostile_batches
import pytest
from call_counter import CallCounter
from data_broker import DataBroker, batch, settle
from fake_peer import FakePeer, host_of

from eosin.broker.handlers import produce
from eosin.broker.producing.large_batches import FIRST_BATCHES_AT_ONCE, QUICK_WORK_BEHIND
from eosin.model.principals import Principal
from eosin.network.many_items import ITEMS_PER_TURN
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.budget import RECORD_WORK, Budget
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.runtime.thread_rest import GivenUp
from eosin.security.session import Session
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.validation import MAX_HEADERS_IN_BATCH, MAX_RECORDS_IN_BATCH, QUICK_WORK

QUICK_RECORDS = QUICK_WORK // RECORD_WORK
QUICK_BYTES = QUICK_WORK  # at least one unit of work for each byte
T = 1_700_000_000_000
MIB = 1 << 20


class HeldDisk(MemoryDisk):
    """A disk whose threads finish when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Future[None]] | None = None

    async def off_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.held is not None:
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        return function(*args, **kwargs)


def many_records(count: int = QUICK_RECORDS + 1, **fields: Any) -> bytes:
    return bytes(build_batch([NewRecord(None, b"v")] * count, timestamp=T, **fields))


def inflated(size: int, codec: Compression = Compression.ZSTD) -> bytes:
    return bytes(build_batch([NewRecord(None, bytes(size))], timestamp=T, compression=codec))


async def held_broker() -> tuple[DataBroker, HeldDisk]:
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    await broker.create_topic(partitions=2)
    for partition in (0, 1):
        assert (await broker.produce(batch("first", timestamp=T), partition=partition)).error_code == 0
    disk.held = []
    return broker, disk


def answer_of(begun: Any) -> tuple[str, int]:
    response = begun.result() if isinstance(begun, asyncio.Future) else begun
    one = response.responses[0].partition_responses[0]
    return ErrorCode(one.error_code).name, one.base_offset


@pytest.mark.parametrize(
    "large", [many_records(), inflated(QUICK_BYTES + 1)], ids=["many records", "much behind compression"]
)
async def test_a_batch_for_a_partition_waits_behind_its_large_batch(large: bytes) -> None:
    broker, disk = await held_broker()
    count = int.from_bytes(large[57:61], "big")
    begun = [broker.begin_produce(large), broker.begin_produce(batch("b", timestamp=T)), broker.begin_produce(large)]
    assert answer_of(broker.begin_produce(batch("c", timestamp=T), partition=1)) == ("NONE", 1)
    await settle()
    assert broker.log().log_end_offset == 1
    assert disk.held is not None
    for _ in range(3):
        for each in disk.held:
            if not each.done():
                each.set_result(None)
        await settle()
    assert [answer_of(each) for each in begun] == [("NONE", 1), ("NONE", 1 + count), ("NONE", 2 + count)]
    assert broker.services.large_batches.waiting == {}
    assert answer_of(broker.begin_produce(batch("d", timestamp=T))) == ("NONE", 2 + 2 * count)


@pytest.mark.parametrize(
    "hostile",
    [
        hostile_batches.many_headers(20_000),
        hostile_batches.many_members(10_000),
        hostile_batches.many_blocks(20_000),
        hostile_batches.many_records(5_000),
        hostile_batches.much_inflated(2 * MIB),
        hostile_batches.empty_tables(30_000),
    ],
    ids=["headers", "gzip members", "snappy blocks", "records", "bytes", "tables of gzip"],
)
async def test_few_bytes_that_cost_much_are_checked_by_a_thread(hostile: bytes) -> None:
    broker, disk = await held_broker()
    begun = broker.begin_produce(hostile)
    await settle()
    assert disk.held is not None
    assert len(disk.held) == 1
    disk.held[0].set_result(None)
    await settle()
    assert answer_of(begun)[0] in ("NONE", "INVALID_RECORD")


@pytest.mark.parametrize(
    ("codec", "level", "is_quick"),
    [
        ("gzip", "6", True),
        ("gzip", "7", False),
        ("zstd", "3", True),
        ("zstd", "19", False),
        ("lz4", "9", True),  # Kafka's number for the fast one
        ("lz4", "4", False),
    ],
)
async def test_a_slow_level_of_the_topic_is_compressed_in_a_thread(codec: str, level: str, is_quick: bool) -> None:
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    await broker.create_topic(**{"compression_type": codec, f"compression_{codec}_level": level})
    await broker.produce(batch("first", timestamp=T, compression=Compression[codec.upper()]))
    disk.held = []
    begun = broker.begin_produce(batch("v" * 10_000, timestamp=T))
    await settle()
    assert len(disk.held) == (0 if is_quick else 1)
    for each in disk.held:
        each.set_result(None)
    await settle()
    assert answer_of(begun) == ("NONE", 1)


async def test_more_headers_than_a_thread_may_look_at_are_too_many() -> None:
    broker, disk = await held_broker()
    begun = broker.begin_produce(hostile_batches.many_headers(MAX_RECORDS_IN_BATCH + MAX_HEADERS_IN_BATCH + 500_000))
    await settle()
    assert disk.held is not None
    disk.held[0].set_result(None)
    await settle()
    assert answer_of(begun) == ("MESSAGE_TOO_LARGE", -1)


async def test_who_sends_large_batches_does_not_wait_for_those_of_another_user() -> None:
    _, disk, (bombs, mine) = await large_batches_of("mallory", "other")
    for number, each in enumerate(mine):
        await settle()
        assert len(disk.held) == number + 2
        disk.held[number + 1].set_result(None)
        await settle()
        assert answer_of(each) == ("NONE", 1)
    assert not any(each.done() for each in bombs)


async def test_of_three_users_with_large_batches_two_are_served_at_a_time_and_in_turns() -> None:
    _, disk, sent = await large_batches_of("mallory", "eve", "other")
    *bombs, mine = sent
    for done in range(2):
        await settle()
        assert len(disk.held) == done + 2
        assert not mine[0].done()
        disk.held[done].set_result(None)
    await settle()
    assert [sum(each.done() for each in users) for users in bombs] == [1, 1]
    disk.held[2].set_result(None)
    await settle()
    assert answer_of(mine[0]) == ("NONE", 1)


async def large_batches_of(*users: str) -> tuple[DataBroker, HeldDisk, list[list[Any]]]:
    """A broker whose threads have just begun on the first of two large batches of each user."""
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    await broker.create_topic(partitions=2 * len(users))
    for partition in range(2 * len(users)):
        await broker.produce(batch("first", timestamp=T), partition=partition)
    disk.held = []
    begun = []
    for number, name in enumerate(users):
        session = Session(principal=Principal("User", name))
        pair = (2 * number, 2 * number + 1)
        begun.append([broker.begin_produce(many_records(), partition=each, session=session) for each in pair])
    return broker, disk, begun


async def test_whoever_has_a_batch_waiting_has_little_work_of_the_event_loop_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    validate_quickly = produce.validate_quickly

    def noted(*args: Any) -> Any:
        given.append(next(each.left for each in args if isinstance(each, Budget)))
        return validate_quickly(*args)

    broker, disk, begun = await large_batches_of("a")
    monkeypatch.setattr(produce, "validate_quickly", noted)
    for name in ("a", "b"):
        session = Session(principal=Principal("User", name))
        begun.append([broker.begin_produce(hostile_batches.many_blocks(20_000), partition=1, session=session)])
    assert disk.held is not None
    while disk.held:
        disk.held.pop().set_result(None)
        await settle()
    assert {answer_of(each)[0] for some in begun for each in some} == {"NONE"}
    broker.begin_produce(batch("last", timestamp=T), session=Session(principal=Principal("User", "a")))
    assert given == [QUICK_WORK_BEHIND, QUICK_WORK, QUICK_WORK]


async def test_a_check_that_nobody_waits_for_ends_at_its_next_rest() -> None:
    ended: list[str] = []

    class GivenUpDisk(MemoryDisk):
        async def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_soon(self._go_on, function, *args)
                raise

        def _go_on(self, function: Callable[..., Any], *args: Any) -> None:
            try:
                function(*args)
                ended.append("done")
            except GivenUp:
                ended.append("given up")

    broker = await DataBroker.started(disk=GivenUpDisk())
    await broker.create_topic()
    begun = broker.begin_produce(many_records())
    await settle()
    begun.cancel()
    await settle()
    assert ended == ["given up"]
    assert broker.log().log_end_offset == 0


async def test_a_stopping_broker_drops_what_waits_of_clients_that_are_gone() -> None:
    broker, disk = await held_broker()
    host = host_of(produce.API, services=broker.services)
    gone = [FakePeer(host) for _ in range(20)]
    there = FakePeer(host)
    large = broker.produce_request(many_records(), version=11)
    small = broker.produce_request(batch("b", timestamp=T), version=11)
    for peer in gone:
        peer.send(ApiKey.PRODUCE, 11, large, small)
    there.send(ApiKey.PRODUCE, 11, large)
    for peer in gone:
        peer.transport.lose()
    await settle()
    assert disk.held is not None
    assert len(disk.held) == 1
    assert len(host.running) == 41, "a lost client undoes nothing"
    broker.services.large_batches.stop()
    disk.held[0].set_result(None)
    await settle()
    assert len(disk.held) == 2, "the first was being checked, and the client of the last is there"
    assert len(host.running) == 1
    disk.held[1].set_result(None)
    await settle()
    assert host.running == {}
    assert broker.log().log_end_offset == 1 + 2 * (QUICK_RECORDS + 1)
    (answer,) = there.answers()
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert broker.services.large_batches.waiting == {}


async def test_what_a_client_sent_that_is_gone_is_appended_while_the_broker_runs() -> None:
    broker, disk = await held_broker()
    peer = FakePeer(host_of(produce.API, services=broker.services))
    large = broker.produce_request(many_records(), version=11)
    peer.send(ApiKey.PRODUCE, 11, large, large)
    peer.transport.lose()
    assert disk.held is not None
    for done in range(2):
        await settle()
        disk.held[done].set_result(None)
    await settle()
    assert broker.log().log_end_offset == 1 + 2 * (QUICK_RECORDS + 1)


async def test_an_idempotent_producer_keeps_its_sequences() -> None:
    broker, disk = await held_broker()
    count = QUICK_RECORDS + 1
    producer = {"producer_id": 5, "producer_epoch": 0}
    begun = [
        broker.begin_produce(many_records(base_sequence=0, **producer)),
        broker.begin_produce(batch("b", timestamp=T, base_sequence=count, **producer)),
    ]
    assert disk.held is not None
    while not all(isinstance(each, asyncio.Future) and each.done() for each in begun):
        await settle()
        for each in disk.held:
            if not each.done():
                each.set_result(None)
    assert [answer_of(each) for each in begun] == [("NONE", 1), ("NONE", 1 + count)]


async def test_a_large_batch_that_is_refused_or_given_up_lets_the_others_go_on() -> None:
    broker, disk = await held_broker()
    too_much = broker.begin_produce(inflated(65 * MIB))
    given_up = broker.begin_produce(many_records())
    last = broker.begin_produce(batch("b", timestamp=T))
    await settle()
    given_up.cancel()
    assert disk.held is not None
    for _ in range(3):
        await settle()
        for each in disk.held:
            if not each.done():
                each.set_result(None)
    await settle()
    assert answer_of(too_much) == ("MESSAGE_TOO_LARGE", -1)
    assert given_up.cancelled()
    assert answer_of(last) == ("NONE", 1)
    assert broker.services.large_batches.waiting == {}


async def test_a_request_that_is_given_up_while_it_waits_lets_nothing_overtake_those_before_it() -> None:
    broker, disk = await held_broker()
    large = broker.begin_produce(many_records())
    given_up = broker.begin_produce(batch("b", timestamp=T))
    last = broker.begin_produce(batch("c", timestamp=T))
    await settle()
    given_up.cancel()
    await settle()
    assert broker.log().log_end_offset == 1
    assert disk.held is not None
    disk.held[0].set_result(None)
    await settle()
    assert [answer_of(large), answer_of(last)] == [("NONE", 1), ("NONE", 1 + QUICK_RECORDS + 1)]
    assert broker.services.large_batches.waiting == {}


async def test_the_rest_of_a_request_does_not_wait_for_its_large_batch() -> None:
    broker, disk = await held_broker()
    partitions = (PartitionProduceData(0, many_records()), PartitionProduceData(1, batch("b", timestamp=T)))
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), partitions),))
    begun = broker.begin(produce.API, request, 11)
    assert (broker.log().log_end_offset, broker.log(partition=1).log_end_offset) == (1, 2)
    assert disk.held is not None
    await settle()
    disk.held[0].set_result(None)
    await settle()
    answers = begun.result().responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 1), (0, 1)]


async def test_many_batches_of_one_request_share_what_is_checked_at_once() -> None:
    broker, _ = await held_broker()
    one = inflated(QUICK_BYTES // 2 + 1)
    partitions = (PartitionProduceData(0, one), PartitionProduceData(1, one))
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), partitions),))
    begun = broker.begin(produce.API, request, 11)
    assert isinstance(begun, asyncio.Future)
    begun.cancel()
    await settle()


class FirstBatches:
    """A broker with partitions that have no files yet."""

    def __init__(self, broker: DataBroker, count: int) -> None:
        self.broker = broker
        self._count = count

    @classmethod
    async def of(cls, count: int, disk: MemoryDisk | None = None) -> "FirstBatches":
        broker = await DataBroker.started(disk=disk or MemoryDisk())
        await broker.create_topic(partitions=count)
        return cls(broker, count)

    def written(self) -> int:
        """Records of all partitions."""
        return sum(self.broker.log(partition=each).log_end_offset for each in range(self._count))

    def request(self, partitions: range) -> ProduceRequest:
        """One with a record for each of them."""
        data = tuple(PartitionProduceData(each, batch("r", timestamp=T)) for each in partitions)
        return ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), data),))

    def begin(self, partitions: range) -> Any:
        """Send it."""
        return self.broker.begin(produce.API, self.request(partitions), 11)

    async def per_turn(self) -> list[int]:
        """How many are written in each turn of the event loop from now on, until there are no more."""
        counts = []
        while (before := self.written()) < self._count:
            await asyncio.sleep(0)
            counts.append(self.written() - before)
            assert len(counts) < 10 * self._count
        return counts


def answered(begun: Any) -> list[tuple[int, int]]:
    response = begun.result() if isinstance(begun, asyncio.Future) else begun
    return [(each.error_code, each.base_offset) for each in response.responses[0].partition_responses]


async def test_first_batches_of_many_partitions_are_written_a_few_in_each_turn() -> None:
    count = 3 * FIRST_BATCHES_AT_ONCE
    many = await FirstBatches.of(count)
    first = many.begin(range(count))
    assert many.written() == FIRST_BATCHES_AT_ONCE
    behind = many.broker.begin_produce(batch("b", timestamp=T), partition=count - 1)
    assert max(await many.per_turn()) <= FIRST_BATCHES_AT_ONCE
    await settle()
    assert answered(first) == [(0, 0)] * count
    assert answer_of(behind) == ("NONE", 1)
    assert many.broker.services.large_batches.waiting == {}
    assert answered(many.begin(range(count))) == [(0, 1)] * (count - 1) + [(0, 2)]  # their files are there: all at once


async def test_first_batches_of_many_connections_share_each_turn() -> None:
    connections, each = 20, FIRST_BATCHES_AT_ONCE
    many = await FirstBatches.of(connections * each)
    begun = [many.begin(range(index * each, (index + 1) * each)) for index in range(connections)]
    assert many.written() == FIRST_BATCHES_AT_ONCE
    assert max(await many.per_turn()) <= FIRST_BATCHES_AT_ONCE
    await settle()
    assert [answered(one) for one in begun] == [[(0, 0)] * each] * connections


async def test_a_large_batch_that_is_being_checked_does_not_hold_up_first_batches() -> None:
    disk = HeldDisk()
    count = 2 * FIRST_BATCHES_AT_ONCE
    many = await FirstBatches.of(1 + count, disk)
    disk.held = []
    large = many.broker.begin_produce(many_records(), partition=count)
    begun = many.begin(range(count))
    for _ in range(10):
        await settle()
    assert answered(begun) == [(0, 0)] * count
    assert many.broker.log(partition=count).log_end_offset == 0
    disk.held[0].set_result(None)
    await settle()
    assert answer_of(large) == ("NONE", 0)


async def test_first_batches_of_a_request_that_is_given_up_let_the_others_go_on() -> None:
    count = 3 * FIRST_BATCHES_AT_ONCE
    many = await FirstBatches.of(count + 1)
    given_up = many.begin(range(count))
    last = many.begin(range(count, count + 1))
    await asyncio.sleep(0)
    given_up.cancel()
    for _ in range(10):
        await settle()
    assert given_up.cancelled()
    assert answered(last) == [(0, 0)]
    assert many.written() < count
    assert many.broker.services.large_batches.waiting == {}


async def test_a_request_with_hundreds_of_batches_appends_some_of_them_in_each_turn() -> None:
    count = 4 * ITEMS_PER_TURN
    many = await FirstBatches.of(count)
    many.begin(range(count))
    await many.per_turn()
    await settle()
    peer = FakePeer(host_of(produce.API, services=many.broker.services))
    behind = [many.broker.produce_request(batch("b", timestamp=T), partition=each) for each in (0, count - 1)]
    peer.send(ApiKey.PRODUCE, 11, many.request(range(count)), *behind)
    counts = [many.written() - count]
    while many.written() < 2 * count + len(behind):
        before = many.written()
        await asyncio.sleep(0)
        counts.append(many.written() - before)
        assert len(counts) < count
    assert max(counts) <= ITEMS_PER_TURN
    await settle()
    first, *others = peer.answers()
    assert answered(first) == [(0, 1)] * count
    assert [answered(each) for each in others] == [[(0, 2)]] * 2


async def test_a_large_batch_among_thousands_is_checked_by_a_thread_all_the_same() -> None:
    disk = HeldDisk()
    count = ITEMS_PER_TURN + 2
    many = await FirstBatches.of(count, disk)
    many.begin(range(count))
    await many.per_turn()
    await settle()
    disk.held = []
    data = [PartitionProduceData(each, batch("r", timestamp=T)) for each in range(count)]
    data[-2] = PartitionProduceData(count - 2, many_records())
    request = ProduceRequest(None, -1, 30_000, (TopicProduceData("orders", bytes(16), tuple(data)),))
    begun = many.broker.begin(produce.API, request, 11)
    await settle()
    assert not begun.done()
    assert len(disk.held) == 1
    disk.held[0].set_result(None)
    await settle()
    assert answered(begun) == [(0, 1)] * count


@pytest.mark.slow
@pytest.mark.parametrize("large", ["gzip", "records"])
async def test_the_event_loop_does_not_check_what_is_large(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    records = [NewRecord(None, bytes(chance.randint(1, 30))) for _ in range(40_000)]
    sent = inflated(60 * MIB, Compression.GZIP) if large == "gzip" else bytes(build_batch(records, timestamp=T))

    class ThreadedDisk(MemoryDisk):
        async def off_loop(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(function, *args, **kwargs)

    broker = await DataBroker.started(disk=ThreadedDisk())
    await broker.create_topic()
    await broker.produce(batch("first", timestamp=T))
    loop, inflated_there = threading.get_ident(), 0

    class Inflate:
        """As `zlib.decompressobj`."""

        def __init__(self, *how: int) -> None:
            self._inflate = inflate(*how)

        def decompress(self, given: bytes, most: int = 0) -> bytes:
            nonlocal inflated_there
            found = self._inflate.decompress(given, most)
            if threading.get_ident() == loop:
                inflated_there += len(found)
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflate, name)

    inflate = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Inflate)
    with CallCounter() as calls:
        answer = await broker.produce(sent)
    assert answer.error_code == ErrorCode.NONE
    assert inflated_there <= QUICK_BYTES + 1
    assert calls.calls < len(records) / 10
