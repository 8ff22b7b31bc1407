"""Records of `__eosin_metadata`: topics, producer id blocks, starts of a directory, changed settings, users, access
control entries, quotas, settings of groups.

The log is compacted, so each key holds the newest of its kind. As in `__consumer_offsets`, the version in front of a
key says which kind it is. Values are flexible from version 0 on: what comes later goes into tagged fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int8, Int16, Int32, Int64, Message, RecordKind, RecordSchema, SecretMessage, Tag, Uuid


class TopicKey(Message):
    name: str = ""


class TopicConfig(Message):
    """A setting of a topic that differs from the broker's default."""

    name: str = ""
    value: str = ""


class TopicRecord(Message):
    """One topic; a tombstone says that it was deleted."""

    topic_id: Uuid = ZERO_UUID
    partitions: Int32 = 0
    configs: tuple[TopicConfig, ...] = ()


class ProducerIdsKey(Message):
    """There is one record of this kind."""


class ProducerIdsRecord(Message):
    next_producer_id: Int64 = 0  # the first that no block has covered


class StartKey(Message):
    """There is one record of this kind."""


class FeatureLevel(Message):
    name: str = ""
    level: Int16 = 0


class StartRecord(Message):
    """The directory's own state. The levels of features are tagged, so that an older Eosin can start on it: it
    leaves them out, and has none of these features."""

    start_count: Int32 = 0  # starts of a broker on this directory; leader and coordinator epochs follow from it
    levels: Annotated[tuple[FeatureLevel, ...], "0+", Tag(0)] = ()
    level_changes: Annotated[Int32, "0+", Tag(1)] = 0


class BrokerConfigsKey(Message):
    node_id: Int32 = -1  # -1: every broker


class BrokerSetting(Message):
    """A broker setting that was changed at run time."""

    name: str = ""
    value: str = ""


class BrokerConfigsRecord(Message):
    configs: tuple[BrokerSetting, ...] = ()


class ScramCredentialKey(Message):
    name: str = ""
    mechanism: Int8 = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class ScramCredentialRecord(SecretMessage):
    """The stored form of a user's password; a tombstone says that it was deleted (security.md 4.1)."""

    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


class ScramSecretKey(Message):
    """There is one record of this kind."""


class ScramSecretRecord(SecretMessage):
    secret: bytes = b""  # behind the credentials of users who are not there (security.md 3.4.9)


class AclKey(Message):
    id: Uuid = ZERO_UUID


class AclRecord(Message):
    """One access control entry (security.md 4.2), with the fields of Kafka's AccessControlEntryRecord; a tombstone
    removes it."""

    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class QuotaKeyPart(Message):
    entity_type: str = ""
    entity_name: str | None = None  # null: the default of its type


class ClientQuotaKey(Message):
    """One limit of one entity; a tombstone says that it was removed (security.md 5.6)."""

    entity: tuple[QuotaKeyPart, ...] = ()  # in the order of types
    key: str = ""


class ClientQuotaValue(Message):
    value: float = 0.0


class ConfigKey(Message):
    """One setting of one resource, with the fields of Kafka's ConfigRecord; a tombstone says that it was removed. So
    far resources are groups: topics and brokers have records of their own."""

    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""


class ConfigValue(Message):
    value: str = ""


KINDS: Final = (
    RecordKind(
        key=RecordSchema(TopicKey, versions=range(0, 1), flexible_from=None),
        value=RecordSchema(TopicRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(ProducerIdsKey, versions=range(1, 2), flexible_from=None),
        value=RecordSchema(ProducerIdsRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(StartKey, versions=range(2, 3), flexible_from=None),
        value=RecordSchema(StartRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(BrokerConfigsKey, versions=range(3, 4), flexible_from=None),
        value=RecordSchema(BrokerConfigsRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(ScramCredentialKey, versions=range(4, 5), flexible_from=None),
        value=RecordSchema(ScramCredentialRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(ScramSecretKey, versions=range(5, 6), flexible_from=None),
        value=RecordSchema(ScramSecretRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(AclKey, versions=range(6, 7), flexible_from=None),
        value=RecordSchema(AclRecord, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(ClientQuotaKey, versions=range(7, 8), flexible_from=None),
        value=RecordSchema(ClientQuotaValue, versions=range(0, 1), flexible_from=0),
    ),
    RecordKind(
        key=RecordSchema(ConfigKey, versions=range(8, 9), flexible_from=None),
        value=RecordSchema(ConfigValue, versions=range(0, 1), flexible_from=0),
    ),
)
