"""Records of `__cluster_metadata`, the log of an Apache Kafka quorum: every type there is in 4.3 (cluster.md 3.8).

`TYPES` has them by their number on the wire; 6, 13 and 16 do not exist. All versions are flexible.
`protocol/records/metadata.py` has the frame around them.
"""

from collections.abc import Mapping
from typing import Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    RecordSchema,
    SecretMessage,
    Uint16,
    Uuid,
    array,
    blob,
    message,
    string,
    tagged,
    when,
)


class BrokerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class BrokerFeature(Message):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


class RegisterBrokerRecord(Message):
    """A registration, whole: it replaces the one before."""

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: bytes = ZERO_UUID
    broker_epoch: int = 0
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None  # None: the broker has not said yet


class UnregisterBrokerRecord(Message):
    broker_id: int = 0
    broker_epoch: int = 0


class TopicRecord(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID


class PartitionRecord(Message):
    """A partition, whole."""

    partition_id: int = -1
    topic_id: bytes = ZERO_UUID
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = -1
    leader_recovery_state: int = 0  # 0 RECOVERED, 1 RECOVERING
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: tuple[bytes, ...] = ()  # in the order of replicas
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class ConfigRecord(Message):
    resource_type: int = 0  # 2 topic, 4 broker, 16 client metrics, 32 group
    resource_name: str = ""
    name: str = ""
    value: str | None = None  # None deletes the setting


class PartitionChangeRecord(Message):
    """What changes of a partition; None leaves a field as it is (cluster.md 3.9)."""

    partition_id: int = -1
    topic_id: bytes = ZERO_UUID
    isr: tuple[int, ...] | None = None
    leader: int = -2  # -2: as before, in the same epoch; -1: none
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1  # -1: as before
    directories: tuple[bytes, ...] | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class FenceBrokerRecord(Message):
    """As `BrokerRegistrationChangeRecord`, written below metadata.version 3.3."""

    id: int = 0
    epoch: int = 0


class UnfenceBrokerRecord(Message):
    """As `BrokerRegistrationChangeRecord`, written below metadata.version 3.3."""

    id: int = 0
    epoch: int = 0


class RemoveTopicRecord(Message):
    topic_id: bytes = ZERO_UUID


class DelegationTokenRecord(Message):
    owner: str = ""
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""


class UserScramCredentialRecord(SecretMessage):
    name: str = ""
    mechanism: int = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


class FeatureLevelRecord(Message):
    name: str = ""
    feature_level: int = 0  # 0: off


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

    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0


class BrokerRegistrationChangeRecord(Message):
    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0  # 1 fences, -1 unfences, 0: as before
    in_controlled_shutdown: int = 0  # 1: has begun, 0: as before
    log_dirs: tuple[bytes, ...] = ()  # empty: as before
    cordoned_log_dirs: tuple[bytes, ...] | None = None  # None: as before


class AccessControlEntryRecord(Message):
    id: bytes = ZERO_UUID
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class RemoveAccessControlEntryRecord(Message):
    id: bytes = ZERO_UUID


class NoOpRecord(Message):
    """Written now and then, so that the log moves."""


class ZkMigrationStateRecord(Message):
    """Left over from a migration."""

    zk_migration_state: int = 0


class RemoveUserScramCredentialRecord(Message):
    name: str = ""
    mechanism: int = 0


class BeginTransactionRecord(Message):
    """From here on nothing is published until the end (KIP-868)."""

    name: str | None = None


class EndTransactionRecord(Message):
    """What the transaction changed counts."""


class AbortTransactionRecord(Message):
    """What the transaction changed is dropped."""

    reason: str | None = None


class RemoveDelegationTokenRecord(Message):
    token_id: str = ""


class ControllerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class ControllerFeature(Message):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


class RegisterControllerRecord(Message):
    """A controller with its endpoints (KIP-919)."""

    controller_id: int = 0
    incarnation_id: bytes = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: tuple[ControllerEndpoint, ...] = ()
    features: tuple[ControllerFeature, ...] = ()


class ClearElrRecord(Message):
    """Empties the eligible leader replicas of a topic, or with an empty name of all topics (KIP-966)."""

    topic_name: str = ""


def register_broker_record(version: int) -> Layout:
    """RegisterBrokerRecord at `version`."""
    broker_endpoint = message(
        BrokerEndpoint,
        True,
        "name" / string(True),
        "host" / string(True),
        "port" / Uint16,
        "security_protocol" / Int16,
    )
    broker_feature = message(
        BrokerFeature,
        True,
        "name" / string(True),
        "min_supported_version" / Int16,
        "max_supported_version" / Int16,
    )
    return message(
        RegisterBrokerRecord,
        True,
        "broker_id" / Int32,
        *when(version >= 2, "is_migrating_zk_broker" / Boolean),
        "incarnation_id" / Uuid,
        "broker_epoch" / Int64,
        "end_points" / array(broker_endpoint, True),
        "features" / array(broker_feature, True),
        "rack" / string(True, nullable=True),
        "fenced" / Boolean,
        *when(version >= 1, "in_controlled_shutdown" / Boolean),
        *when(version >= 3, "log_dirs" / tagged(0, array(Uuid, True))),
        *when(version >= 4, "cordoned_log_dirs" / tagged(1, array(Uuid, True, nullable=True))),
    )


def unregister_broker_record(version: int) -> Layout:
    """UnregisterBrokerRecord at `version`."""
    return message(
        UnregisterBrokerRecord,
        True,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
    )


def topic_record(version: int) -> Layout:
    """TopicRecord at `version`."""
    return message(
        TopicRecord,
        True,
        "name" / string(True),
        "topic_id" / Uuid,
    )


def partition_record(version: int) -> Layout:
    """PartitionRecord at `version`."""
    return message(
        PartitionRecord,
        True,
        "partition_id" / Int32,
        "topic_id" / Uuid,
        "replicas" / array(Int32, True),
        "isr" / array(Int32, True),
        "removing_replicas" / array(Int32, True),
        "adding_replicas" / array(Int32, True),
        "leader" / Int32,
        "leader_recovery_state" / tagged(0, Int8),
        "leader_epoch" / Int32,
        "partition_epoch" / Int32,
        *when(version >= 1, "directories" / array(Uuid, True)),
        *when(version >= 2, "eligible_leader_replicas" / tagged(1, array(Int32, True, nullable=True))),
        *when(version >= 2, "last_known_elr" / tagged(2, array(Int32, True, nullable=True))),
    )


def config_record(version: int) -> Layout:
    """ConfigRecord at `version`."""
    return message(
        ConfigRecord,
        True,
        "resource_type" / Int8,
        "resource_name" / string(True),
        "name" / string(True),
        "value" / string(True, nullable=True),
    )


def partition_change_record(version: int) -> Layout:
    """PartitionChangeRecord at `version`."""
    return message(
        PartitionChangeRecord,
        True,
        "partition_id" / Int32,
        "topic_id" / Uuid,
        "isr" / tagged(0, array(Int32, True, nullable=True)),
        "leader" / tagged(1, Int32),
        "replicas" / tagged(2, array(Int32, True, nullable=True)),
        "removing_replicas" / tagged(3, array(Int32, True, nullable=True)),
        "adding_replicas" / tagged(4, array(Int32, True, nullable=True)),
        "leader_recovery_state" / tagged(5, Int8),
        *when(version >= 2, "eligible_leader_replicas" / tagged(6, array(Int32, True, nullable=True))),
        *when(version >= 2, "last_known_elr" / tagged(7, array(Int32, True, nullable=True))),
        *when(version >= 1, "directories" / tagged(8, array(Uuid, True, nullable=True))),
    )


def fence_broker_record(version: int) -> Layout:
    """FenceBrokerRecord at `version`."""
    return message(
        FenceBrokerRecord,
        True,
        "id" / Int32,
        "epoch" / Int64,
    )


def unfence_broker_record(version: int) -> Layout:
    """UnfenceBrokerRecord at `version`."""
    return message(
        UnfenceBrokerRecord,
        True,
        "id" / Int32,
        "epoch" / Int64,
    )


def remove_topic_record(version: int) -> Layout:
    """RemoveTopicRecord at `version`."""
    return message(
        RemoveTopicRecord,
        True,
        "topic_id" / Uuid,
    )


def delegation_token_record(version: int) -> Layout:
    """DelegationTokenRecord at `version`."""
    return message(
        DelegationTokenRecord,
        True,
        "owner" / string(True),
        "requester" / string(True),
        "renewers" / array(string(True), True),
        "issue_timestamp" / Int64,
        "max_timestamp" / Int64,
        "expiration_timestamp" / Int64,
        "token_id" / string(True),
    )


def user_scram_credential_record(version: int) -> Layout:
    """UserScramCredentialRecord at `version`."""
    return message(
        UserScramCredentialRecord,
        True,
        "name" / string(True),
        "mechanism" / Int8,
        "salt" / blob(True),
        "stored_key" / blob(True),
        "server_key" / blob(True),
        "iterations" / Int32,
    )


def feature_level_record(version: int) -> Layout:
    """FeatureLevelRecord at `version`."""
    return message(
        FeatureLevelRecord,
        True,
        "name" / string(True),
        "feature_level" / Int16,
    )


def client_quota_record(version: int) -> Layout:
    """ClientQuotaRecord at `version`."""
    entity_data = message(
        EntityData,
        True,
        "entity_type" / string(True),
        "entity_name" / string(True, nullable=True),
    )
    return message(
        ClientQuotaRecord,
        True,
        "entity" / array(entity_data, True),
        "key" / string(True),
        "value" / Float64,
        "remove" / Boolean,
    )


def producer_ids_record(version: int) -> Layout:
    """ProducerIdsRecord at `version`."""
    return message(
        ProducerIdsRecord,
        True,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
        "next_producer_id" / Int64,
    )


def broker_registration_change_record(version: int) -> Layout:
    """BrokerRegistrationChangeRecord at `version`."""
    return message(
        BrokerRegistrationChangeRecord,
        True,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
        "fenced" / tagged(0, Int8),
        *when(version >= 1, "in_controlled_shutdown" / tagged(1, Int8)),
        *when(version >= 2, "log_dirs" / tagged(2, array(Uuid, True))),
        *when(version >= 3, "cordoned_log_dirs" / tagged(3, array(Uuid, True, nullable=True))),
    )


def access_control_entry_record(version: int) -> Layout:
    """AccessControlEntryRecord at `version`."""
    return message(
        AccessControlEntryRecord,
        True,
        "id" / Uuid,
        "resource_type" / Int8,
        "resource_name" / string(True),
        "pattern_type" / Int8,
        "principal" / string(True),
        "host" / string(True),
        "operation" / Int8,
        "permission_type" / Int8,
    )


def remove_access_control_entry_record(version: int) -> Layout:
    """RemoveAccessControlEntryRecord at `version`."""
    return message(
        RemoveAccessControlEntryRecord,
        True,
        "id" / Uuid,
    )


def no_op_record(version: int) -> Layout:
    """NoOpRecord at `version`."""
    return message(
        NoOpRecord,
        True,
    )


def zk_migration_state_record(version: int) -> Layout:
    """ZkMigrationStateRecord at `version`."""
    return message(
        ZkMigrationStateRecord,
        True,
        "zk_migration_state" / Int8,
    )


def remove_user_scram_credential_record(version: int) -> Layout:
    """RemoveUserScramCredentialRecord at `version`."""
    return message(
        RemoveUserScramCredentialRecord,
        True,
        "name" / string(True),
        "mechanism" / Int8,
    )


def begin_transaction_record(version: int) -> Layout:
    """BeginTransactionRecord at `version`."""
    return message(
        BeginTransactionRecord,
        True,
        "name" / tagged(0, string(True, nullable=True)),
    )


def end_transaction_record(version: int) -> Layout:
    """EndTransactionRecord at `version`."""
    return message(
        EndTransactionRecord,
        True,
    )


def abort_transaction_record(version: int) -> Layout:
    """AbortTransactionRecord at `version`."""
    return message(
        AbortTransactionRecord,
        True,
        "reason" / tagged(0, string(True, nullable=True)),
    )


def remove_delegation_token_record(version: int) -> Layout:
    """RemoveDelegationTokenRecord at `version`."""
    return message(
        RemoveDelegationTokenRecord,
        True,
        "token_id" / string(True),
    )


def register_controller_record(version: int) -> Layout:
    """RegisterControllerRecord at `version`."""
    controller_endpoint = message(
        ControllerEndpoint,
        True,
        "name" / string(True),
        "host" / string(True),
        "port" / Uint16,
        "security_protocol" / Int16,
    )
    controller_feature = message(
        ControllerFeature,
        True,
        "name" / string(True),
        "min_supported_version" / Int16,
        "max_supported_version" / Int16,
    )
    return message(
        RegisterControllerRecord,
        True,
        "controller_id" / Int32,
        "incarnation_id" / Uuid,
        "zk_migration_ready" / Boolean,
        "end_points" / array(controller_endpoint, True),
        "features" / array(controller_feature, True),
    )


def clear_elr_record(version: int) -> Layout:
    """ClearElrRecord at `version`."""
    return message(
        ClearElrRecord,
        True,
        "topic_name" / string(True),
    )


TYPES: Final[Mapping[int, RecordSchema]] = {
    0: RecordSchema(RegisterBrokerRecord, versions=range(0, 5), layout=register_broker_record),
    1: RecordSchema(UnregisterBrokerRecord, versions=range(0, 1), layout=unregister_broker_record),
    2: RecordSchema(TopicRecord, versions=range(0, 1), layout=topic_record),
    3: RecordSchema(PartitionRecord, versions=range(0, 3), layout=partition_record),
    4: RecordSchema(ConfigRecord, versions=range(0, 1), layout=config_record),
    5: RecordSchema(PartitionChangeRecord, versions=range(0, 3), layout=partition_change_record),
    7: RecordSchema(FenceBrokerRecord, versions=range(0, 1), layout=fence_broker_record),
    8: RecordSchema(UnfenceBrokerRecord, versions=range(0, 1), layout=unfence_broker_record),
    9: RecordSchema(RemoveTopicRecord, versions=range(0, 1), layout=remove_topic_record),
    10: RecordSchema(DelegationTokenRecord, versions=range(0, 1), layout=delegation_token_record),
    11: RecordSchema(UserScramCredentialRecord, versions=range(0, 1), layout=user_scram_credential_record),
    12: RecordSchema(FeatureLevelRecord, versions=range(0, 1), layout=feature_level_record),
    14: RecordSchema(ClientQuotaRecord, versions=range(0, 1), layout=client_quota_record),
    15: RecordSchema(ProducerIdsRecord, versions=range(0, 1), layout=producer_ids_record),
    17: RecordSchema(BrokerRegistrationChangeRecord, versions=range(0, 4), layout=broker_registration_change_record),
    18: RecordSchema(AccessControlEntryRecord, versions=range(0, 1), layout=access_control_entry_record),
    19: RecordSchema(RemoveAccessControlEntryRecord, versions=range(0, 1), layout=remove_access_control_entry_record),
    20: RecordSchema(NoOpRecord, versions=range(0, 1), layout=no_op_record),
    21: RecordSchema(ZkMigrationStateRecord, versions=range(0, 1), layout=zk_migration_state_record),
    22: RecordSchema(RemoveUserScramCredentialRecord, versions=range(0, 1), layout=remove_user_scram_credential_record),
    23: RecordSchema(BeginTransactionRecord, versions=range(0, 1), layout=begin_transaction_record),
    24: RecordSchema(EndTransactionRecord, versions=range(0, 1), layout=end_transaction_record),
    25: RecordSchema(AbortTransactionRecord, versions=range(0, 1), layout=abort_transaction_record),
    26: RecordSchema(RemoveDelegationTokenRecord, versions=range(0, 1), layout=remove_delegation_token_record),
    27: RecordSchema(RegisterControllerRecord, versions=range(0, 1), layout=register_controller_record),
    28: RecordSchema(ClearElrRecord, versions=range(0, 1), layout=clear_elr_record),
}
