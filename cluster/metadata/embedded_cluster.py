"""`EmbeddedCluster`: the cluster of one broker, kept in a log of its own beside the data.

Every change is checked against the image and written without an await in between; `MetadataWriter` says when it shows.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from eosin.cluster.metadata import internal_topics, topics
from eosin.cluster.metadata.config_changes import (
    changed_configs,
    check_broker_configs,
    check_group_configs,
    check_topic_configs,
    is_list_config,
    is_list_setting,
)
from eosin.cluster.metadata.image import (
    ALL_BROKERS,
    MetadataImage,
    broker_configs_record,
    credential_records,
    group_config_records,
    topic_record,
)
from eosin.cluster.metadata.listeners import ClusterListeners, PartitionEvent
from eosin.cluster.metadata.log import METADATA_LOG_CONFIG, METADATA_TOPIC_ID, MetadataLog
from eosin.cluster.metadata.log_configs import LogConfigs
from eosin.cluster.metadata.writer import MetadataWriter
from eosin.model.cluster import (
    METADATA_PARTITION,
    NO_CONFIGS,
    NO_LEADER,
    NO_LEADER_EPOCH,
    NOBODY,
    USE_DEFAULT,
    ClusterListener,
    ConfigChange,
    Endpoint,
    Outcome,
    PartitionState,
    Quorum,
    Topic,
    Voter,
)
from eosin.model.credentials import CredentialChange, Credentials
from eosin.model.features import LEVELS_OF_NEW_DIRECTORIES, Features, features_alone
from eosin.model.principals import ANONYMOUS, Principal
from eosin.model.quota_table import QuotaChange, QuotaTable
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC, ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.schemas.records.cluster_metadata import (
    BrokerConfigsKey,
    ClientQuotaKey,
    ClientQuotaValue,
    ProducerIdsKey,
    ProducerIdsRecord,
    QuotaKeyPart,
    ScramSecretKey,
    ScramSecretRecord,
    StartKey,
    TopicKey,
)
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.settings.broker import BROKER_SETTINGS, BrokerConfig
from eosin.settings.groups import KEPT
from eosin.settings.kafka_keys import DYNAMIC_UNUSED
from eosin.settings.settings import value_text
from eosin.storage.log.config import LogConfig

if TYPE_CHECKING:
    from eosin.cluster.metadata.acl_entries import OwnAclEntries
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger("eosin.cluster.metadata")

PRODUCER_IDS_PER_BLOCK: Final = 1000
_START: Final = "the start"  # turns that no topic's changes can wait for: these are no topic names
_BROKER_CONFIGS: Final = "broker configs"
_GROUP_CONFIGS: Final = "configs of group"
_PRODUCER_IDS: Final = "producer ids"
_USERS: Final = "the users"
_QUOTAS: Final = "the quotas"
_PRODUCER_IDS_MAX: Final = 2**63 - 1
CREATED: Final = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
"""Errors after which there is a topic."""


class EmbeddedCluster:
    """Implements `eosin.model.cluster.Cluster`, and `eosin.coordinator.transactions.ports.ProducerIds`."""

    def __init__(self, *, config: BrokerConfig, log_manager: "LogManager", clock: Clock, chance: Chance) -> None:
        self.node_id: int = config.node_id
        self.replica_ids: tuple[int, ...] = (config.node_id,)
        """The nodes that a new topic may name as its replicas."""
        self._config = config
        self._log_manager = log_manager
        self._clock = clock
        self._chance = chance
        self._image = MetadataImage()
        self._listeners = ClusterListeners()
        self._endpoints: dict[str, Endpoint] = {}
        self._log_configs = LogConfigs(config, self._image.topics)
        self._start_epoch = 0
        """Number of earlier starts of the broker: the leader epoch of all its partitions."""
        self._creating: asyncio.Task[Outcome] | None = None
        """Creates an internal topic."""
        self._here: PartitionState | None = None
        """The state that `_state_here` made."""

    # The start -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the metadata, count this start durably, and put away the logs of topics that are gone. Raises
        `UnreadableMetadata`, or OSError when nothing can be written. The log manager must be open."""
        log = self._log_manager.create_log(METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, 0)
        if log.failure is not None:
            raise log.failure
        self._log = MetadataLog(log, self._clock)
        self._writer = MetadataWriter(self._log, self._image)
        deleted = self._replay()
        self._apply_broker_configs()
        self._start_epoch = self._image.start_count
        # The counter itself is written under the new epoch, so that a lost tail shows there as anywhere else.
        self._log_manager.set_leader_epoch(self._start_epoch)
        levels = LEVELS_OF_NEW_DIRECTORIES if self._image.start_count == 0 else None
        started = self._image.start_record(start_count=self._image.start_count + 1, levels=levels)
        made = internal_topics.missing(self._config, self.topics, self._chance)
        records = [(StartKey(), started), *((TopicKey(topic.name), topic_record(topic)) for topic in made)]
        if await self._writer.write(_START, records) != ErrorCode.NONE:
            code = errno.ENOSPC if self._log_manager.space.is_full else errno.EIO
            raise OSError(code, "cannot write cluster metadata", str(METADATA_PARTITION))
        self._put_away_old_logs(deleted)
        internal_topics.warn_of_capped_replication(self._config, brokers=1)

    def _replay(self) -> frozenset[Uuid]:
        """Read the whole log into the image; the ids of topics whose deletion it records."""
        deleted = set()
        for key, value in self._log.records():
            if isinstance(key, TopicKey) and value is None and (topic := self.topics.get(key.name)) is not None:
                deleted.add(topic.topic_id)
            self._image.apply(key, value)
        return frozenset(deleted)

    def _put_away_old_logs(self, deleted: frozenset[Uuid]) -> None:
        # A crash may have come between the record of a deletion and the deletion. What nothing is known of is kept,
        # under another name: it is somebody's data.
        logs = self._log_manager.logs
        for name in dict.fromkeys(partition.topic for partition in logs):
            if name not in self.topics and all(
                log.topic_id in deleted for partition, log in logs.items() if partition.topic == name
            ):
                self._log_manager.delete_logs(name)
        # Few partitions may have logs, of very many that there are.
        known = {partition for partition in logs if self.leader_of(partition) is not None}
        for stray in self._log_manager.set_aside_strays(known | {METADATA_PARTITION}):
            _LOG.warning("%s belongs to no topic: its files are set aside as a directory named ...-stray", stray)

    def advertise(self, listener: str, host: str, port: int) -> None:
        """Tell clients of `listener` this address from now on."""
        self._endpoints[listener] = Endpoint(self.node_id, host, port)
        self._listeners.changed(brokers=True)

    # Reads ---------------------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._log_manager.cluster_id

    @property
    def controller_id(self) -> int:
        return self.node_id

    @property
    def is_joined(self) -> bool:
        return False

    @property
    def features(self) -> Features:
        # Both summands only grow: a start, and a change while it runs.
        return features_alone(
            transaction_version=self._config.eosin_transaction_version,
            levels=self._image.levels,
            epoch=self._start_epoch + self._image.level_changes,
        )

    @property
    def topics(self) -> Mapping[str, Topic]:
        return self._image.topics

    @property
    def metadata_version(self) -> int:
        return self._image.version + self._log_manager.failures

    @property
    def partition_count(self) -> int:
        return self._image.partition_count

    def partition_racks(self, topic: str) -> tuple[tuple[str, ...], ...]:
        rack, found = self._config.broker_rack, self._image.topics.get(topic)
        return () if rack is None or found is None else ((rack,),) * found.partitions

    def endpoint(self, listener: str) -> Endpoint:
        return self._endpoints[listener]

    def brokers(self, listener: str) -> Sequence[Endpoint]:
        return (self._endpoints[listener],)

    def brokers_for_readers(self, listener: str) -> Sequence[Endpoint]:
        return self.brokers(listener)

    def brokers_without(self, listener: str) -> frozenset[int]:
        return NOBODY

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        return next(iter(self._endpoints.values()), None) if node_id == self.node_id else None

    def broker_epoch(self, node_id: int) -> int | None:
        return self._start_epoch if node_id == self.node_id else None

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        return self._image.topic_by_id(topic_id)

    def leader_of(self, partition: TopicPartition) -> int | None:
        topic = self._image.topics.get(partition.topic)
        return self.node_id if topic is not None and 0 <= partition.partition < topic.partitions else None

    def leader_epoch(self, partition: TopicPartition) -> int:
        return NO_LEADER_EPOCH if self.leader_of(partition) is None else self._start_epoch

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        if self.leader_of(partition) is None:
            return None
        log = self._log_manager.logs.get(partition)
        if log is not None and log.failure is not None:
            here = (self.node_id,)
            return PartitionState(NO_LEADER, self._start_epoch, here, here, here)
        return self._state_here()

    def _state_here(self) -> PartitionState:
        """The state of every partition, as far as the metadata tell it: one value for all of them."""
        state = self._here
        if state is None or state.leader_epoch != self._start_epoch:
            here = (self.node_id,)
            state = self._here = PartitionState(self.node_id, self._start_epoch, here, here, ())
        return state

    def quorum(self) -> Quorum:
        voter = Voter(self.node_id, self._log_manager.directory_id, self._log.log_end_offset)
        return Quorum(self.node_id, self._start_epoch, self._log.high_watermark, (voter,))

    def broker_configs(self, node_id: int | None) -> Mapping[str, str]:
        return self._image.broker_configs(ALL_BROKERS if node_id is None else node_id)

    @property
    def broker_config_changes(self) -> int:
        return self._log_configs.broker_changes

    @property
    def configured_groups(self) -> Collection[str]:
        return self._image.configured_groups

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        return self._image.group_configs(group_id)

    def log_config(self, topic: str) -> LogConfig:
        return self._log_configs.of(topic)

    def acl_entries(self, clock: Clock) -> "OwnAclEntries":
        from eosin.cluster.metadata.acl_entries import OwnAclEntries

        return OwnAclEntries(
            self._image, self._writer, chance=self._chance, clock=clock, most=self._config.eosin_acl_max_entries
        )

    def subscribe(self, listener: ClusterListener) -> None:
        self._listeners.add(listener)

    # Topics --------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = USE_DEFAULT,
        replication_factor: int = USE_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] = NO_CONFIGS,
        validate_only: bool = False,
    ) -> Outcome:
        if (kept := await self._turn_of_new_topic(name)) is not None:
            return kept
        refused = topics.check_new_name(name, topics=self.topics, namesake=self._image.namesake(name))
        if refused is not None:
            return refused
        own = self._new_configs(configs)
        if isinstance(own, Outcome):
            return own
        size = topics.size_of_new_topic(
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            defaults=topics.TopicSize(self._config.num_partitions, 1),
            brokers=self.replica_ids,
        )
        if isinstance(size, Outcome):
            return size
        topic_id = ZERO_UUID if validate_only else self._chance.uuid()
        topic = Topic(name, topic_id, size.partitions, own)
        return Outcome(ErrorCode.NONE, topic=topic) if validate_only else await self._create(topic)

    async def _turn_of_new_topic(self, name: str) -> Outcome | None:
        """Wait until no other change of the name is on its way. Returns why nothing of the name can be created."""
        turn = topics.collision_key(name)
        await self._writer.turn(turn)
        while self._log_manager.may_inherit_deleted(name):
            try:
                await self._log_manager.forget_deleted(name)
            except OSError as error:
                return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, f"An older topic of this name is not put away: {error}")
            await self._writer.turn(turn)
        return None

    async def _create(self, topic: Topic) -> Outcome:
        def created() -> None:
            self._listeners.changed(partitions=_events(topic, 0, before=None, after=self._state_here()))

        turn = topics.collision_key(topic.name)
        return await self._writer.change(turn, TopicKey(topic.name), topic_record(topic), created, topic)

    def _new_configs(self, configs: Mapping[str, str | None]) -> Mapping[str, str] | Outcome:
        own: dict[str, str] = {}
        for config, value in sorted(configs.items()):
            if value is None:
                return Outcome(ErrorCode.INVALID_CONFIG, f"A null value is not supported for {config}")
            own[config] = value
        return check_topic_configs(own, defaults=self._log_configs.defaults) or own

    async def create_automatically(self, name: str, client_host: str, principal: Principal = ANONYMOUS) -> Outcome:
        return await (self._create_internal(name) if name in INTERNAL_TOPICS else self.create_topic(name))

    async def create_for_client(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str | None],
        client_host: str,
        principal: Principal,
    ) -> Outcome:
        return await self.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    def want_internal_topic(self, name: str) -> None:
        if name not in self.topics and self._creating is None:  # but for this one, all exist since the first start
            self._creating = asyncio.get_running_loop().create_task(self._create_internal(name))
            self._creating.add_done_callback(self._created_internal)

    async def _create_internal(self, name: str) -> Outcome:
        assert name == SHARE_GROUP_STATE_TOPIC, f"{name} exists since the first start"
        if (kept := await self._turn_of_new_topic(name)) is not None:
            return kept
        if (there := self.topics.get(name)) is not None:
            return Outcome(ErrorCode.TOPIC_ALREADY_EXISTS, topic=there)
        return await self._create(internal_topics.share_group_state(self._config, self._chance))

    def _created_internal(self, creating: "asyncio.Task[Outcome]") -> None:
        self._creating = None
        if not creating.cancelled() and creating.result().error not in CREATED:
            _LOG.error("an internal topic cannot be created: %s", creating.result().message)

    async def delete_topic(self, name: str) -> Outcome:
        turn = topics.collision_key(name)
        await self._writer.turn(turn)
        topic = self.topics.get(name)
        refused = topics.check_deletion(topic, name)
        if topic is None or refused is not None:
            return refused or topics.unknown_topic(name)
        gone = topic

        def deleted() -> None:
            self._log_configs.forget(name)
            events = _events(gone, 0, before=self._state_here(), after=None)
            self._listeners.changed(partitions=events, topics_deleted=(gone,))

        return await self._writer.change(turn, TopicKey(name), None, deleted, gone)

    async def create_partitions(
        self,
        name: str,
        *,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> Outcome:
        turn = topics.collision_key(name)
        await self._writer.turn(turn)
        topic = self.topics.get(name)
        refused = topics.check_more_partitions(
            topic, name, count=count, assignments=assignments, brokers=self.replica_ids
        )
        if topic is None or refused is not None:
            return refused or topics.unknown_topic(name)
        grown, first_new = Topic(name, topic.topic_id, count, topic.configs, topic.internal), topic.partitions
        if validate_only:
            return Outcome(ErrorCode.NONE, topic=grown)

        def added() -> None:
            self._listeners.changed(partitions=_events(grown, first_new, before=None, after=self._state_here()))

        return await self._writer.change(turn, TopicKey(name), topic_record(grown), added, grown)

    # Configs -------------------------------------------------------------------------------------------------------

    async def alter_topic_configs(
        self, name: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        turn = topics.collision_key(name)
        await self._writer.turn(turn)
        topic = self.topics.get(name)
        if topic is None:
            return topics.unknown_topic(name)
        configs = changed_configs(
            topic.configs,
            changes,
            replace=replace,
            is_list=is_list_config,
            effective=lambda config: value_text(getattr(self._log_configs.defaults, config.replace(".", "_"), None)),
        )
        if isinstance(configs, Outcome):
            return configs
        fixed = internal_topics.fixed_configs(name) if topic.internal else NO_CONFIGS
        refused = check_topic_configs(configs, defaults=self._log_configs.defaults, fixed=fixed)
        if refused is not None:
            return refused
        changed = Topic(name, topic.topic_id, topic.partitions, configs, topic.internal)
        if validate_only:
            return Outcome(ErrorCode.NONE, topic=changed)

        def altered() -> None:
            self._log_configs.forget(name)
            self._listeners.changed(configs=(changed,))

        return await self._writer.change(turn, TopicKey(name), topic_record(changed), altered, changed)

    async def alter_broker_configs(
        self,
        node_id: int | None,
        changes: Sequence[ConfigChange],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> Outcome:
        await self._writer.turn(_BROKER_CONFIGS)
        configs = changed_configs(
            self.broker_configs(node_id),
            changes,
            replace=replace,
            is_list=is_list_setting,
            effective=self._broker_setting,
        )
        if isinstance(configs, Outcome):
            return configs
        if (refused := check_broker_configs(configs)) is not None or validate_only:
            return refused or Outcome(ErrorCode.NONE)

        def altered() -> None:
            for name in DYNAMIC_UNUSED.intersection(change.name for change in changes) & configs.keys():
                _LOG.warning("the broker setting %s is kept, and has no effect: Eosin does not have it", name)
            self._apply_broker_configs()
            self._listeners.changed(configs=self.topics.values())

        key = BrokerConfigsKey(ALL_BROKERS if node_id is None else node_id)
        return await self._writer.change(_BROKER_CONFIGS, key, broker_configs_record(configs), altered)

    async def alter_group_configs(
        self, group_id: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        turn = f"{_GROUP_CONFIGS} {group_id}"
        await self._writer.turn(turn)
        before = self.group_configs(group_id)
        configs = changed_configs(
            before, changes, replace=replace, is_list=lambda name: False, effective=lambda name: None
        )
        if isinstance(configs, Outcome):
            return configs
        if (refused := check_group_configs(configs, before, self._config)) is not None or validate_only:
            return refused or Outcome(ErrorCode.NONE)
        records = group_config_records(group_id, before, configs)
        if not records:
            return Outcome(ErrorCode.NONE)

        def altered() -> None:
            for name in sorted(KEPT.intersection(change.name for change in changes) & configs.keys()):
                _LOG.warning("group %.256r: %s is kept, and has no effect", group_id, name)

        return await self._writer.change_all(turn, records, altered)

    def _broker_setting(self, name: str) -> str | None:
        if name not in BROKER_SETTINGS:
            return None
        return self.broker_configs(None).get(name, self._config.text(name))

    def _apply_broker_configs(self) -> None:
        self._log_configs.apply_broker_configs(
            self._image.broker_configs(ALL_BROKERS), self._image.broker_configs(self.node_id)
        )

    # Users ---------------------------------------------------------------------------------------------------------

    @property
    def credentials(self) -> Credentials:
        return self._image.credentials

    async def alter_credentials(self, decide: Callable[[Credentials], Sequence[CredentialChange]]) -> Outcome:
        await self._writer.turn(_USERS)
        changes = decide(self._image.credentials)
        if not changes:
            return Outcome(ErrorCode.NONE)
        held = self._image.credentials
        is_replaced = any(each.mechanism in held.of(each.user) for each in changes)
        outcome = await self._writer.change_all(_USERS, credential_records(changes))
        if is_replaced and outcome.error is ErrorCode.NONE:  # what is secret no more shall not stay on the disk either
            self._log_manager.cleaner.request(METADATA_PARTITION, self._log.log_end_offset)
        return outcome

    async def keep_secret(self, secret: bytes) -> Outcome:
        await self._writer.turn(_USERS)
        if self._image.credentials.secret is not None:
            return Outcome(ErrorCode.NONE)
        return await self._writer.change(_USERS, ScramSecretKey(), ScramSecretRecord(secret))

    # Quotas --------------------------------------------------------------------------------------------------------

    @property
    def quotas(self) -> QuotaTable:
        return self._image.quotas

    async def alter_quotas(self, changes: Sequence[QuotaChange]) -> Outcome:
        if not changes:
            return Outcome(ErrorCode.NONE)
        await self._writer.turn(_QUOTAS)
        records = [
            (
                ClientQuotaKey(tuple(QuotaKeyPart(*part) for part in change.entity), change.key),
                None if change.value is None else ClientQuotaValue(change.value),
            )
            for change in changes
        ]
        return await self._writer.change_all(_QUOTAS, records)

    # Features ------------------------------------------------------------------------------------------------------

    async def finalize_levels(self, levels: Mapping[str, int]) -> Outcome:
        await self._writer.turn(_START)
        wanted = {**self._image.levels, **levels}
        if wanted == dict(self._image.levels):
            return Outcome(ErrorCode.NONE)
        record = self._image.start_record(start_count=self._image.start_count, levels=wanted)
        return await self._writer.change(_START, StartKey(), record, lambda: self._listeners.changed(features=True))

    # Producer ids --------------------------------------------------------------------------------------------------

    async def allocate_block(self) -> range:
        await self._writer.turn(_PRODUCER_IDS)
        start = self._image.next_producer_id
        end = start + PRODUCER_IDS_PER_BLOCK
        if end > _PRODUCER_IDS_MAX:
            raise OSError(errno.EOVERFLOW, "all producer ids have been given out")
        outcome = await self._writer.change(_PRODUCER_IDS, ProducerIdsKey(), ProducerIdsRecord(end))
        if outcome.error != ErrorCode.NONE:
            raise OSError(errno.EIO, "cannot store a block of producer ids", str(METADATA_PARTITION))
        return range(start, end)


def _events(
    topic: Topic, first: int, *, before: PartitionState | None, after: PartitionState | None
) -> Sequence[PartitionEvent]:
    """The same change of each of the topic's partitions from `first` on."""
    return [
        PartitionEvent(TopicPartition(topic.name, index), before, after) for index in range(first, topic.partitions)
    ]
