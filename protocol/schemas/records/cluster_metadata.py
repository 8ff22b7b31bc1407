"""Records of `__eosin_metadata`: topics, producer id blocks, starts of a directory, changed settings, users, access
control entries, quotas.

The log is compacted, so each key holds the newest of its kind. As in `__consumer_offsets`, the version in front of a
key says which kind it is. Values are flexible from version 0 on: what comes later goes into tagged fields.
"""

from typing import Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    Float64,
    Int8,
    Int32,
    Int64,
    Layout,
    Message,
    RecordKind,
    RecordSchema,
    SecretMessage,
    Uuid,
    array,
    blob,
    message,
    string,
)


class TopicKey(Message):
    name: str = ""


class TopicConfig(Message):
    """A setting of a topic that differs from the broker's default."""

    name: str = ""
    value: str = ""


class TopicRecord(Message):
    """One topic; a tombstone says that it was deleted."""

    topic_id: bytes = ZERO_UUID
    partitions: int = 0
    configs: tuple[TopicConfig, ...] = ()


class ProducerIdsKey(Message):
    """There is one record of this kind."""


class ProducerIdsRecord(Message):
    next_producer_id: int = 0  # the first that no block has covered


class StartKey(Message):
    """There is one record of this kind."""


class StartRecord(Message):
    start_count: int = 0  # starts of a broker on this directory; leader and coordinator epochs follow from it


class BrokerConfigsKey(Message):
    node_id: int = -1  # -1: every broker


class BrokerSetting(Message):
    """A broker setting that was changed at run time."""

    name: str = ""
    value: str = ""


class BrokerConfigsRecord(Message):
    configs: tuple[BrokerSetting, ...] = ()


class ScramCredentialKey(Message):
    name: str = ""
    mechanism: int = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class ScramCredentialRecord(SecretMessage):
    """What is stored of a user's password; a tombstone says that it was deleted (security.md 4.1)."""

    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


class ScramSecretKey(Message):
    """There is one record of this kind."""


class ScramSecretRecord(SecretMessage):
    secret: bytes = b""  # behind the credentials of users who are not there (security.md 3.4.9)


class AclKey(Message):
    id: bytes = ZERO_UUID


class AclRecord(Message):
    """One access control entry (security.md 4.2), with the fields of Kafka's AccessControlEntryRecord; a tombstone
    removes it."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class QuotaKeyPart(Message):
    entity_type: str = ""
    entity_name: str | None = None  # null: the default of its type


class ClientQuotaKey(Message):
    """One limit of one entity; a tombstone says that it was removed (security.md 5.6)."""

    entity: tuple[QuotaKeyPart, ...] = ()  # in the order of types
    key: str = ""


class ClientQuotaValue(Message):
    value: float = 0.0


def topic_key(version: int) -> Layout:
    """The key of a topic."""
    return message(TopicKey, False, "name" / string(False))


def topic_record(version: int) -> Layout:
    """The value of a topic."""
    flexible = True
    topic_config = message(
        TopicConfig,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible),
    )
    return message(
        TopicRecord,
        flexible,
        "topic_id" / Uuid,
        "partitions" / Int32,
        "configs" / array(topic_config, flexible),
    )


def producer_ids_key(version: int) -> Layout:
    """The key of the producer id blocks: nothing but its kind."""
    return message(ProducerIdsKey, False)


def producer_ids_record(version: int) -> Layout:
    """The value of the producer id blocks."""
    return message(ProducerIdsRecord, True, "next_producer_id" / Int64)


def start_key(version: int) -> Layout:
    """The key of the start counter: nothing but its kind."""
    return message(StartKey, False)


def start_record(version: int) -> Layout:
    """The value of the start counter."""
    return message(StartRecord, True, "start_count" / Int32)


def broker_configs_key(version: int) -> Layout:
    """The key of a broker's changed settings."""
    return message(BrokerConfigsKey, False, "node_id" / Int32)


def broker_configs_record(version: int) -> Layout:
    """The value of a broker's changed settings: all of them."""
    flexible = True
    setting = message(BrokerSetting, flexible, "name" / string(flexible), "value" / string(flexible))
    return message(BrokerConfigsRecord, flexible, "configs" / array(setting, flexible))


def scram_credential_key(version: int) -> Layout:
    """The key of a user's credential for one mechanism."""
    return message(ScramCredentialKey, False, "name" / string(False), "mechanism" / Int8)


def scram_credential_record(version: int) -> Layout:
    """The value of a credential."""
    flexible = True
    return message(
        ScramCredentialRecord,
        flexible,
        "salt" / blob(flexible),
        "stored_key" / blob(flexible),
        "server_key" / blob(flexible),
        "iterations" / Int32,
    )


def scram_secret_key(version: int) -> Layout:
    """The key of the secret: nothing but its kind."""
    return message(ScramSecretKey, False)


def scram_secret_record(version: int) -> Layout:
    """The value of the secret."""
    return message(ScramSecretRecord, True, "secret" / blob(True))


def acl_key(version: int) -> Layout:
    """The key of an access control entry."""
    return message(AclKey, False, "id" / Uuid)


def acl_record(version: int) -> Layout:
    """The value of an access control entry."""
    flexible = True
    return message(
        AclRecord,
        flexible,
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        "pattern_type" / Int8,
        "principal" / string(flexible),
        "host" / string(flexible),
        "operation" / Int8,
        "permission_type" / Int8,
    )


def client_quota_key(version: int) -> Layout:
    """The key of a quota."""
    part = message(QuotaKeyPart, False, "entity_type" / string(False), "entity_name" / string(False, nullable=True))
    return message(ClientQuotaKey, False, "entity" / array(part, False), "key" / string(False))


def client_quota_value(version: int) -> Layout:
    """The value of a quota."""
    return message(ClientQuotaValue, True, "value" / Float64)


KINDS: Final = (
    RecordKind(
        key=RecordSchema(TopicKey, versions=range(0, 1), layout=topic_key),
        value=RecordSchema(TopicRecord, versions=range(0, 1), layout=topic_record),
    ),
    RecordKind(
        key=RecordSchema(ProducerIdsKey, versions=range(1, 2), layout=producer_ids_key),
        value=RecordSchema(ProducerIdsRecord, versions=range(0, 1), layout=producer_ids_record),
    ),
    RecordKind(
        key=RecordSchema(StartKey, versions=range(2, 3), layout=start_key),
        value=RecordSchema(StartRecord, versions=range(0, 1), layout=start_record),
    ),
    RecordKind(
        key=RecordSchema(BrokerConfigsKey, versions=range(3, 4), layout=broker_configs_key),
        value=RecordSchema(BrokerConfigsRecord, versions=range(0, 1), layout=broker_configs_record),
    ),
    RecordKind(
        key=RecordSchema(ScramCredentialKey, versions=range(4, 5), layout=scram_credential_key),
        value=RecordSchema(ScramCredentialRecord, versions=range(0, 1), layout=scram_credential_record),
    ),
    RecordKind(
        key=RecordSchema(ScramSecretKey, versions=range(5, 6), layout=scram_secret_key),
        value=RecordSchema(ScramSecretRecord, versions=range(0, 1), layout=scram_secret_record),
    ),
    RecordKind(
        key=RecordSchema(AclKey, versions=range(6, 7), layout=acl_key),
        value=RecordSchema(AclRecord, versions=range(0, 1), layout=acl_record),
    ),
    RecordKind(
        key=RecordSchema(ClientQuotaKey, versions=range(7, 8), layout=client_quota_key),
        value=RecordSchema(ClientQuotaValue, versions=range(0, 1), layout=client_quota_value),
    ),
)
