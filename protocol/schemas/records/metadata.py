"""Records of `__cluster_metadata`, the log of an Apache Kafka quorum: every type there is in 4.4 (cluster.md 3.8).

`TYPES` has them by their number on the wire; 6, 13 and 16 do not exist. All versions are flexible.
`protocol/records/metadata.py` has the frame around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int8, Int16, Int32, Int64, Message, RecordSchema, SecretMessage, Tag, Uint16, Uuid


class BrokerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(Message):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterBrokerRecord(Message):
    """A registration, whole: it replaces the one before."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[bool, "2+"] = False
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, "1+"] = False
    log_dirs: Annotated[tuple[Uuid, ...], "3+", Tag(0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, "4+", Tag(1)] = None  # None: the broker has not said yet


class UnregisterBrokerRecord(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class TopicRecord(Message):
    name: str = ""
    topic_id: Uuid = ZERO_UUID


class PartitionRecord(Message):
    """A partition, whole."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: tuple[Int32, ...] = ()
    isr: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0  # 0 RECOVERED, 1 RECOVERING
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[tuple[Uuid, ...], "1+"] = ()  # in the order of replicas
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, "2+", Tag(1)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, "2+", Tag(2)] = None


class ConfigRecord(Message):
    resource_type: Int8 = 0  # 2 topic, 4 broker, 16 client metrics, 32 group
    resource_name: str = ""
    name: str = ""
    value: str | None = None  # None deletes the setting


class PartitionChangeRecord(Message):
    """Changes of a partition; None leaves a field as it is (cluster.md 3.9)."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Annotated[tuple[Int32, ...] | None, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = -2  # -2: as before, in the same epoch; -1: none
    replicas: Annotated[tuple[Int32, ...] | None, Tag(2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, Tag(3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1  # -1: as before
    directories: Annotated[tuple[Uuid, ...] | None, "1+", Tag(8)] = None
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, "2+", Tag(6)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, "2+", Tag(7)] = None


class FenceBrokerRecord(Message):
    """As `BrokerRegistrationChangeRecord`, written below metadata.version 3.3."""

    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBrokerRecord(Message):
    """As `BrokerRegistrationChangeRecord`, written below metadata.version 3.3."""

    id: Int32 = 0
    epoch: Int64 = 0


class RemoveTopicRecord(Message):
    topic_id: Uuid = ZERO_UUID


class DelegationTokenRecord(Message):
    owner: str = ""
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


class UserScramCredentialRecord(SecretMessage):
    name: str = ""
    mechanism: Int8 = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


class FeatureLevelRecord(Message):
    name: str = ""
    feature_level: Int16 = 0  # 0: off


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = None  # None: the default of its type


class ClientQuotaRecord(Message):
    entity: tuple[EntityData, ...] = ()
    key: str = ""
    value: float = 0.0
    remove: bool = False


class ProducerIdsRecord(Message):
    """A block of producer ids was given to a broker."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class BrokerRegistrationChangeRecord(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, Tag(0)] = 0  # 1 fences, -1 unfences, 0: as before
    in_controlled_shutdown: Annotated[Int8, "1+", Tag(1)] = 0  # 1: has begun, 0: as before
    log_dirs: Annotated[tuple[Uuid, ...], "2+", Tag(2)] = ()  # empty: as before
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, "3+", Tag(3)] = None  # None: as before


class AccessControlEntryRecord(Message):
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntryRecord(Message):
    id: Uuid = ZERO_UUID


class NoOpRecord(Message):
    """Written now and then, so that the log moves."""


class ZkMigrationStateRecord(Message):
    """Left over from a migration."""

    zk_migration_state: Int8 = 0


class RemoveUserScramCredentialRecord(Message):
    name: str = ""
    mechanism: Int8 = 0


class BeginTransactionRecord(Message):
    """From here on nothing is published until the end (KIP-868)."""

    name: Annotated[str | None, Tag(0)] = None


class EndTransactionRecord(Message):
    """The transaction's changes count."""


class AbortTransactionRecord(Message):
    """The transaction's changes are dropped."""

    reason: Annotated[str | None, Tag(0)] = None


class RemoveDelegationTokenRecord(Message):
    token_id: str = ""


class ControllerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(Message):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterControllerRecord(Message):
    """A controller with its endpoints (KIP-919)."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: tuple[ControllerEndpoint, ...] = ()
    features: tuple[ControllerFeature, ...] = ()


class UnregisterControllerRecord(Message):
    """A controller that is gone for good."""

    controller_id: Int32 = 0


class ClearElrRecord(Message):
    """Empties the eligible leader replicas of a topic, or with an empty name of all topics (KIP-966)."""

    topic_name: str = ""


TYPES: Final[Mapping[int, RecordSchema]] = {
    0: RecordSchema(RegisterBrokerRecord, versions=range(0, 5), flexible_from=0),
    1: RecordSchema(UnregisterBrokerRecord, versions=range(0, 1), flexible_from=0),
    2: RecordSchema(TopicRecord, versions=range(0, 1), flexible_from=0),
    3: RecordSchema(PartitionRecord, versions=range(0, 3), flexible_from=0),
    4: RecordSchema(ConfigRecord, versions=range(0, 1), flexible_from=0),
    5: RecordSchema(PartitionChangeRecord, versions=range(0, 3), flexible_from=0),
    7: RecordSchema(FenceBrokerRecord, versions=range(0, 1), flexible_from=0),
    8: RecordSchema(UnfenceBrokerRecord, versions=range(0, 1), flexible_from=0),
    9: RecordSchema(RemoveTopicRecord, versions=range(0, 1), flexible_from=0),
    10: RecordSchema(DelegationTokenRecord, versions=range(0, 1), flexible_from=0),
    11: RecordSchema(UserScramCredentialRecord, versions=range(0, 1), flexible_from=0),
    12: RecordSchema(FeatureLevelRecord, versions=range(0, 1), flexible_from=0),
    14: RecordSchema(ClientQuotaRecord, versions=range(0, 1), flexible_from=0),
    15: RecordSchema(ProducerIdsRecord, versions=range(0, 1), flexible_from=0),
    17: RecordSchema(BrokerRegistrationChangeRecord, versions=range(0, 4), flexible_from=0),
    18: RecordSchema(AccessControlEntryRecord, versions=range(0, 1), flexible_from=0),
    19: RecordSchema(RemoveAccessControlEntryRecord, versions=range(0, 1), flexible_from=0),
    20: RecordSchema(NoOpRecord, versions=range(0, 1), flexible_from=0),
    21: RecordSchema(ZkMigrationStateRecord, versions=range(0, 1), flexible_from=0),
    22: RecordSchema(RemoveUserScramCredentialRecord, versions=range(0, 1), flexible_from=0),
    23: RecordSchema(BeginTransactionRecord, versions=range(0, 1), flexible_from=0),
    24: RecordSchema(EndTransactionRecord, versions=range(0, 1), flexible_from=0),
    25: RecordSchema(AbortTransactionRecord, versions=range(0, 1), flexible_from=0),
    26: RecordSchema(RemoveDelegationTokenRecord, versions=range(0, 1), flexible_from=0),
    27: RecordSchema(RegisterControllerRecord, versions=range(0, 1), flexible_from=0),
    28: RecordSchema(ClearElrRecord, versions=range(0, 1), flexible_from=0),
    29: RecordSchema(UnregisterControllerRecord, versions=range(0, 1), flexible_from=0),
}
