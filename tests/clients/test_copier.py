"""Copiers of three client libraries in processes of their own, random aborts, and a broker that restarts meanwhile."""

import subprocess
import sys
import time
from pathlib import Path

import copier
import pytest
from broker_process import BrokerProcess
from real_clients import confluent
from scenario import Scenario

RECORDS = 50_000
COPIERS = ("confluent-kafka", "confluent-kafka", "kafka-python", "aiokafka")


def _fill(scenario: Scenario, topic: str) -> int:
    """Write the records over the topic's partitions; how many each got."""
    producer = scenario.producer()
    for number in range(RECORDS):
        producer.send(topic, b"%d" % number, partition=number % len(COPIERS))
    producer.flush()
    return RECORDS // len(COPIERS)


@pytest.mark.timeout(280)
def test_copiers_move_each_record_exactly_once_over_a_clean_restart(data_dir: Path) -> None:
    with BrokerProcess(data_dir) as broker:
        scenario = Scenario(confluent.CLIENT, broker.address)
        source, target = scenario.topic(len(COPIERS)), scenario.topic(len(COPIERS))
        each = _fill(scenario, source)
        running = [
            subprocess.Popen(
                [sys.executable, copier.__file__, name, broker.address, source, target, str(index), str(each), "7"],
                stderr=subprocess.PIPE,
                text=True,
            )
            for index, name in enumerate(COPIERS)
        ]
        try:
            _wait_for_output(scenario, target, RECORDS // 4)
            assert broker.stop() == 0
            broker.start()
            for process in running:
                _, errors = process.communicate(timeout=200)
                assert process.returncode == 0, errors
        finally:
            for process in running:
                process.kill()
                process.wait(10)
        reader = scenario.reader(target, len(COPIERS))
        records = reader.read(RECORDS, timeout_s=60)
        assert reader.read(1, timeout_s=1) == []
        for partition in range(len(COPIERS)):
            copied = [int(record.value or b"") for record in records if record.partition == partition]
            assert copied == list(range(partition, RECORDS, len(COPIERS)))
        scenario.close()


def _wait_for_output(scenario: Scenario, topic: str, offsets: int, timeout_s: float = 60) -> None:
    """Until the topic's partitions hold so many offsets between them."""
    reader = scenario.consumer()
    deadline = time.monotonic() + timeout_s
    while sum(reader.end_offset(topic, partition) for partition in range(len(COPIERS))) < offsets:
        assert time.monotonic() < deadline, "the copiers do not get on"
        time.sleep(0.05)
