"""librdkafka with `group.protocol=consumer`: two members share a topic, commit in a transaction, and one takes over."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from broker_process import BrokerProcess
from confluent_kafka.admin import AdminClient
from waiting import HANG_S
from wire import Wire

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


def poll_until(consumers: list[Any], done: Callable[[], bool]) -> list[ck.Message]:
    """Poll in turn until it is so; what has come meanwhile."""
    messages: list[ck.Message] = []
    deadline = time.monotonic() + HANG_S
    while not done():
        assert time.monotonic() < deadline, [each.assignment() for each in consumers]
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                assert not message.error(), message.error()
                messages.append(message)
    return messages


async def create_topic(address: str) -> None:
    wire = await Wire.open(address)
    await wire.create_topic("orders", partitions=4)
    await wire.close()


def partitions(consumer: Any) -> set[int]:
    return {each.partition for each in consumer.assignment()}


@pytest.mark.process
def test_two_members_share_a_topic_and_one_takes_over(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        asyncio.run(create_topic(broker.address))
        producer = ck.Producer({"bootstrap.servers": broker.address, "transactional.id": "t"})
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(40):
            producer.produce("orders", str(number), partition=number % 4)
        producer.commit_transaction()

        def member(client_id: str) -> Any:
            consumer = ck.Consumer(
                {
                    "bootstrap.servers": broker.address,
                    "client.id": client_id,
                    "group.id": "g",
                    "group.protocol": "consumer",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe(["^ord.*"] if client_id == "b" else ["orders"])
            return consumer

        first = member("a")
        seen = poll_until([first], lambda: partitions(first) == {0, 1, 2, 3})
        first.commit(offsets=[ck.TopicPartition("orders", 0, 10)], asynchronous=False)
        second = member("b")
        seen += poll_until([first, second], lambda: len(partitions(second)) == len(partitions(first)) == 2)
        assert partitions(first) | partitions(second) == {0, 1, 2, 3}

        mine = [ck.TopicPartition("orders", each, 10) for each in partitions(second)]
        producer.begin_transaction()
        producer.send_offsets_to_transaction(mine, second.consumer_group_metadata())
        producer.commit_transaction()
        assert {each.offset for each in second.committed(mine)} == {10}

        admin = AdminClient({"bootstrap.servers": broker.address})
        described = admin.describe_consumer_groups(["g"])["g"].result(HANG_S)
        assert {each.client_id for each in described.members} == {"a", "b"}
        first.close()
        poll_until([second], lambda: partitions(second) == {0, 1, 2, 3})
        second.close()
