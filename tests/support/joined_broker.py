"""An Eosin broker that has joined the cluster of a controller of Apache Kafka, in a process of its own."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess
from kraft_node import QuorumController
from waiting import HANG_S

from eosin.cli import compare

QUICK: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "eosin.connection.refused.delay.ms": "0",
}
"""Times that make failures quick to notice, and internal topics that one broker can hold."""


def replicated(brokers: int, *, partitions: int = 2, min_isr: int = 1) -> dict[str, str]:
    """Settings of a cluster of so many brokers: the internal topics are on all of them, so that no broker that goes
    takes a part of them along. They have few partitions, since each is made, led and followed."""
    return {
        "offsets.topic.num.partitions": str(partitions),
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.num.partitions": str(partitions),
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": str(min_isr),
        "share.coordinator.state.topic.num.partitions": str(partitions),
        "share.coordinator.state.topic.replication.factor": str(brokers),
        "share.coordinator.state.topic.min.isr": str(min_isr),
    }


def stop_and_compare(first: "JoinedBroker", second: "JoinedBroker") -> None:
    """Stop both; their logs have equal bytes, as far as both are committed."""
    for each in (first, second):
        assert each.stop() == 0
    assert compare.main([f"--data-dir={each.data_dir}" for each in (first, second)]) == 0


class JoinedBroker(BrokerProcess):
    """`eosin serve` as broker `node_id` of the controller's cluster. Its directory is formatted at its first start."""

    def __init__(
        self,
        data_dir: Path,
        controller: QuorumController,
        *,
        node_id: int,
        durability: str = "os",
        settings: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        joined = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": controller.address,
            "controller.listener.names": "CONTROLLER",
            **QUICK,
            **(settings or {}),
        }
        super().__init__(data_dir, durability=durability, settings=joined, port=port)
        self.node_id = node_id
        self.options = ("--cluster-id", controller.cluster_id)

    def refusal(self) -> str:
        """Start it where it cannot start: it ends with exit code 2. What it has said."""
        self.launch()
        assert self._process is not None
        try:
            code = self._process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the broker was not refused within {HANG_S} s:\n{self.log}") from None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        assert code == 2, f"exit code {code}:\n{self.log}"
        return self.log
