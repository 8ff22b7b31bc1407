"""Every kind of record of a broker alone is told to the quorum that adopts it, or known to have no place there."""

from typing import Final, NamedTuple

import pytest

from eosin.cluster.metadata.adoption import topic_records
from eosin.cluster.metadata.image import MetadataImage
from eosin.cluster.quorum.rules.image import QuotaEntity
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.names import TRANSACTION_STATE_TOPIC
from eosin.protocol.schemas.records import cluster_metadata as alone
from eosin.protocol.schemas.records import metadata as told
from eosin.protocol.types import Message

NODE: Final = 1
ID: Final = b"i" * 16
DIRECTORY: Final = b"d" * 16
EPOCH: Final = 9


class Kind(NamedTuple):
    """A record of a broker alone, and those that the quorum has in its place."""

    key: Message
    value: Message
    records: tuple[Message, ...]


def partition(number: int) -> told.PartitionRecord:
    return told.PartitionRecord(
        partition_id=number,
        topic_id=ID,
        replicas=(NODE,),
        isr=(NODE,),
        leader=-1,
        leader_epoch=EPOCH,
        partition_epoch=0,
        directories=(DIRECTORY,),
        last_known_elr=(NODE,),
    )


KINDS: Final = (
    Kind(
        alone.TopicKey("orders"),
        alone.TopicRecord(ID, 2, (alone.TopicConfig("retention.ms", "5"),)),
        (
            told.TopicRecord("orders", ID),
            told.ConfigRecord(2, "orders", "retention.ms", "5"),
            partition(0),
            partition(1),
        ),
    ),
    Kind(
        alone.TopicKey(TRANSACTION_STATE_TOPIC),
        alone.TopicRecord(ID, 1, (alone.TopicConfig("delete.retention.ms", "5"),)),
        (told.TopicRecord(TRANSACTION_STATE_TOPIC, ID), partition(0)),
    ),
    Kind(alone.ProducerIdsKey(), alone.ProducerIdsRecord(3000), (told.ProducerIdsRecord(NODE, -1, 3000),)),
    # The number of starts is in the leader epochs (`_next_leader_epoch`); the quorum has levels of its own, which
    # adoption compares with what the groups of the directory need.
    Kind(alone.StartKey(), alone.StartRecord(4, (alone.FeatureLevel("group.version", 1),), 2), ()),
    Kind(
        alone.BrokerConfigsKey(-1),
        alone.BrokerConfigsRecord((alone.BrokerSetting("log.retention.ms", "7"),)),
        (told.ConfigRecord(4, "", "log.retention.ms", "7"),),
    ),
    Kind(
        alone.BrokerConfigsKey(NODE),
        alone.BrokerConfigsRecord((alone.BrokerSetting("log.retention.ms", "8"),)),
        (told.ConfigRecord(4, "1", "log.retention.ms", "8"),),
    ),
    Kind(
        alone.ScramCredentialKey("alice", 2),
        alone.ScramCredentialRecord(b"salt", b"stored", b"server", 4096),
        (told.UserScramCredentialRecord("alice", 2, b"salt", b"stored", b"server", 4096),),
    ),
    Kind(
        alone.ScramSecretKey(),
        alone.ScramSecretRecord(b"\xaa\xbb"),
        (told.ConfigRecord(4, "", "eosin.scram.secret", "aabb"),),
    ),
    Kind(
        alone.AclKey(ID),
        alone.AclRecord(2, "orders", 3, "User:a", "*", 4, 3),
        (told.AccessControlEntryRecord(ID, 2, "orders", 3, "User:a", "*", 4, 3),),
    ),
    Kind(
        alone.ClientQuotaKey(
            (alone.QuotaKeyPart("client-id", "app"), alone.QuotaKeyPart("user", None)), "producer_byte_rate"
        ),
        alone.ClientQuotaValue(1024.5),
        (
            told.ClientQuotaRecord(
                (told.EntityData("client-id", "app"), told.EntityData("user", None)), "producer_byte_rate", 1024.5
            ),
        ),
    ),
    Kind(
        alone.ClientQuotaKey((alone.QuotaKeyPart("ip", "10.0.0.1"),), "connection_creation_rate"),
        alone.ClientQuotaValue(5.0),
        (told.ClientQuotaRecord((told.EntityData("ip", "10.0.0.1"),), "connection_creation_rate", 5.0),),
    ),
    Kind(
        alone.ConfigKey(32, "g", "consumer.session.timeout.ms"),
        alone.ConfigValue("50000"),
        (told.ConfigRecord(32, "g", "consumer.session.timeout.ms", "50000"),),
    ),
)

FIELDS: Final = {
    alone.TopicRecord: {"topic_id", "partitions", "configs"},
    alone.ProducerIdsRecord: {"next_producer_id"},
    alone.StartRecord: {"start_count", "levels", "level_changes"},
    alone.BrokerConfigsRecord: {"configs"},
    alone.ScramCredentialRecord: {"salt", "stored_key", "server_key", "iterations"},
    alone.ScramSecretRecord: {"secret"},
    alone.AclRecord: {
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    },
    alone.ClientQuotaValue: {"value"},
    alone.ConfigValue: {"value"},
}
"""The fields that adoption knows, of each kind."""


def told_of(*kinds: Kind) -> list[Message]:
    image = MetadataImage()
    for each in kinds:
        image.apply(each.key, each.value)
    return topic_records(image, node_id=NODE, directory_id=DIRECTORY, leader_epoch=EPOCH)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(type(kind.key).__name__))
def test_a_quorum_is_told_of_each_kind_of_record(kind: Kind) -> None:
    assert told_of(kind) == list(kind.records)


def test_no_kind_of_record_and_no_field_is_forgotten_by_adoption() -> None:
    """A new kind, or field, belongs into the tables above, and into `topic_records`."""
    assert {type(each.key) for each in KINDS} == {kind.key.struct for kind in alone.KINDS}
    found = {kind.value.struct: set(kind.value.struct.__struct_fields__) for kind in alone.KINDS}
    assert found == FIELDS


def test_a_broker_of_the_quorum_counts_with_the_same_quotas() -> None:
    quotas = [each for each in KINDS if isinstance(each.key, alone.ClientQuotaKey)]
    replay = Replay()
    for offset, record in enumerate(told_of(*quotas)):
        replay.apply(offset, record)
    replay.advance(offset, epoch=1)
    assert dict(replay.publish().after.quotas) == {
        (QuotaEntity("client-id", "app"), QuotaEntity("user", None)): {"producer_byte_rate": 1024.5},
        (QuotaEntity("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
