"""Throttle times of Eosin beside Apache Kafka's in the same situations (security.md 9.2)."""

import asyncio
from pathlib import Path

import pytest
import toolchains
from apache_kafka import ApacheKafka
from local_broker import local_broker
from quota_scenario import QuotaScenario

from eosin.client.addresses import Address

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.full]


TRIES = 3
"""The rate is of a window of time: a machine that stands still between two requests shifts it."""

Told = tuple[list[int], list[int], list[tuple[int, int]], list[tuple[int, int]]]


async def told(address: Address) -> Told:
    return (
        await QuotaScenario(address).of_produce(),
        await QuotaScenario(address).of_fetch(),
        await QuotaScenario(address).of_changes(),
        await QuotaScenario(address).of_changes(validate_only=True),
    )


def times(of: Told) -> list[int]:
    return [*of[0], *of[1], *(ms for _, ms in of[2] + of[3])]


async def test_throttle_times_are_those_of_apache_kafka_within_a_fifth(tmp_path: Path) -> None:
    with toolchains.skipped_without():
        node = ApacheKafka(tmp_path / "kafka")
    await asyncio.to_thread(node.start)
    try:
        async with local_broker(listeners=("PLAINTEXT://127.0.0.1:0",), eosin_quota_throttle_max_ms=300_000) as server:
            for left in reversed(range(TRIES)):
                ours = await told(Address.parse(server.addresses[0].rpartition("/")[2]))
                theirs = await told(Address.parse(node.address))
                assert [code for code, _ in ours[2] + ours[3]] == [code for code, _ in theirs[2] + theirs[3]]
                if times(ours) == pytest.approx(times(theirs), rel=0.2, abs=150):
                    return
                assert left, (ours, theirs)
    finally:
        await asyncio.to_thread(node.stop)
