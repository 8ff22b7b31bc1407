"""Three Eosin brokers and their controller, killed again and again under transactional copiers: `make cluster-crash`.

    python cluster_crash.py --rounds 10 --seed 1 --folder FOLDER

A round copies three partitions of a topic to another, each by a client of another family, while one process after the
other is killed or stopped and started again. Then the copy must be the original, once each and in order; at the end
the three data directories must agree below their high watermarks (cluster.md 8 and 11). The seed decides who dies when.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic
from joined_broker import JoinedBroker
from kraft_node import QuorumController
from real_clients import confluent

COPIER: Final = Path(__file__).parent / "copier.py"
CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka")
RECORDS: Final = 3000
"""Of each partition, in a round."""
ROUND_S: Final = 300
_IN_TIME_S: Final = 60
_REPLICATED: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}
_TOPICS: Final = {"min.insync.replicas": "2", "default.replication.factor": "3"}


class Violation(AssertionError):
    """What must never happen."""


@dataclass
class Cluster:
    """One controller and three brokers, of which some may be down."""

    folder: Path
    durability: str
    brokers: list[JoinedBroker] = field(default_factory=list)
    losses: Counter[str] = field(default_factory=Counter)
    """How often what was done to whom."""

    def start(self, stack: ExitStack) -> None:
        """Everything; the stack stops it."""
        self.controller = stack.enter_context(QuorumController(self.folder / "controller", settings=_TOPICS))
        for node_id in (1, 2, 3):
            broker = JoinedBroker(
                self.folder / f"broker-{node_id}",
                self.controller,
                node_id=node_id,
                durability=self.durability,
                settings=_REPLICATED,
            )
            self.brokers.append(stack.enter_context(broker))

    @property
    def bootstrap(self) -> str:
        """Every broker."""
        return ",".join(broker.address for broker in self.brokers)

    def disturb(self, chance: random.Random) -> None:
        """Take one process away, and bring it back after a while."""
        what = chance.choices(("a broker killed", "a broker stopped", "the controller killed"), (6, 3, 1))[0]
        away_s = chance.uniform(0.2, 6)
        self.losses[what] += 1
        if what == "the controller killed":
            self.controller.kill()
            time.sleep(away_s)
            self.controller.start()
            return
        broker = chance.choice(self.brokers)
        if what == "a broker killed":
            broker.kill()
        else:
            broker.stop()
        time.sleep(away_s)
        broker.start(timeout_s=_IN_TIME_S)

    def wait_in_sync(self, topics: tuple[str, ...]) -> None:
        """Until every replica of the topics is in sync again."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        deadline = time.monotonic() + _IN_TIME_S
        while True:
            found = admin.list_topics(timeout=10).topics
            partitions = [each for name in topics if name in found for each in found[name].partitions.values()]
            if partitions and all(len(each.isrs) == len(each.replicas) for each in partitions):
                return
            if time.monotonic() > deadline:
                raise Violation("not every replica is in sync after a minute")
            time.sleep(0.3)


def _make_topic(cluster: Cluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, len(CLIENTS), 3)]).values():
        made.result(30)


def _fill(cluster: Cluster, topic: str) -> None:
    failed: list[ck.KafkaError] = []
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})

    def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(RECORDS):
        for partition in range(len(CLIENTS)):
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(60) or failed:
        raise Violation(f"the records to copy were not all taken: {failed[:1]}")


def _copy(cluster: Cluster, source: str, target: str, chance: random.Random) -> None:
    environment = {**os.environ, "EOSIN_COPIER_STUCK_AFTER_S": "30", "EOSIN_COPIER_LARGEST_BATCH": "40"}
    with (cluster.folder / "copiers.log").open("a") as log:
        copiers = [
            subprocess.Popen(
                [
                    sys.executable, str(COPIER), client, cluster.bootstrap, source, target,
                    str(partition), str(RECORDS), str(chance.randrange(2**31)),
                ],
                stderr=log,
                env=environment,
            )
            for partition, client in enumerate(CLIENTS)
        ]  # fmt: skip
        deadline = time.monotonic() + ROUND_S
        try:
            while any(copier.poll() is None for copier in copiers):
                if time.monotonic() > deadline:
                    late = [client for client, copier in zip(CLIENTS, copiers, strict=True) if copier.poll() is None]
                    raise Violation(f"after {ROUND_S} s {', '.join(late)} had not copied everything")
                time.sleep(chance.uniform(0.5, 4))
                cluster.disturb(chance)
        finally:
            for copier in copiers:
                if copier.poll() is None:
                    copier.kill()
                copier.wait(10)
    codes = [copier.returncode for copier in copiers]
    if any(codes):
        raise Violation(f"copiers ended with {codes}")


def _compare(cluster: Cluster, target: str) -> None:
    for partition in range(len(CLIENTS)):
        consumer = confluent.CLIENT.consumer(cluster.bootstrap, group=f"readers-{target}")
        consumer.assign({(target, partition): 0})
        found = [each.value for each in consumer.read(RECORDS, timeout_s=60)] + [
            each.value for each in consumer.read(1, timeout_s=1)
        ]
        consumer.close()
        if found != [b"%d" % number for number in range(RECORDS)]:
            counts = Counter(found)
            missing = [number for number in range(RECORDS) if b"%d" % number not in counts]
            doubled = [value for value, count in counts.items() if count > 1]
            what = f"missing {missing[:5]}, twice {doubled[:5]}"
            raise Violation(f"{target}-{partition} has {len(found)} records of {RECORDS}: {what}")


def _agree(cluster: Cluster) -> None:
    """After a clean stop: the directories hold the same below the high watermarks."""
    for first, second in combinations(cluster.brokers, 2):
        done = subprocess.run(
            [
                sys.executable, "-m", "eosin.broker", "compare",
                "--data-dir", str(first.data_dir), "--data-dir", str(second.data_dir),
            ],
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Violation(f"replicas differ: {done.stdout}{done.stderr}")


def run(folder: Path, *, rounds: int, seed: int, durability: str = "os") -> Counter[str]:
    """So many rounds; how often what was done to whom. Raises Violation."""
    with ExitStack() as stack:
        cluster = Cluster(folder, durability)
        cluster.start(stack)
        for number in range(rounds):
            chance = random.Random(f"{seed}-{number}")
            source, target = f"source-{number}", f"target-{number}"
            for topic in (source, target):
                _make_topic(cluster, topic)
            _fill(cluster, source)
            started = time.monotonic()
            try:
                _copy(cluster, source, target, chance)
                cluster.wait_in_sync((source, target, "__transaction_state", "__consumer_offsets"))
                _compare(cluster, target)
            except BaseException:
                print(f"round {number} of seed {seed} failed; files are in {folder}", flush=True)
                raise
            seconds = time.monotonic() - started
            print(
                f"round {number}: {seconds:.0f} s, so far {dict(cluster.losses)}, nothing lost or doubled", flush=True
            )
        for broker in cluster.brokers:
            broker.stop()
        _agree(cluster)
        for broker in cluster.brokers:  # the context stops what runs
            broker.start()
    return cluster.losses


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", choices=("os", "fsync"), default="os")
    parser.add_argument("--folder", type=Path, help="where files stay; a new temporary one by default")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="eosin-cluster-crash-"))
    try:
        losses = run(folder, rounds=options.rounds, seed=options.seed, durability=options.durability)
    except Violation as violation:
        sys.exit(f"VIOLATION: {violation}")
    print(f"{options.rounds} rounds of {len(CLIENTS) * RECORDS} records, {dict(losses)}: nothing lost or doubled")


if __name__ == "__main__":
    main()
