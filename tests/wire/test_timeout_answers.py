"""The error for each client whose transaction has timed out, for every request and version: the table of
transactions.md 12.3, over the wire. It is the same after a restart; once a second instance has started, the client is
fenced for good."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from asked_broker import KILLED
from virtual_broker import OwnBroker, own_broker
from wire import OTHER_BROKER, Connect, Wire, better_than_kafka, settled, unique
from wire_producer import RawProducer

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.virtual

TIMEOUT_MS = 500 if OTHER_BROKER else 50  # which another one may need for the record before


@dataclass(frozen=True)
class Client:
    """Who asks, and what it hears, as docs/semantics.md tables it (90 is 47 below the versions that know it)."""

    software: str
    version: str
    produce: tuple[int, int, int]
    """Up to v10, v11, from v12 on."""
    add: int
    commit: tuple[int, int, int]
    """EndTxn up to v3, v4, v5."""
    init_version: int = 4

    @property
    def name(self) -> str:
        return f"{self.software} {self.version}" if self.software else f"no name, Init v{self.init_version}"


CLIENTS = (
    Client("", "", (47, 120, 120), 59, (49, 120, 120)),
    Client("", "", (47, 47, 47), 90, (90, 90, 90), init_version=2),
    Client("apache-kafka-java", "2.4.1", (47, 47, 47), 90, (90, 90, 90), init_version=1),
    Client("apache-kafka-java", "2.6.3", (48, 120, 120), 49, (49, 49, 120)),
    Client("apache-kafka-java", "3.9.1", (47, 120, 120), 49, (49, 49, 120)),
    Client("apache-kafka-java", "4.1.0", (47, 120, 120), 59, (49, 120, 120)),
    Client("librdkafka", "1.6.2", (47, 47, 47), 90, (90, 90, 90), init_version=1),
    Client("librdkafka", "2.6.0", (59, 59, 59), 59, (49, 120, 120)),
    Client("confluent-kafka-python", "2.6.0-librdkafka-2.6.0", (59, 59, 59), 59, (49, 120, 120)),
    Client("kgo", "v1.18.0", (47, 47, 120), 59, (59, 59, 120)),
    Client("kafka-python", "2.2.0", (47, 47, 47), 90, (90, 90, 90)),
)
FENCED = Client("", "", (47, 47, 47), 90, (90, 90, 90))

Codes = dict[tuple[str, int], int]


def expected(client: Client, *, offsets: tuple[int, int, int] = (47, 22, 120)) -> Codes:
    """Every request and version, and its answer; `offsets` are TxnOffsetCommit's up to v2, v3, from v4 on."""
    codes = {("produce", version): client.produce[max(0, min(version - 10, 2))] for version in range(3, 14)}
    codes |= {("add", version): client.add for version in range(4)}
    codes |= {("add offsets", version): client.add for version in range(5)}
    codes |= {("commit offsets", version): offsets[max(0, min(version - 2, 2))] for version in range(6)}
    codes |= {("commit", version): client.commit[max(0, version - 3)] for version in range(6)}
    return {
        (asked, version): 47 if code == 90 and asked != "commit offsets" and version < 2 else code
        for (asked, version), code in codes.items()
    }


async def heard(producer: RawProducer, partition: TopicPartition, group: str) -> Codes:
    """What a producer hears to every request that would go on with its transaction. Produce 13 is left out by a
    connection that does not know the topic's id."""
    codes: Codes = {}
    for version in range(3, 14 if producer.wire.topic_id(partition.topic) != ZERO_UUID else 13):
        codes["produce", version] = (await producer.send(partition, version=version)).error_code
    for version in range(4):
        codes["add", version] = await producer.add(partition, version=version)
    for version in range(5):
        codes["add offsets", version] = await producer.add_offsets(group, version=version)
    for version in range(6):
        codes["commit offsets", version] = await producer.commit_offsets(group, partition, 1, version=version)
        codes["commit", version] = (await producer.end(commit=True, version=version)).error_code
    return codes


async def introduced(wire: Wire, client: Client) -> Wire:
    """A connection of that client."""
    if client.software:
        hello = ApiVersionsRequest(client_software_name=client.software, client_software_version=client.version)
        assert (await wire.ask(hello, 3)).error_code == ErrorCode.NONE
    return wire


async def begun(wire: Wire, client: Client, partition: TopicPartition, timeout_ms: int = TIMEOUT_MS) -> RawProducer:
    """A producer with an open transaction that has one record in the partition."""
    name = unique("tx")
    answer = await wire.init(name, version=client.init_version, timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.NONE
    producer = RawProducer(wire, name, answer.producer_id, answer.producer_epoch, level=1)
    assert await producer.add(partition) == ErrorCode.NONE
    await producer.append(partition)
    return producer


async def late(wire: Wire, client: Client, partition: TopicPartition) -> RawProducer:
    """One whose transaction has timed out."""
    producer = await begun(wire, client, partition)
    await wire.until_stable(partition, 2)
    return producer


async def recovers(producer: RawProducer, partition: TopicPartition) -> None:
    """What every client that can be helped does in the end: abort, show its pair, go on."""
    wire = producer.wire
    assert producer.transactional_id is not None
    before = await wire.end_offset(partition)
    for version in range(5):
        assert (await producer.end(commit=False, version=version)).error_code == ErrorCode.NONE
    told = await producer.end(commit=False, version=5, pair=producer.pair)
    epoch = producer.producer_epoch
    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, producer.producer_id, epoch + 1)
    claimed = await wire.init(producer.transactional_id, producer.pair, timeout_ms=60_000)
    assert (claimed.error_code, claimed.producer_epoch) == (ErrorCode.NONE, epoch + 2)
    producer.adopt(claimed)
    assert await producer.add(partition) == ErrorCode.NONE
    await producer.append(partition)
    await producer.commit()
    await wire.until_stable(partition, before + 2)
    aborted = (await wire.fetch_committed(partition)).aborted_transactions or ()
    assert [each.first_offset for each in aborted] == [0]


async def is_fenced(producer: RawProducer, partition: TopicPartition, group: str) -> None:
    """Whatever the producer sends, it hears that it was replaced."""
    codes = await heard(producer, partition, group)
    assert codes.items() <= expected(FENCED, offsets=(47, 47, 47)).items()
    for version in range(6):
        fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await producer.end(commit=False, version=version)).error_code == fenced
    assert producer.transactional_id is not None
    for version, fenced in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
        assert (
            await producer.wire.init(producer.transactional_id, producer.pair, version=version)
        ).error_code == fenced


@better_than_kafka("a producer that timed out can go on")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_each_client_gets_the_timeout_error_that_makes_it_recover_or_give_up(
    connect: Connect, client: Client, group: str
) -> None:
    wire = await introduced(await connect(), client)
    partition = await wire.partition()
    producer = await late(wire, client, partition)
    assert await heard(producer, partition, group) == expected(client)
    assert await wire.stable_offset(partition) == await wire.end_offset(partition) == 2, "nothing was written"
    await recovers(producer, partition)
    assert (await wire.init(producer.transactional_id)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_second_instance_fences_each_timed_out_client(connect: Connect, client: Client, group: str) -> None:
    wire = await introduced(await connect(), client)
    partition = await wire.partition()
    producer = await late(wire, client, partition)
    assert (await wire.init(producer.transactional_id)).error_code == ErrorCode.NONE
    await is_fenced(producer, partition, group)


async def test_a_second_instance_that_begins_before_the_timeout_fences_the_client(wire: Wire, group: str) -> None:
    partition = await wire.partition()
    producer = await begun(wire, CLIENTS[0], partition, timeout_ms=60_000)
    assert (await wire.init(producer.transactional_id)).error_code == ErrorCode.NONE
    await is_fenced(producer, partition, group)


# With a broker of their own -------------------------------------------------------------------------------------------


@asynccontextmanager
async def connection(broker: OwnBroker, client: Client) -> AsyncIterator[Wire]:
    wire = await Wire.open(broker.address)
    try:
        yield await introduced(wire, client)
    finally:
        await wire.close()


async def ready_group(wire: Wire) -> str:
    name = unique("group")
    request = FindCoordinatorRequest(key=name, key_type=0)
    await settled(lambda: wire.ask(request, 2), lambda answer: int(answer.error_code))
    return name


@better_than_kafka("a producer that timed out can go on")
async def test_a_restart_between_the_timeout_and_the_return_changes_nothing(restartable: OwnBroker) -> None:
    broker = restartable
    timed_out = []
    for client in CLIENTS:
        async with connection(broker, client) as wire:
            partition = await wire.partition()
            timed_out.append((client, await late(wire, client, partition), partition))
    async with connection(broker, CLIENTS[0]) as wire:
        elsewhere = await wire.partition()
        replaced = await late(wire, CLIENTS[0], elsewhere)
        assert (await wire.init(replaced.transactional_id)).error_code == ErrorCode.NONE
    await broker.restart(KILLED)
    for client, producer, partition in timed_out:
        async with connection(broker, client) as wire:
            producer.wire = wire
            codes = await heard(producer, partition, await ready_group(wire))
            assert codes.items() <= expected(client).items(), client.name
            await recovers(producer, partition)
    async with connection(broker, CLIENTS[0]) as wire:
        replaced.wire = wire
        await is_fenced(replaced, elsewhere, await ready_group(wire))


@better_than_kafka("a producer that timed out can go on")
async def test_a_transaction_that_times_out_while_the_broker_is_down_is_recoverable(
    restartable: OwnBroker,
) -> None:
    broker = restartable
    client = CLIENTS[0]
    async with connection(broker, client) as wire:
        partition = await wire.partition()
        producer = await begun(wire, client, partition, timeout_ms=400)
    await broker.restart(KILLED)
    async with connection(broker, client) as wire:
        producer.wire = wire
        await wire.until_stable(partition, 2)
        assert await producer.add(partition) == ErrorCode.UNKNOWN_PRODUCER_ID
        await recovers(producer, partition)


@pytest.mark.parametrize(
    "setting", [{"transaction.timeout.recovery": "kafka"}, {"transaction.partition.verification.enable": "false"}]
)
async def test_without_recovery_a_timeout_fences_as_kafkas_does(tmp_path: Path, setting: dict[str, str]) -> None:
    started = own_broker(tmp_path / "data", setting, durability="memory")
    async with started as broker, connection(broker, CLIENTS[0]) as wire:
        partition = await wire.partition()
        producer = await late(wire, CLIENTS[0], partition)
        await is_fenced(producer, partition, await ready_group(wire))


async def test_a_client_profile_can_be_configured(tmp_path: Path) -> None:
    settings = {"transaction.timeout.recovery.profiles": "apache-kafka-java:streams"}
    async with own_broker(tmp_path / "data", settings, durability="memory") as broker:
        client = Client("apache-kafka-java", "4.1.0", (47, 47, 47), 90, (90, 90, 90))
        async with connection(broker, client) as wire:
            partition = await wire.partition()
            producer = await late(wire, client, partition)
            codes = await heard(producer, partition, await ready_group(wire))
            assert codes == expected(client, offsets=(47, 47, 47))
