"""`MetadataImage`: what the records of the metadata log add up to.

It is changed by applying one record at a time, the same way at start and later, so that a restart sees what a running
broker saw.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from eosin.cluster.metadata.topics import collision_key
from eosin.model.cluster import Topic
from eosin.model.credentials import CredentialChange, Credentials, StoredCredential
from eosin.model.quota_table import Entity, QuotaTable
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import INTERNAL_TOPICS, Uuid
from eosin.protocol.schemas.records.cluster_metadata import (
    AclKey,
    AclRecord,
    BrokerConfigsKey,
    BrokerConfigsRecord,
    BrokerSetting,
    ClientQuotaKey,
    ClientQuotaValue,
    ConfigKey,
    ConfigValue,
    FeatureLevel,
    ProducerIdsKey,
    ProducerIdsRecord,
    ScramCredentialKey,
    ScramCredentialRecord,
    ScramSecretKey,
    ScramSecretRecord,
    StartKey,
    StartRecord,
    TopicConfig,
    TopicKey,
    TopicRecord,
)
from eosin.protocol.types import Message

ALL_BROKERS = -1
"""The node id in the key of settings that hold for all brokers."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class MetadataImage:
    """Topics, producer id blocks, starts, changed settings, users, access control entries, quotas and settings
    of groups, as of the last applied record."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every record."""
        self.partition_count = 0
        """Of all topics."""
        self.start_count = 0
        self.levels: Mapping[str, int] = {}
        """Of features whose level stands in the metadata."""
        self.level_changes = 0
        """Number of changes of these levels."""
        self.next_producer_id = 0
        self.credentials = Credentials()
        self.quotas = QuotaTable()
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[Uuid, Topic] = {}
        self._by_collision_key: dict[str, str] = {}
        self._broker_configs: dict[int, Mapping[str, str]] = {}
        self._group_configs: dict[str, Mapping[str, str]] = {}
        self._acls: dict[Uuid, AclRecord] = {}
        self.topics: Mapping[str, Topic] = MappingProxyType(self._topics)
        self.acls: Mapping[Uuid, AclRecord] = MappingProxyType(self._acls)
        """The access control entries, by their ids; without an authorizer nobody asks for them (security.md 4.2)."""

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id, or None."""
        return self._by_id.get(topic_id)

    def namesake(self, name: str) -> str | None:
        """The existing topic whose name equals `name` but for `.` and `_`."""
        return self._by_collision_key.get(collision_key(name))

    def broker_configs(self, node_id: int) -> Mapping[str, str]:
        """The changed settings of one broker, or of `ALL_BROKERS`."""
        return self._broker_configs.get(node_id, _NOTHING)

    @property
    def configured_groups(self) -> Collection[str]:
        """The groups with settings of their own."""
        return self._group_configs.keys()

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """A group's own settings: another mapping after each change."""
        return self._group_configs.get(group_id, _NOTHING)

    def start_record(self, *, start_count: int, levels: Mapping[str, int] | None = None) -> StartRecord:
        """The record of a start, or with `levels` of a change of these; what is not given stays as it is."""
        changed = levels is not None and dict(levels) != dict(self.levels)
        level_of = self.levels if levels is None else levels
        return StartRecord(
            start_count,
            tuple(FeatureLevel(name, level) for name, level in sorted(level_of.items())),
            self.level_changes + changed,
        )

    def apply(self, key: Message, value: Message | None) -> None:
        """Take one record into the image."""
        self.version += 1
        match key, value:
            case TopicKey(), None:
                self._remove_topic(key.name)
            case TopicKey(), TopicRecord():
                self._put_topic(topic_of(key, value))
            case ProducerIdsKey(), ProducerIdsRecord():
                self.next_producer_id = value.next_producer_id
            case StartKey(), StartRecord():
                self.start_count = value.start_count
                self.levels = {each.name: each.level for each in value.levels}
                self.level_changes = value.level_changes
            case BrokerConfigsKey(), BrokerConfigsRecord():
                self._broker_configs[key.node_id] = MappingProxyType({each.name: each.value for each in value.configs})
            case ScramCredentialKey(), None:
                self.credentials.remove(key.name, key.mechanism)
            case ScramCredentialKey(), ScramCredentialRecord():
                stored = StoredCredential(value.salt, value.stored_key, value.server_key, value.iterations)
                self.credentials.put(key.name, key.mechanism, stored)
            case ScramSecretKey(), ScramSecretRecord():
                self.credentials.secret = value.secret
            case AclKey(), None:
                self._acls.pop(key.id, None)
            case AclKey(), AclRecord():
                self._acls[key.id] = value
            case ClientQuotaKey(), None:
                self.quotas.remove(_entity(key), key.key)
            case ClientQuotaKey(), ClientQuotaValue():
                self.quotas.put(_entity(key), key.key, value.value)
            case ConfigKey(), None | ConfigValue() if key.resource_type == ConfigResourceType.GROUP:
                self._put_group_config(key.resource_name, key.name, None if value is None else value.value)
            case _:
                raise AssertionError(f"no such metadata record: {key}, {value}")

    def _put_group_config(self, group_id: str, name: str, value: str | None) -> None:
        configs = {**self.group_configs(group_id)}
        if value is None:
            configs.pop(name, None)
        else:
            configs[name] = value
        if configs:
            self._group_configs[group_id] = MappingProxyType(dict(sorted(configs.items())))
        else:
            self._group_configs.pop(group_id, None)

    def _put_topic(self, topic: Topic) -> None:
        if (old := self._topics.get(topic.name)) is not None:
            del self._by_id[old.topic_id]
            self.partition_count -= old.partitions
        self.partition_count += topic.partitions
        self._topics[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_collision_key[collision_key(topic.name)] = topic.name

    def _remove_topic(self, name: str) -> None:
        if (old := self._topics.pop(name, None)) is not None:
            del self._by_id[old.topic_id]
            self.partition_count -= old.partitions
            del self._by_collision_key[collision_key(name)]


def _entity(key: ClientQuotaKey) -> Entity:
    return tuple((part.entity_type, part.entity_name) for part in key.entity)


def topic_of(key: TopicKey, value: TopicRecord) -> Topic:
    """The topic that a record describes."""
    return Topic(
        name=key.name,
        topic_id=value.topic_id,
        partitions=value.partitions,
        configs=MappingProxyType({config.name: config.value for config in value.configs}),
        internal=key.name in INTERNAL_TOPICS,
    )


def topic_record(topic: Topic) -> TopicRecord:
    """The record that describes `topic`."""
    configs = tuple(TopicConfig(name, value) for name, value in topic.configs.items())
    return TopicRecord(topic_id=topic.topic_id, partitions=topic.partitions, configs=configs)


def broker_configs_record(configs: Mapping[str, str]) -> BrokerConfigsRecord:
    """The record that holds all changed settings of a broker."""
    return BrokerConfigsRecord(configs=tuple(BrokerSetting(name, value) for name, value in configs.items()))


def group_config_records(
    group_id: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Sequence[tuple[Message, Message | None]]:
    """The records that lead from some settings of a group to others."""
    return [
        (ConfigKey(ConfigResourceType.GROUP, group_id, name), ConfigValue(after[name]) if name in after else None)
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def credential_records(changes: Sequence[CredentialChange]) -> Sequence[tuple[Message, Message | None]]:
    """The records that set and delete credentials."""
    return [
        (
            ScramCredentialKey(change.user, change.mechanism),
            None if change.credential is None else ScramCredentialRecord(*change.credential),
        )
        for change in changes
    ]
