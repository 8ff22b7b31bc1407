"""The controller without a JVM (`tests/support/fake_controller.py`) against what a real one wrote and answered."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_controller import FakeController
from image_records import image_records
from quorum_log import QuorumLog

from eosin.cluster.quorum.rules.batches import data_records, whole_batches
from eosin.cluster.quorum.rules.image import LOST_DIRECTORY, NO_LEADER, PartitionRegistration
from eosin.cluster.quorum.rules.replay import Replay
from eosin.model.features import SUPPORTED_JOINED
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import alter_partition, assign_replicas_to_dirs, schema_of
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from eosin.protocol.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest
from eosin.protocol.schemas.records.metadata import RegisterBrokerRecord, RegisterControllerRecord
from eosin.protocol.types import Message
from eosin.protocol.wire import codec

pytestmark = pytest.mark.virtual

TRANSCRIPT = Path(__file__).parent / "transcripts" / "log-from-the-start.json"
SESSION_MS = 1000

FEATURES = tuple(Feature(name, low, high) for name, (low, high) in SUPPORTED_JOINED.items())


class Cluster:
    """A fake controller, brokers that a test lets live, and a clock."""

    def __init__(self, *, elr: int = 1) -> None:
        ids = itertools.count(100)
        self.log = QuorumLog()
        features = {
            "metadata.version": 33,
            "eligible.leader.replicas.version": elr,
            "group.version": 1,
            "transaction.version": 2,
        }
        self.controller = FakeController(
            self.log, features, new_id=lambda: next(ids).to_bytes(16, "big"), session_timeout_ms=SESSION_MS
        )
        self.now_ms = 0

    def register(
        self, node_id: int, *, life: int = 1, previous_epoch: int = -1, features: Sequence[Feature] = FEATURES
    ) -> Any:
        """Broker `node_id` registers, in its life number so and so."""
        return self.controller.register(
            BrokerRegistrationRequest(
                broker_id=node_id,
                cluster_id=self.log.cluster_id,
                incarnation_id=bytes((node_id, life)).ljust(16, b"i"),
                listeners=(Listener("PLAINTEXT", "127.0.0.1", 19092, 0),),
                features=tuple(features),
                log_dirs=(directory(node_id),),
                previous_broker_epoch=previous_epoch,
            ),
            self.now_ms,
        )

    def beat(self, node_id: int, *, fence: bool = False, stop: bool = False) -> BrokerHeartbeatResponse:
        """A heartbeat of a broker that has all of the metadata."""
        return self.controller.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=node_id,
                broker_epoch=self.controller.image.brokers[node_id].epoch,
                current_metadata_offset=self.log.end_offset - 1,
                want_fence=fence,
                want_shut_down=stop,
                cordoned_log_dirs=(),
            ),
            self.now_ms,
        )

    def up(self, *node_ids: int) -> None:
        """Brokers register and are unfenced."""
        for node_id in node_ids:
            self.register(node_id)
            assert not self.beat(node_id).is_fenced

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> bytes:
        """A topic; its id."""
        topic = CreatableTopic(
            name=name,
            assignments=tuple(CreatableReplicaAssignment(index, each) for index, each in enumerate(replicas)),
            configs=tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
        )
        [created] = self.controller.create(CreateTopicsRequest((topic,)), self.now_ms).topics
        assert not created.error_code
        return created.topic_id

    def silence(self, *node_ids: int) -> None:
        """All but these live on until the sessions of these are over."""
        for _ in range(10):
            self.now_ms += SESSION_MS // 8
            for node_id, broker in self.controller.image.brokers.items():
                if node_id not in node_ids and not broker.fenced:
                    self.beat(node_id)
            self.controller.tick(self.now_ms)

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        """As it is now."""
        return self.controller.image.topics[topic].partitions[index]

    def alter(self, node_id: int, topic_id: bytes, *members: tuple[int, int], behind: int = 0) -> int:
        """Leader `node_id` asks for an ISR of (id, broker epoch), as of a partition epoch so far behind; the error."""
        topic = self.controller.image.topic_by_id(topic_id)
        assert topic is not None
        now = topic.partitions[0]
        asked = alter_partition.PartitionData(
            partition_index=0,
            leader_epoch=now.leader_epoch,
            new_isr_with_epochs=tuple(alter_partition.BrokerState(*each) for each in members),
            partition_epoch=now.partition_epoch - behind,
        )
        response = self.controller.alter_isrs(
            alter_partition.AlterPartitionRequest(
                node_id,
                self.controller.image.brokers[node_id].epoch,
                (alter_partition.TopicData(topic_id=topic_id, partitions=(asked,)),),
            ),
            self.now_ms,
        )
        return response.topics[0].partitions[0].error_code

    def assign(self, node_id: int, topic_id: bytes, place: bytes) -> None:
        """A broker tells where its replica is."""
        partitions = (assign_replicas_to_dirs.PartitionData(0),)
        directories = (
            assign_replicas_to_dirs.DirectoryData(place, (assign_replicas_to_dirs.TopicData(topic_id, partitions),)),
        )
        epoch = self.controller.image.brokers[node_id].epoch
        request = assign_replicas_to_dirs.AssignReplicasToDirsRequest(node_id, epoch, directories)
        assert not self.controller.assign(request, self.now_ms).error_code


def directory(node_id: int) -> bytes:
    return bytes((node_id,)) * 16


# The recording -------------------------------------------------------------------------------------------------------


def recorded() -> list[list[Message]]:
    """What the real controller wrote, batch by batch, but for what only the quorum itself needs."""
    batches = []
    end = 0
    for exchange in json.loads(TRANSCRIPT.read_text())["exchanges"]:
        schema = schema_of(ApiKey[exchange["api"]])
        assert schema is not None
        response = codec.interpret(schema.response_layout(exchange["version"]), bytes.fromhex(exchange["response"]))
        for batch in whole_batches(response.responses[0].partitions[0].records or b""):
            if batch.base_offset >= end:
                end = batch.end_offset
                batches.append([] if batch.is_control else [record for _, record in data_records(batch)])
    return [batch for batch in batches if batch and not isinstance(batch[0], RegisterControllerRecord)]


def written(log: QuorumLog) -> list[list[Message]]:
    batches = []
    for _, _, data in log._batches:
        [batch] = whole_batches(data)
        batches.append([record for _, record in data_records(batch)])
    return batches


def with_names_for_ids(batches: list[list[Message]]) -> list[list[object]]:
    """The records with the same name for each id, and offsets for epochs counted from the registration."""
    names: dict[bytes, str] = {}
    first_epoch = next(record.broker_epoch for batch in batches for record in batch if hasattr(record, "broker_epoch"))

    def plain(value: object) -> object:
        if isinstance(value, bytes):
            return names.setdefault(value, f"id {len(names)}")
        if isinstance(value, tuple):
            return tuple(plain(each) for each in value)
        if isinstance(value, Message):
            fields = {name: plain(each) for name, each in msgspec.structs.asdict(value).items()}
            if "broker_epoch" in fields:
                fields["broker_epoch"] = getattr(value, "broker_epoch") - first_epoch  # noqa: B009
            return type(value).__name__, fields
        return value

    return [[plain(record) for record in batch] for batch in batches]


def test_the_same_script_makes_the_records_that_apache_kafka_wrote() -> None:
    """`record_controller.record_first_start`, step by step"""
    cluster = Cluster()
    controller = cluster.controller
    (registered,) = (each for batch in recorded() for each in batch if isinstance(each, RegisterBrokerRecord))
    cluster.register(7, features=[Feature(*msgspec.structs.astuple(each)) for each in registered.features])
    cluster.beat(7)
    orders = cluster.create("orders", (7,), (7,), retention_ms="1000")
    cluster.beat(7, fence=True)
    cluster.beat(7)
    cluster.create("payments", (7,))
    controller.delete(DeleteTopicsRequest((DeleteTopicState(None, orders),)), 0)
    assert with_names_for_ids(written(cluster.log)) == with_names_for_ids(recorded())


# What tests/clusters saw with a real one, and what cluster.md tells of it ---------------------------------------------


def test_another_incarnation_waits_for_the_end_of_the_session_of_the_first() -> None:
    """cluster.md 2.3 and 2.4"""
    cluster = Cluster()
    cluster.up(1)
    assert cluster.register(1, life=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += SESSION_MS
    again = cluster.register(1, life=2)
    assert not again.error_code
    assert again.broker_epoch > cluster.log.start_offset
    assert cluster.controller.image.brokers[1].fenced


def test_the_same_incarnation_keeps_its_epoch_and_is_not_fenced() -> None:
    """KIP-866, KAFKA-16757; cluster.md 2.4"""
    cluster = Cluster()
    cluster.up(1)
    epoch = cluster.controller.image.brokers[1].epoch
    assert cluster.register(1).broker_epoch == epoch
    assert not cluster.controller.image.brokers[1].fenced


def test_a_silent_leader_is_fenced_and_another_replica_in_sync_leads() -> None:
    """cluster.md 2.7"""
    cluster = Cluster()
    cluster.up(1, 2, 3)
    cluster.create("orders", (1, 2, 3))
    cluster.silence(1)
    partition = cluster.partition("orders")
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)


@pytest.mark.parametrize(("elr", "isr"), [(0, (1,)), (1, ())], ids=["stays in the ISR", "goes to the ELR"])
def test_the_last_replica_in_sync_leads_again_when_it_is_back(elr: int, isr: tuple[int, ...]) -> None:
    """cluster.md 2.4: both columns for a clean stop"""
    cluster = Cluster(elr=elr)
    cluster.up(1)
    cluster.create("orders", (1,))
    cluster.silence(1)
    assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (NO_LEADER, isr)
    cluster.register(1, life=2, previous_epoch=cluster.controller.image.brokers[1].epoch)
    cluster.beat(1)
    assert (cluster.partition("orders").leader, cluster.partition("orders").recovering) == (1, False)


def test_with_elr_the_last_known_leader_comes_back_uncleanly_after_an_unclean_stop() -> None:
    """cluster.md 2.4, the last column"""
    cluster = Cluster()
    cluster.up(1)
    cluster.create("orders", (1,))
    cluster.silence(1)
    cluster.register(1, life=2)
    assert (cluster.partition("orders").elr, cluster.partition("orders").last_known_elr) == ((), (1,))
    cluster.beat(1)
    assert (cluster.partition("orders").leader, cluster.partition("orders").recovering) == (1, True)


def test_a_leader_is_refused_an_isr_with_another_incarnation_or_of_an_older_state() -> None:
    """cluster.md 4.11: 107 and 95"""
    cluster = Cluster()
    cluster.up(1, 2)
    topic_id = cluster.create("orders", (1, 2))
    assert cluster.alter(1, topic_id, (1, -1)) == ErrorCode.NONE
    epoch = cluster.controller.image.brokers[2].epoch
    assert cluster.alter(1, topic_id, (1, -1), (2, epoch + 1)) == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter(1, topic_id, (1, -1), (2, epoch), behind=1) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.alter(1, topic_id, (1, -1), (2, epoch)) == ErrorCode.NONE
    assert cluster.partition("orders").isr == (1, 2)


def test_a_broker_that_leads_is_let_go_with_its_second_wish_to_stop() -> None:
    """cluster.md 2.8"""
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.create("orders", (1, 2))
    assert not cluster.beat(1, stop=True).should_shut_down
    assert (cluster.partition("orders").leader, cluster.partition("orders").isr) == (2, (2,))
    cluster.beat(2)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_lost_replica_leads_no_more_and_one_that_is_found_starts_no_election() -> None:
    """cluster.md 4.18"""
    cluster = Cluster()
    cluster.up(1)
    topic_id = cluster.create("orders", (1,))
    cluster.assign(1, topic_id, LOST_DIRECTORY)
    assert cluster.partition("orders").leader == NO_LEADER
    cluster.assign(1, topic_id, directory(1))
    assert cluster.partition("orders").leader == NO_LEADER
    cluster.controller.elect(ElectLeadersRequest(topic_partitions=None), 0)
    assert cluster.partition("orders").leader == 1


def test_each_broker_gets_producer_ids_of_its_own() -> None:
    """cluster.md 6.6"""
    cluster = Cluster()
    cluster.up(1, 2)
    blocks = []
    for node_id in (1, 2, 1):
        epoch = cluster.controller.image.brokers[node_id].epoch
        answer = cluster.controller.allocate_producer_ids(AllocateProducerIdsRequest(node_id, epoch), 0)
        blocks.append((answer.producer_id_start, answer.producer_id_len))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = cluster.controller.allocate_producer_ids(AllocateProducerIdsRequest(1, epoch - 1), 0)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_snapshot_of_the_cluster_says_all_that_its_log_has_said() -> None:
    cluster = Cluster()
    cluster.up(1, 2, 3)
    cluster.create("orders", (1, 2, 3), (2, 3, 1), min_insync_replicas="2")
    cluster.silence(2, 3)
    image = cluster.controller.image
    assert cluster.partition("orders").elr

    read = Replay(is_snapshot=True)
    for offset, record in enumerate(image_records(image)):
        read.apply(offset, record)
    read.advance(image.offset, image.epoch)
    read.publish()

    assert read.published == image
    assert read.published.features == image.features
    assert read.published.configs == image.configs
    assert read.published.brokers == image.brokers
    assert read.published.topics == image.topics


def test_a_new_active_controller_fences_nobody_before_a_whole_session() -> None:
    """cluster.md 2.7"""
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.now_ms += 10 * SESSION_MS
    cluster.controller.become_active(101, cluster.now_ms)
    cluster.controller.tick(cluster.now_ms + SESSION_MS - 1)
    assert not any(broker.fenced for broker in cluster.controller.image.brokers.values())
    cluster.controller.tick(cluster.now_ms + SESSION_MS)
    assert any(broker.fenced for broker in cluster.controller.image.brokers.values())
