"""Unmodified clients over a quota: who listens is told, and who does not is held to it too (security.md 5.3)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from broker_process import BrokerProcess
from confluent_kafka import Producer
from waiting import HANG_S

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.quotas import QuotaAdmin

pytestmark = pytest.mark.slow

RATE = 200_000
PAYLOAD = bytes(50_000)
BEYOND = 600_000
"""Bytes beyond the ten seconds' worth that may be used at once."""
COUNT = (10 * RATE + BEYOND) // len(PAYLOAD)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker where each client id has a quota."""

    async def limit(address: str) -> None:
        async with Client(address) as client:
            await Admin(client).create_topic("orders", 1)
            await QuotaAdmin(client).alter({"client-id": None}, {"producer_byte_rate": RATE})

    with BrokerProcess(tmp_path_factory.mktemp("quotas") / "data", durability="memory") as broker:
        asyncio.run(limit(broker.address))
        yield broker.address


def test_librdkafka_reports_its_throttling_and_is_held(limited: str) -> None:
    told: list[float] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": limited,
        "client.id": "librdkafka",
        "batch.size": len(PAYLOAD) + 1000,
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    producer = Producer(settings)
    began = time.monotonic()
    for _ in range(COUNT):
        producer.produce("orders", PAYLOAD)
    assert producer.flush(HANG_S) == 0
    assert time.monotonic() - began > BEYOND / RATE * 0.5
    assert max(told) > 0


async def test_aiokafka_that_does_not_listen_is_held(limited: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=limited, client_id="aiokafka", max_batch_size=len(PAYLOAD) + 1000)
    await producer.start()
    try:
        began = time.monotonic()
        for _ in range(COUNT):
            await producer.send_and_wait("orders", PAYLOAD)
        assert time.monotonic() - began > BEYOND / RATE * 0.5
    finally:
        await producer.stop()
