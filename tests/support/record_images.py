"""Records the images that Apache Kafka's own classes make of metadata records: `tests/cluster/quorum/images.json`.

    .venv/bin/python tests/support/record_images.py

Records of every kind that a log may hold are drawn at random, so that the two replays agree for a reason. Needs `java`
17 with its compiler; the jars come from Maven once (`maven.py`).
"""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import maven
from apache_kafka import PROJECT

from eosin.protocol.records.metadata import encode_metadata_record
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message

PROGRAM: Final = Path(__file__).parent / "java" / "metadata-images" / "MetadataImages.java"
RECORDING: Final = Path(__file__).resolve().parents[1] / "cluster" / "quorum" / "images.json"
_SEEDS: Final = range(8)
_ROUNDS: Final = 60


class Drawn:
    """A log in the making: what there is, so that records that follow can speak of it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._brokers: dict[int, int] = {}
        self._topics: dict[bytes, tuple[str, dict[int, int]]] = {}
        self._acls: list[bytes] = []

    def records(self) -> Iterator[Message]:
        """The whole log."""
        yield records.FeatureLevelRecord("metadata.version", 33)
        for node_id in range(1, 5):
            yield self._broker(node_id)
        makers = (
            *(self._topic, self._change, self._change, self._change, self._change, self._broker_change),
            *(self._config, self._remove, self._clear, self._quota, self._scram, self._acl, self._rest),
        )
        for _ in range(_ROUNDS):
            yield from self._random.choice(makers)()

    def _broker(self, node_id: int) -> Message:
        self._brokers[node_id] = self._random.randrange(10**6)
        return records.RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=self._uuid(),
            broker_epoch=self._brokers[node_id],
            end_points=(records.BrokerEndpoint("PLAINTEXT", f"host-{node_id}", 9092, 0),),
            features=(records.BrokerFeature("metadata.version", 25, 30),),
            rack=self._random.choice((None, "r")),
            fenced=self._random.random() < 0.5,
            log_dirs=(self._uuid(),),
            cordoned_log_dirs=self._random.choice((None, ())),
        )

    def _broker_change(self) -> Iterator[Message]:
        node_id = self._random.choice(list(self._brokers))
        if self._random.random() < 0.2:
            yield self._broker(node_id)
            return
        yield records.BrokerRegistrationChangeRecord(
            node_id,
            self._brokers[node_id],
            fenced=self._random.choice((-1, 0, 1)),
            in_controlled_shutdown=self._random.choice((0, 0, 1)),
            log_dirs=self._random.choice(((), (self._uuid(),))),
            cordoned_log_dirs=self._random.choice((None, (), (self._uuid(),))),
        )

    def _topic(self) -> Iterator[Message]:
        topic_id = self._uuid()
        name = f"topic-{len(self._topics)}-{topic_id.hex()[:4]}"
        self._topics[topic_id] = name, {}
        yield records.TopicRecord(name, topic_id)
        for number in range(self._random.randrange(4)):
            replicas = self._nodes(3)
            self._topics[topic_id][1][number] = 3
            yield records.PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas[: self._random.randrange(1, 4)],
                leader=self._random.choice((-1, replicas[0])),
                leader_recovery_state=self._random.choice((0, 1)),
                leader_epoch=self._random.randrange(100),
                partition_epoch=self._random.randrange(100),
                directories=tuple(self._uuid() for _ in replicas),
                eligible_leader_replicas=self._random.choice((None, (), replicas[:1])),
                last_known_elr=self._random.choice((None, (), replicas[1:])),
            )

    def _change(self) -> Iterator[Message]:
        topic_id = self._some_topic()
        if topic_id is None or not self._topics[topic_id][1]:
            return
        number = self._random.choice(list(self._topics[topic_id][1]))
        before = count = self._topics[topic_id][1][number]
        replicas = directories = None
        if self._random.random() < 0.3:
            count = self._topics[topic_id][1][number] = self._random.randrange(1, 5)
            replicas = self._nodes(count)
        if self._random.random() < 0.3 or count != before:
            directories = tuple(self._uuid() for _ in range(count))
        yield records.PartitionChangeRecord(
            partition_id=number,
            topic_id=topic_id,
            isr=self._random.choice((None, self._nodes(2), self._nodes(1))),
            leader=self._random.choice((-2, -2, -1, 1, 2)),
            replicas=replicas,
            removing_replicas=self._random.choice((None, (), self._nodes(1))),
            adding_replicas=self._random.choice((None, (), self._nodes(1))),
            leader_recovery_state=self._random.choice((-1, 0, 1)),
            directories=directories,
            eligible_leader_replicas=self._random.choice((None, (), self._nodes(1))),
            last_known_elr=self._random.choice((None, (), self._nodes(1))),
        )

    def _clear(self) -> Iterator[Message]:
        topic_id = self._some_topic()
        if topic_id is not None:
            yield records.ClearElrRecord(self._random.choice(("", self._topics[topic_id][0])))

    def _remove(self) -> Iterator[Message]:
        topic_id = self._some_topic()
        if topic_id is not None:
            del self._topics[topic_id]
            yield records.RemoveTopicRecord(topic_id)

    def _config(self) -> Iterator[Message]:
        topic_id = self._some_topic()
        name = "" if topic_id is None else self._topics[topic_id][0]
        kind, resource = self._random.choice(((2, name), (2, name), (4, ""), (4, "1"), (16, "metrics"), (32, "group")))
        if resource or kind == 4:
            value = self._random.choice((None, "1", "2", ""))
            yield records.ConfigRecord(kind, resource, self._random.choice(("a.b", "c.d")), value)

    def _quota(self) -> Iterator[Message]:
        entities = (records.EntityData("user", self._random.choice((None, "u", "v"))),)
        if self._random.random() < 0.5:
            entities = (*entities, records.EntityData("client-id", self._random.choice((None, "c"))))
        yield records.ClientQuotaRecord(entities, "producer_byte_rate", self._random.randrange(9) + 0.5, False)

    def _scram(self) -> Iterator[Message]:
        user, mechanism = self._random.choice(("alice", "bob")), self._random.choice((1, 2))
        yield records.UserScramCredentialRecord(user, mechanism, b"salt", b"stored", b"server", 4096)
        if self._random.random() < 0.3:
            yield records.RemoveUserScramCredentialRecord(user, mechanism)

    def _acl(self) -> Iterator[Message]:
        if self._acls and self._random.random() < 0.4:
            yield records.RemoveAccessControlEntryRecord(self._acls.pop())
            return
        self._acls.append(self._uuid())
        yield records.AccessControlEntryRecord(self._acls[-1], 2, "orders", 3, "User:alice", "*", 3, 3)

    def _rest(self) -> Iterator[Message]:
        yield records.NoOpRecord()
        yield records.ProducerIdsRecord(1, 2, self._random.randrange(10**6))
        yield records.FeatureLevelRecord("transaction.version", self._random.choice((0, 1, 2)))
        yield records.RegisterControllerRecord(self._random.choice((1000, 1001)), self._uuid())
        if self._random.random() < 0.3:
            yield records.UnregisterControllerRecord(self._random.choice((1000, 1001, 1002)))

    def _some_topic(self) -> bytes | None:
        return self._random.choice(list(self._topics)) if self._topics else None

    def _nodes(self, count: int) -> tuple[int, ...]:
        return tuple(self._random.sample(range(1, 5), count))

    def _uuid(self) -> bytes:
        return self._random.randbytes(16)


def record() -> Path:
    """Write the file; return its path."""
    newest = {schema.struct: schema.versions[-1] for schema in records.TYPES.values()}
    jars, java = maven.jars(PROJECT), maven.java("Apache Kafka's classes")
    images = []
    for seed in _SEEDS:
        log = [encode_metadata_record(each, newest[type(each)]).hex() for each in Drawn(seed).records()]
        command = [java, "-cp", f"{jars}/*", str(PROGRAM)]
        done = subprocess.run(
            command,
            input="".join(f"{line}\n\n" for line in log),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            raise AssertionError(f"seed {seed}: {done.stderr}")
        images.append({"seed": seed, "log": log, "image": done.stdout.split()})
    content = {
        "release": maven.version(PROJECT),
        "recorded_by": f"tests/support/{Path(__file__).name}",
        "images": images,
    }
    RECORDING.write_text(json.dumps(content, indent=1) + "\n")
    return RECORDING


if __name__ == "__main__":
    print(record())
