"""Consumers of librdkafka and of Java roll from `group.protocol=classic` to `consumer` and back, and copy records in
transactions: the copy has each record once (consumer-groups.md 15 to 17)."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import confluent_kafka as ck
import pytest
from broker_process import BrokerProcess
from real_clients import java
from real_clients.base import ClientRefused
from real_clients.confluent import KEEP_BROKERS
from real_clients.remote import RemoteConsumer
from toolchains import skipped_without
from waiting import HANG_S
from wire import Wire

from eosin.protocol.schemas.list_groups import ListGroupsRequest

pytestmark = pytest.mark.process

SETTINGS: Final = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
PARTITIONS: Final = 4
BATCH: Final = 20
TRY_S: Final = 10
"""Of one call; a transaction has a minute."""


class Copier(Protocol):
    """A member of the group `g` that copies `in` to `out`, each batch in one transaction with its offsets."""

    name: str

    @property
    def partitions(self) -> set[int]:
        """Those that it has."""

    def go_on(self) -> None:
        """Copy what there is; what cannot be committed is copied again, by whoever has it then."""

    def committed(self) -> int:
        """The number of records that the group has copied."""

    def close(self) -> None:
        """Leave the group."""


class CopierOfLibrdkafka:
    """One by librdkafka."""

    def __init__(self, address: str, name: str, protocol: str, **settings: Any) -> None:
        self.name = name
        servers = {"bootstrap.servers": address, "client.id": name, **KEEP_BROKERS}
        fields: dict[str, Any] = {"group.id": "g", "group.protocol": protocol, "enable.auto.commit": False}
        if protocol == "classic":
            fields |= {"heartbeat.interval.ms": 200}
        self.consumer = ck.Consumer({**servers, **fields, "auto.offset.reset": "earliest", **settings})
        self.producer = ck.Producer({**servers, "transactional.id": f"{name}-{protocol}"})
        self.producer.init_transactions()
        self.consumer.subscribe(["in"])

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def committed(self) -> int:
        places = [ck.TopicPartition("in", number) for number in range(PARTITIONS)]
        return sum(max(each.offset, 0) for each in self.consumer.committed(places, HANG_S))

    def go_on(self) -> None:
        messages = [each for each in self.consumer.consume(BATCH, timeout=0.05) if not each.error()]
        if not messages:
            return
        self.producer.begin_transaction()
        ends: dict[int, int] = {}
        for each in messages:
            self.producer.produce("out", each.value(), partition=each.partition())
            ends[each.partition()] = each.offset() + 1
        offsets = [ck.TopicPartition("in", partition, end) for partition, end in ends.items()]
        try:
            group = self.consumer.consumer_group_metadata()
            asked_again(lambda: self.producer.send_offsets_to_transaction(offsets, group, TRY_S))
            asked_again(lambda: self.producer.commit_transaction(TRY_S))
        except ck.KafkaException as refused:
            if not refused.args[0].txn_requires_abort():
                raise
            asked_again(lambda: self.producer.abort_transaction(TRY_S))
            self._go_back(ends)

    def _go_back(self, partitions: dict[int, int]) -> None:
        mine = [ck.TopicPartition("in", each) for each in partitions if each in self.partitions]
        for each in self.consumer.committed(mine, HANG_S) if mine else ():
            each.offset = max(each.offset, 0)
            self.consumer.seek(each)

    def close(self) -> None:
        self.consumer.close()


class CopierOfJava:
    """One by Java's client."""

    def __init__(self, address: str, name: str, protocol: str, **settings: str) -> None:
        self.name = name
        client = java.CLIENT.secured({"group.protocol": protocol, **settings})
        consumer = client.consumer(address, group="g")
        assert isinstance(consumer, RemoteConsumer)
        self.consumer = consumer
        self.producer = client.producer(address, transactional_id=f"{name}-{protocol}")
        self.producer.init()
        self.consumer.subscribe(["in"])

    @property
    def partitions(self) -> set[int]:
        return {partition for _, partition in self.consumer.assignment()}

    def committed(self) -> int:
        return sum(self.consumer.committed("in", number) or 0 for number in range(PARTITIONS))

    def go_on(self) -> None:
        batch = self.consumer.read(BATCH, timeout_s=0.1)
        if not batch:
            return
        self.producer.begin()
        ends: dict[tuple[str, int], int] = {}
        for each in batch:
            self.producer.send("out", each.value or b"", partition=each.partition)
            ends["in", each.partition] = each.offset + 1
        try:
            self.producer.send_offsets(ends, self.consumer)
            self.producer.commit()
        except ClientRefused as refused:
            if refused.kind != "group":
                raise
            self.producer.abort()
            mine = [each for each in ends if each[1] in self.partitions]
            self.consumer.seek({each: self.consumer.committed(*each) or 0 for each in mine})

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


def asked_again(call: Callable[[], object]) -> None:
    """Make a call of a producer until it has an outcome: without a limit of its own, one that hangs could not be ended
    by pytest."""
    deadline = time.monotonic() + HANG_S
    while True:
        try:
            call()
        except ck.KafkaException as late:
            if not late.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


class Load:
    """Records for `in`, a few whenever the copiers go on."""

    def __init__(self, address: str) -> None:
        self.sent = 0
        self._producer = ck.Producer({"bootstrap.servers": address, "linger.ms": 0})

    def go_on(self) -> None:
        for _ in range(PARTITIONS):
            self._producer.produce("in", str(self.sent), partition=self.sent % PARTITIONS)
            self.sent += 1
        self._producer.flush(HANG_S)


def until(done: Callable[[], bool], load: Load, copiers: Sequence[Copier]) -> None:
    """Let all go on in turn until it is so."""
    deadline = time.monotonic() + HANG_S
    while not done():
        assert time.monotonic() < deadline, {each.name: each.partitions for each in copiers}
        load.go_on()
        for each in copiers:
            each.go_on()


def share(*copiers: Copier) -> Callable[[], bool]:
    """True when these have all partitions, each an equal share."""

    def done() -> bool:
        had = [each.partitions for each in copiers]
        total = sum(map(len, had))
        return total == len(set().union(*had)) == PARTITIONS and all(
            len(each) == PARTITIONS // len(had) for each in had
        )

    return done


def copied(address: str) -> Iterator[str]:
    """What is committed in `out`."""
    reader = ck.Consumer({"bootstrap.servers": address, "group.id": "r", "isolation.level": "read_committed"})
    for number in range(PARTITIONS):
        place = ck.TopicPartition("out", number, 0)
        _, end = reader.get_watermark_offsets(place, HANG_S)
        reader.assign([place])
        while reader.position([place])[0].offset < end:
            message = reader.poll(0.2)
            if message is not None:
                assert not message.error(), message.error()
                yield message.value().decode()
    reader.close()


async def prepare(address: str) -> None:
    wire = await Wire.open(address)
    for name in ("in", "out"):
        await wire.create_topic(name, partitions=PARTITIONS)
    await wire.close()


def kind_of_group(address: str) -> str:
    async def ask() -> str:
        wire = await Wire.open(address)
        answer = await wire.ask(ListGroupsRequest(), 5)
        await wire.close()
        (kind,) = (each.group_type for each in answer.groups if each.group_id == "g")
        return str(kind)

    return asyncio.run(ask())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_consumers_of_librdkafka_roll_from_one_protocol_to_the_other_and_back_and_copy_each_record_once(
    tmp_path: Path, strategy: str
) -> None:
    roll(tmp_path, CopierOfLibrdkafka, strategy)


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_consumers_of_java_roll_from_one_protocol_to_the_other_and_back_and_copy_each_record_once(
    tmp_path: Path, strategy: str
) -> None:
    with skipped_without():
        java.CLIENT.start()
    roll(tmp_path, CopierOfJava, f"org.apache.kafka.clients.consumer.{strategy}")


def roll(tmp_path: Path, copier: Callable[..., Copier], strategy: str) -> None:
    """Two copiers go one by one from the classic protocol to that of KIP-848, and back."""
    classic = {"partition.assignment.strategy": strategy}
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        address = broker.address
        asyncio.run(prepare(address))
        load = Load(address)

        def rolled(old: Copier, other: Copier, protocol: str) -> Copier:
            """The copier that takes the place of `old`."""
            old.close()
            settings = classic if protocol == "classic" else {}
            new = copier(address, f"{old.name[0]}{load.sent}", protocol, **settings)
            until(share(new, other), load, [new, other])
            return new

        first, second = (copier(address, name, "classic", **classic) for name in "ab")
        until(share(first, second), load, [first, second])
        assert kind_of_group(address) == "classic"
        first = rolled(first, second, "consumer")
        assert kind_of_group(address) == "consumer"
        second = rolled(second, first, "consumer")
        first = rolled(first, second, "classic")
        assert kind_of_group(address) == "consumer"
        second = rolled(second, first, "classic")
        assert kind_of_group(address) == "classic"
        broker.kill()
        broker.start()
        until(share(first, second), load, [first, second])
        until_all_is_copied(load, [first, second])
        for each in (first, second):
            each.close()
        found = Counter(copied(address))
        assert found == Counter(map(str, range(load.sent)))


def until_all_is_copied(load: Load, copiers: Sequence[Copier]) -> None:
    """Let the copiers go on, and no more records come, until all are committed."""
    deadline = time.monotonic() + HANG_S
    while copiers[0].committed() < load.sent:
        assert time.monotonic() < deadline
        for each in copiers:
            each.go_on()
