"""Transactional copiers of every client family over three brokers: kills of leaders and coordinators, rolling restarts.

No client may end with an error, and the output is the input, once each. What kafkajs leaves to its application is no
end: COORDINATOR_LOAD_IN_PROGRESS, and a broker that refuses connections (docs/clients/kafkajs.md).
"""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import copier
import own_client
import pytest
from real_clients import aio, confluent, franz_go, java, kafka_python, kafkajs
from real_clients.base import Client, Consumer
from real_clients.remote import remote
from three_brokers import ThreeBrokers
from toolchains import skipped_without
from waiting import HANG_S
from wire import unique

from eosin.client.client import CoordinatorType

FAMILIES = (
    own_client.CLIENT,
    confluent.CLIENT,
    kafka_python.CLIENT,
    aio.CLIENT,
    java.CLIENT,
    java.CLIENT_3,
    franz_go.CLIENT,
    kafkajs.CLIENT,
)
MAY_HANG = (confluent.CLIENT, kafka_python.CLIENT)
"""They forget a request to a coordinator that goes away, with any broker (docs/clients/python.md): a process that hangs
is replaced."""
LEFT_BY_KAFKAJS = re.compile("retriable|KafkaJSConnectionError")
CHUNK = 300
"""Records that each copier has to move after each disturbance begins."""
_IN_TIME_S = 180
"""A group waits 60 s for a member of kafkajs that has gone."""
_SETTINGS = {
    "EOSIN_COPIER_STUCK_AFTER_S": "20",
    "EOSIN_COPIER_LARGEST_BATCH": "20",
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with skipped_without():
        made = ThreeBrokers(tmp_path_factory.mktemp("three"), durability="fsync")
    with made:
        yield made


@dataclass
class Copying:
    """A copier of each family, each with a source and a target of its own."""

    cluster: ThreeBrokers
    families: Sequence[Client]
    folder: Path
    total: int
    fed: int = 0
    names: dict[str, str] = field(default_factory=dict)
    """Family to the name of its source."""

    def create(self) -> None:
        for client in self.families:
            self.names[client.name] = unique("source")
        topics = [*self.names.values(), *map(self.target, self.families)]
        for topic in topics:
            self.cluster.create(topic)
        self._feeder = confluent.CLIENT.producer(self.cluster.address)
        self._readers: dict[str, Consumer] = {}
        self._copied: dict[str, list[int]] = {}
        for client in self.families:
            reader = confluent.CLIENT.consumer(self.cluster.address, group=unique("readers"))
            reader.assign({(self.target(client), 0): 0})
            self._readers[client.name], self._copied[client.name] = reader, []

    def target(self, client: Client) -> str:
        return f"{self.names[client.name]}-copied"

    def leader_of_its_target(self, client: Client) -> int:
        return self.cluster.leader(self.target(client), 0)

    def its_transaction_coordinator(self, client: Client) -> int:
        return self.cluster.coordinator(f"copy-{self.names[client.name]}-0")

    def its_group_coordinator(self, client: Client) -> int:
        return self.cluster.coordinator(f"copy-{self.names[client.name]}-0", CoordinatorType.GROUP)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The copiers as processes; at the end each has copied everything, and none has begun anew."""
        processes = {}
        for client in self.families:
            source, target = self.names[client.name], self.target(client)
            command = [sys.executable, copier.__file__, client.name, self.cluster.address, source, target, "0"]
            with self._log(client).open("w") as log:
                processes[client.name] = subprocess.Popen(
                    [*command, str(self.total), "7"], stderr=log, env={**os.environ, **_SETTINGS}
                )
        try:
            yield
            for client in self.families:
                code = processes[client.name].wait(_IN_TIME_S)
                assert code == 0, self._log(client).read_text()
        finally:
            for process in processes.values():
                process.kill()
                process.wait(HANG_S)
            for reader in self._readers.values():
                reader.close()

    def feed(self) -> None:
        """More to copy."""
        for number in range(self.fed, self.fed + CHUNK):
            for source in self.names.values():
                self._feeder.send(source, b"%d" % number)
        self._feeder.flush()
        self.fed += CHUNK

    def wait_copied(self) -> None:
        """Until what was fed is copied, exactly; meanwhile nobody has begun anew."""
        deadline = time.monotonic() + _IN_TIME_S
        for client in self.families:
            copied = self._copied[client.name]
            while len(copied) < self.fed:
                late = time.monotonic() > deadline
                assert not late, f"{client.name} has {len(copied)} of {self.fed}\n{self._log(client).read_text()}"
                found = self._readers[client.name].read(self.fed - len(copied), timeout_s=1)
                copied += [int(each.value or b"") for each in found]
            assert copied == list(range(self.fed)), client.name
        for client in self.families:
            said = self._log(client).read_text()
            failures = [line for line in said.splitlines() if "starts again after" in line]
            left = [line for line in failures if client is not kafkajs.CLIENT or not LEFT_BY_KAFKAJS.search(line)]
            assert not left, f"{client.name}: {said}"
            assert client in MAY_HANG or "is stuck" not in said, f"{client.name}: {said}"

    def _log(self, client: Client) -> Path:
        return self.folder / f"{client.name}.log"


def copying(cluster: ThreeBrokers, families: Sequence[Client], folder: Path, chunks: int) -> Copying:
    """Ready to run; the programs of other languages are built."""
    with skipped_without():
        for client in families:
            if process := remote(client):
                process.start()
    made = Copying(cluster, families, folder, chunks * CHUNK)
    made.create()
    return made


@pytest.mark.full
@pytest.mark.long
def test_no_copier_ends_when_leaders_and_coordinators_are_killed(cluster: ThreeBrokers, tmp_path: Path) -> None:
    work = copying(cluster, FAMILIES, tmp_path, 1 + len(FAMILIES))
    victims = (work.leader_of_its_target, work.its_transaction_coordinator, work.its_group_coordinator)
    with work.running():
        work.feed()
        work.wait_copied()
        for client, victim in zip(FAMILIES, itertools.cycle(victims), strict=False):
            lost = victim(client)
            cluster.nodes[lost].kill()
            work.feed()
            work.wait_copied()
            cluster.restart(lost)


@pytest.mark.full
@pytest.mark.long
def test_no_copier_notices_a_rolling_restart(cluster: ThreeBrokers, tmp_path: Path) -> None:
    work = copying(cluster, FAMILIES, tmp_path, 1 + len(cluster.nodes))
    with work.running():
        work.feed()
        work.wait_copied()
        for node_id, node in cluster.nodes.items():
            assert node.stop() == 0
            work.feed()
            cluster.restart(node_id)
            work.wait_copied()
