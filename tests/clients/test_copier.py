"""Copiers of client libraries in processes of their own, random aborts, and a broker that restarts meanwhile."""

import os
import subprocess
import sys

import copier
from asked_broker import KILLED, Restartable
from real_clients import confluent, java
from real_clients.base import read_all
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S, wait_until

PYTHON = ("confluent-kafka", "confluent-kafka", "kafka-python", "aiokafka")
JAVA = (java.CLIENT.name, java.CLIENT.name, java.CLIENT_3.name)
SLOW_START = {"EOSIN_COPIER_STUCK_AFTER_S": "20"}
"""Each copier has a Java process of its own."""


def _fill(scenario: Scenario, topic: str, records: int, partitions: int) -> int:
    """Write the records over the topic's partitions; how many each got."""
    producer = scenario.producer()
    for number in range(records):
        producer.send(topic, b"%d" % number, partition=number % partitions)
    producer.flush()
    return records // partitions


def test_copiers_move_each_record_exactly_once_over_a_clean_restart(restartable: Restartable) -> None:
    _copied_exactly_once(restartable, PYTHON, 20_000, {})


def test_java_copiers_move_each_record_exactly_once_over_a_restart_and_a_kill(restartable: Restartable) -> None:
    with skipped_without():
        for client in (java.CLIENT, java.CLIENT_3):
            client.start()
    _copied_exactly_once(restartable, JAVA, 12_000, SLOW_START, kill=True)


def _copied_exactly_once(
    broker: Restartable, copiers: tuple[str, ...], records: int, settings: dict[str, str], *, kill: bool = False
) -> None:
    scenario = Scenario(confluent.CLIENT, broker.address)
    source, target = scenario.topic(len(copiers)), scenario.topic(len(copiers))
    each = _fill(scenario, source, records, len(copiers))
    running = [
        subprocess.Popen(
            [sys.executable, copier.__file__, name, broker.address, source, target, str(index), str(each), "7"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )
        for index, name in enumerate(copiers)
    ]
    try:
        _wait_for_output(scenario, target, len(copiers), records // 4)
        broker.restart()
        if kill:
            _wait_for_output(scenario, target, len(copiers), records // 2)
            broker.restart(KILLED)
        for process in running:
            _, errors = process.communicate(timeout=200)
            assert process.returncode == 0, errors
    finally:
        for process in running:
            process.kill()
            process.wait(HANG_S)
    reader = scenario.reader(target, len(copiers))
    read = read_all(reader, records)
    for partition in range(len(copiers)):
        copied = [int(record.value or b"") for record in read if record.partition == partition]
        assert copied == list(range(partition, records, len(copiers)))
    scenario.close()


def _wait_for_output(scenario: Scenario, topic: str, partitions: int, offsets: int) -> None:
    """Until the topic's partitions hold so many offsets between them."""
    reader = scenario.consumer()
    wait_until(lambda: sum(reader.end_offset(topic, partition) for partition in range(partitions)) >= offsets)
