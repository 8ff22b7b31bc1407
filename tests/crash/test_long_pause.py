"""A broker that stands still for longer than sessions, requests and transactions may take, under unmodified clients.

Short pauses, on both loops, are for `tests/node/test_pause.py`.
"""

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import aio, confluent, kafka_python
from real_clients.base import ClientRefused, Consumer, Producer, Received, read_all
from scenario import Scenario
from waiting import HANG_S, wait_until
from wire import Wire
from wire_group import describe

PAUSE_S = 40.0
SESSION_TIMEOUT_MS = 10_000
TRANSACTION_TIMEOUT_MS = 30_000
CLIENTS = (confluent.CLIENT, kafka_python.CLIENT, aio.CLIENT)

pytestmark = [pytest.mark.slow, pytest.mark.long]


async def group_of(address: str, group: str) -> tuple[str, set[str]]:
    """Its state and the ids of its members."""
    wire = await Wire.open(address)
    described = await describe(wire, group)
    await wire.close()
    return described.group_state, {member.member_id for member in described.members}


def stable_members_of(address: str, group: str) -> set[str]:
    """The members, once all have joined: librdkafka joins again by itself when it hears nothing for a session."""
    found: list[set[str]] = []

    def is_stable() -> bool:
        state, members = asyncio.run(group_of(address, group))
        found.append(members)
        return state == "Stable"

    wait_until(is_stable, every_s=0.2)
    return found[-1]


def commit(producer: Producer) -> None:
    """Commit, and call it again when it says so: the adapter of librdkafka gives an answer 30 s."""
    for _ in range(3):
        try:
            producer.commit()
            return
        except ClientRefused as refused:
            if "did not go away" not in str(refused):
                raise
    raise AssertionError("it is not committed")


def read_by(members: list[Consumer], count: int) -> list[bytes]:
    """What the members of a group read together, in order of the values; they commit how far they came."""
    found: list[Received] = []
    deadline = time.monotonic() + HANG_S
    while len(found) < count and time.monotonic() < deadline:
        for member in members:
            found += member.read(count, timeout_s=0.5)
    for each in found:
        owner = next(member for member in members if (each.topic, each.partition) in member.assignment())
        owner.commit({(each.topic, each.partition): each.offset + 1})
    return sorted(each.value or b"" for each in found)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_pause_of_forty_seconds_costs_no_transaction_and_no_member(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in (kafka_python, aio):
        monkeypatch.setattr(client, "SESSION_TIMEOUT_MS", SESSION_TIMEOUT_MS)
    settings = {"eosin.event.loop": loop, "group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path / "data", durability="fsync", settings=settings) as broker:
        scenarios = [Scenario(client, broker.address) for client in CLIENTS]
        topic, group = scenarios[0].topic(2), scenarios[0].name("readers")
        names = [each.name("tx") for each in scenarios]
        producers = [
            each.transactional(name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            for each, name in zip(scenarios, names, strict=True)
        ]
        for number, producer in enumerate(producers):  # a whole one first
            producer.begin()
            producer.send(topic, b"first of %d" % number, partition=number % 2)
            producer.commit()
        members = [each.consumer(group=group) for each in scenarios[1:]]
        for member in members:
            member.subscribe([topic])
        assert read_by(members, 3) == [b"first of %d" % number for number in range(3)]
        before = stable_members_of(broker.address, group)
        assert len(before) == 2
        for number, producer in enumerate(producers):
            producer.begin()
            producer.send(topic, b"second of %d" % number, partition=number % 2)
            producer.flush()

        with ThreadPoolExecutor(len(producers)) as pool:
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                ends = [pool.submit(commit, producer) for producer in producers]
                time.sleep(PAUSE_S)
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            for number, end in enumerate(ends):
                if CLIENTS[number] is kafka_python.CLIENT:
                    # It gives a producer up when one answer takes longer than its request_timeout_ms of 30 s. The
                    # commit was sent in time all the same, and counts.
                    with pytest.raises(ClientRefused, match="RequestTimedOut"):
                        end.result(HANG_S)
                    producers[number] = scenarios[number].transactional(names[number])
                else:
                    end.result(HANG_S)
        assert read_by(members, 3) == [b"second of %d" % number for number in range(3)]
        assert stable_members_of(broker.address, group) == before
        for number, producer in enumerate(producers):
            producer.begin()
            producer.send(topic, b"third of %d" % number, partition=number % 2)
            producer.commit()
        assert read_by(members, 3) == [b"third of %d" % number for number in range(3)]
        reader = scenarios[2].reader(topic, 2)
        assert len(read_all(reader, 9)) == 9
        for scenario in scenarios:
            scenario.close()
        assert "Traceback" not in broker.log
