"""`JoinedCluster`: a cluster of several machines as one of its brokers knows it, from the metadata of a quorum of
controllers.

Reads come from the image of the last publication; changes go to the active controller (`ControllerRequests`). Always
true: `topics` and everything derived from it show one image; `ClusterListener`s are told of the difference to the
image before in the order of cluster.md 3.6, all in the step in which it is swapped, but for publications of very many
partitions: there each partition has its own one step, soon after. Nothing here waits.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from eosin.cluster.membership.producer_ids import QuorumProducerIds
from eosin.cluster.membership.rules.registration import serves_readers
from eosin.cluster.metadata.controller_requests import ControllerRequests, packed_host
from eosin.cluster.metadata.internal_topics import joined_configs
from eosin.cluster.metadata.listeners import ClusterListeners, PartitionEvent
from eosin.cluster.metadata.log_configs import LogConfigs
from eosin.cluster.quorum.rules.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ClusterImage,
    ImageDelta,
    PartitionChange,
    PartitionRegistration,
    TopicImage,
)
from eosin.model.cluster import (
    NO_CONFIGS,
    NO_LEADER,
    NO_LEADER_EPOCH,
    ClusterListener,
    ConfigChange,
    Endpoint,
    Outcome,
    PartitionState,
    Quorum,
    Topic,
)
from eosin.model.credentials import (
    SECRET_SETTING,
    CredentialChange,
    Credentials,
    StoredCredential,
    secret_of,
    secret_text,
)
from eosin.model.features import KRAFT_VERSION, SUPPORTED_JOINED, Features
from eosin.model.principals import ANONYMOUS, Principal
from eosin.model.quota_table import QuotaChange, QuotaTable
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TopicPartition,
    Uuid,
)

if TYPE_CHECKING:
    from eosin.cluster.membership.channel import ControllerChannel
    from eosin.cluster.membership.envelopes import Envelopes
    from eosin.cluster.metadata.acl_entries import ImageAclEntries
    from eosin.cluster.quorum.leader import ActiveController
    from eosin.model.acls import Acl
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.log.config import LogConfig

_LOG: Final = logging.getLogger("eosin.cluster.metadata")

SHOWN_WITHIN_MS: Final = 500
"""Longest time that a client that changed something waits until this broker shows it too (cluster.md 5.3)."""
PARTITIONS_A_STEP: Final = 128
"""Partitions that follow a publication in one step: 2 to 8 ms of work."""
_ALL_BROKERS: Final = ""
_EVERY_BROKER: Final = (ConfigResourceType.BROKER, _ALL_BROKERS)
"""The name of the resource whose settings hold for all brokers."""
_TOLD_OF_A_NEW_TOPIC: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""The errors that a client gets for a topic that it named; anything else is a topic that is not there yet."""
_EVERYWHERE: Final = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})
"""Directory ids that say nothing: the replica counts as online (cluster.md 4.18)."""


class JoinedCluster(ControllerRequests):
    """Implements `eosin.model.cluster.Cluster`, and `eosin.coordinator.transactions.ports.ProducerIds`."""

    is_joined: Final = True

    def __init__(
        self,
        *,
        config: "BrokerConfig",
        cluster_id: str,
        channel: "ControllerChannel",
        envelopes: "Envelopes",
        find_leader: "Callable[[], ActiveController | None]",
        own_epoch: Callable[[], int],
        controller_levels: Callable[[], Mapping[str, int]],
    ) -> None:
        """`channel` is for this broker's own requests to the controller, `envelopes` for those of clients; `own_epoch`
        is this broker's present epoch; `controller_levels` are those of features as the controller told them last."""
        super().__init__(channel, envelopes)
        self.node_id: int = config.node_id
        self.cluster_id = cluster_id
        self.image = ClusterImage()
        """The cluster at the last published offset."""
        self._config = config
        self._find_leader = find_leader
        self._controller_levels = controller_levels
        self._producer_ids = QuorumProducerIds(channel, node_id=config.node_id, broker_epoch=own_epoch)
        self._inter_broker_listener = config.inter_broker_listener
        self._endpoints: dict[str, Endpoint] = {}
        self._listeners = ClusterListeners()
        self._topics: dict[str, Topic] = {}
        self.topics: Mapping[str, Topic] = MappingProxyType(self._topics)
        self._log_configs = LogConfigs(config, self.topics)
        self._alive: dict[str, tuple[Endpoint, ...]] = {}
        """The answer of `brokers`, by listener."""
        self._without: dict[str, frozenset[int]] = {}
        """The same for `brokers_without`."""
        self._for_readers: dict[str, tuple[Endpoint, ...]] = {}
        """The same for `brokers_for_readers`."""
        self._racks: Mapping[int, str] | None = None
        """The racks of registered brokers that have one; None before somebody asks, and when brokers have changed."""
        self._partition_racks: dict[str, tuple[TopicImage, tuple[tuple[str, ...], ...]]] = {}
        """The answers of `partition_racks`, each with what it was made of."""
        self._version = 0
        self.on_image: list[Callable[[ImageDelta], None]] = []
        """Called with each publication before the listeners are: replicas follow the image first (cluster.md 3.6). Of
        many partitions they come in parts, each a delta between the same two images."""
        self.credentials = Credentials()
        self.quotas = QuotaTable()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._creating: dict[str, asyncio.Task[Outcome]] = {}
        self._acl_entries: ImageAclEntries | None = None
        """Only where an authorizer asks."""

    def advertise(self, listener: str, host: str, port: int) -> None:
        """Clients of `listener` reach this broker at this address."""
        self._endpoints[listener] = Endpoint(self.node_id, host, port, self._config.broker_rack)

    # Publications --------------------------------------------------------------------------------------------------

    def publish(self, delta: ImageDelta) -> None:
        """Show another image, and tell everybody, now."""
        for _ in self.publish_in_steps(delta):
            pass

    def publish_in_steps(self, delta: ImageDelta) -> Generator[None, None, None]:
        """As `publish`, for the follower of the metadata: the first step swaps the image, and no step takes long
        (cluster.md 2.10). Nothing else may be published before the end."""
        self.image = delta.after
        if self._acl_entries is not None:
            self._acl_entries.apply(delta)
        if delta.brokers_changed:
            self._alive.clear()
            self._without.clear()
            self._for_readers.clear()
            self._racks = None
            self._partition_racks.clear()
        if delta.scram_changed:
            self._apply_credentials(delta)
        if delta.quotas_changed:
            self.quotas.replace_all(delta.after.quotas)
        changed = self._apply_topics(delta)
        own = _EVERY_BROKER, (ConfigResourceType.BROKER, str(self.node_id))
        if not delta.configs_changed.isdisjoint(own):
            self._apply_broker_configs()
            self._apply_secret()
            changed = list(self._topics.values())
        if changed or delta.topics_deleted or delta.partitions_changed or delta.brokers_changed:
            self._version += 1
        for number, part in enumerate(_parts(delta, self.node_id)):
            if number:
                yield
            for follow in self.on_image:
                follow(part)
            self._listeners.changed(partitions=_events(part))
        self._listeners.changed(
            topics_deleted=map(_as_deleted, delta.topics_deleted),
            configs=changed,
            brokers=delta.brokers_changed,
            features=delta.features_changed,
        )
        for true, shown in self._waiting:
            if not shown.done() and true():
                shown.set_result(None)

    def _apply_credentials(self, delta: ImageDelta) -> None:
        """Follow the users. There are few, and they change rarely."""
        before, after = delta.before.scram, delta.after.scram
        for key, record in after.items():
            if before.get(key) is not record:
                stored = StoredCredential(record.salt, record.stored_key, record.server_key, record.iterations)
                self.credentials.put(record.name, record.mechanism, stored)
        for key, record in before.items():
            if key not in after:
                self.credentials.remove(record.name, record.mechanism)

    def _apply_secret(self) -> None:
        """Follow the secret behind users who are not there. One that is gone stays until there is another."""
        text = self.image.configs.get(_EVERY_BROKER, NO_CONFIGS).get(SECRET_SETTING)
        if text:
            self.credentials.secret = secret_of(text)

    def _apply_topics(self, delta: ImageDelta) -> list[Topic]:
        """Follow the topics; those that existed before and whose settings have changed."""
        for gone in delta.topics_deleted:
            self._topics.pop(gone.name, None)
            self._log_configs.forget(gone.name)
            self._partition_racks.pop(gone.name, None)
        settings = {name for kind, name in delta.configs_changed if kind == ConfigResourceType.TOPIC}
        touched = dict.fromkeys(settings) | dict.fromkeys(each.name for each in delta.topics_created)
        touched |= dict.fromkeys(each.partition.topic for each in delta.partitions_changed if each.before is None)
        changed = []
        for name in touched:
            found = self.image.topics.get(name)
            if found is None:
                continue
            known = self._topics.get(name)
            topic = self._topics[name] = self._topic(found)
            if known is not None and name in settings and known.topic_id == topic.topic_id:
                changed.append(topic)
            self._log_configs.forget(name)
        return changed

    def _topic(self, found: TopicImage) -> Topic:
        configs = self.image.configs.get((ConfigResourceType.TOPIC, found.name), NO_CONFIGS)
        return Topic(found.name, found.topic_id, len(found.partitions), configs, found.name in INTERNAL_TOPICS)

    def _apply_broker_configs(self) -> None:
        self._log_configs.apply_broker_configs(self.broker_configs(None), self.broker_configs(self.node_id))

    async def shown(self, true: Callable[[], bool], *, within_ms: int = SHOWN_WITHIN_MS) -> bool:
        """Wait until `true` holds after a publication; whether it did in time."""
        if true():
            return True
        waiting = true, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await asyncio.wait((waiting[1],), timeout=within_ms / 1000)
            return waiting[1].done()
        finally:
            self._waiting.remove(waiting)

    # Reads ---------------------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """This broker: what admin clients send there is passed on to the controller (cluster.md 5.5)."""
        return self.node_id

    @property
    def features(self) -> Features:
        """See `Cluster.features`: their epoch is the offset of the metadata."""
        finalized = self.image.features
        if kraft := self._controller_levels().get(KRAFT_VERSION, 0):
            finalized = {**finalized, KRAFT_VERSION: kraft}
        return Features(SUPPORTED_JOINED, finalized, self.image.offset)

    @property
    def metadata_version(self) -> int:
        """See `Cluster.metadata_version`."""
        return self._version

    @property
    def partition_count(self) -> int:
        """See `Cluster.partition_count`."""
        return self.image.partition_count

    def partition_racks(self, topic: str) -> tuple[tuple[str, ...], ...]:
        """See `Cluster.partition_racks`: brokers count that are registered, alive or not."""
        if self._racks is None:
            self._racks = {each.node_id: each.rack for each in self.image.brokers.values() if each.rack is not None}
        found, racks = self.image.topics.get(topic), self._racks
        if found is None or not racks:
            return ()
        known = self._partition_racks.get(topic)
        if known is not None and known[0] is found:
            return known[1]
        by_replicas: dict[tuple[int, ...], tuple[str, ...]] = {}
        for each in found.partitions.values():
            if each.replicas not in by_replicas:
                by_replicas[each.replicas] = tuple(sorted(racks[node] for node in each.replicas if node in racks))
        made = tuple(by_replicas[each.replicas] for each in found.partitions.values())
        self._partition_racks[topic] = found, made
        return made

    def endpoint(self, listener: str) -> Endpoint:
        """See `Cluster.endpoint`."""
        return self._endpoints[listener]

    def endpoint_of(self, node_id: int, listener: str) -> Endpoint | None:
        """A registered broker, alive or not, as clients of `listener` reach it; None when it has no such listener."""
        broker = self.image.brokers.get(node_id)
        found = None if broker is None else broker.endpoints.get(listener)
        return None if broker is None or found is None else Endpoint(node_id, found.host, found.port, broker.rack)

    def brokers(self, listener: str) -> Sequence[Endpoint]:
        """See `Cluster.brokers`: those that the controller has not fenced (cluster.md 3.10)."""
        alive = self._alive.get(listener)
        if alive is None:
            found = (
                self.endpoint_of(each.node_id, listener) for each in self.image.brokers.values() if not each.fenced
            )
            alive = self._alive[listener] = tuple(each for each in found if each is not None)
        return alive

    def brokers_for_readers(self, listener: str) -> Sequence[Endpoint]:
        """See `Cluster.brokers_for_readers`: all but Eosin of a release that sends consumers back to the leader."""
        found = self._for_readers.get(listener)
        if found is None:
            found = self._for_readers[listener] = tuple(
                each for each in self.brokers(listener) if serves_readers(self.image.brokers[each.node_id].features)
            )
        return found

    def brokers_without(self, listener: str) -> frozenset[int]:
        """See `Cluster.brokers_without`."""
        without = self._without.get(listener)
        if without is None:
            without = self._without[listener] = frozenset(
                each.node_id for each in self.image.brokers.values() if listener not in each.endpoints
            )
        return without

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        """See `Cluster.inter_broker_endpoint`."""
        return self.endpoint_of(node_id, self._inter_broker_listener)

    def broker_epoch(self, node_id: int) -> int | None:
        """See `Cluster.broker_epoch`."""
        broker = self.image.brokers.get(node_id)
        return None if broker is None else broker.epoch

    def broker_configs(self, node_id: int | None) -> Mapping[str, str]:
        """See `Cluster.broker_configs`."""
        name = _ALL_BROKERS if node_id is None else str(node_id)
        configs = self.image.configs.get((ConfigResourceType.BROKER, name), NO_CONFIGS)
        if SECRET_SETTING in configs:  # told to nobody, and nothing that an operator has set
            return {each: value for each, value in configs.items() if each != SECRET_SETTING}
        return configs

    @property
    def broker_config_changes(self) -> int:
        """See `Cluster.broker_config_changes`."""
        return self._log_configs.broker_changes

    @property
    def configured_groups(self) -> Collection[str]:
        """See `Cluster.configured_groups`."""
        return tuple(name for kind, name in self.image.configs if kind == ConfigResourceType.GROUP)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """See `Cluster.group_configs`."""
        return self.image.configs.get((ConfigResourceType.GROUP, group_id), NO_CONFIGS)

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """See `Cluster.topic_by_id`."""
        name = self.image.topic_names.get(topic_id)
        return None if name is None else self._topics[name]

    def registration(self, partition: TopicPartition) -> PartitionRegistration | None:
        """The partition as the controller has written it; None when there is no such partition."""
        return self.image.partition(*partition)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """See `Cluster.leader_of`."""
        found = self.registration(partition)
        return None if found is None else found.leader

    def leader_epoch(self, partition: TopicPartition) -> int:
        """See `Cluster.leader_epoch`."""
        found = self.registration(partition)
        return NO_LEADER_EPOCH if found is None else found.leader_epoch

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        """See `Cluster.partition_state`."""
        found = self.registration(partition)
        return None if found is None else _state(found, self.image)

    def quorum(self) -> Quorum:
        """The leader of the metadata log, and how far this broker has followed it; only the controllers know more."""
        leader = self._find_leader()
        leader_id, epoch = (NO_LEADER, self.image.epoch) if leader is None else (leader.node_id, leader.epoch)
        return Quorum(leader_id, epoch, self.image.offset + 1, ())

    def log_config(self, topic: str) -> "LogConfig":
        """See `Cluster.log_config`."""
        return self._log_configs.of(topic)

    def acl_entries(self, clock: "Clock") -> "ImageAclEntries":
        """See `Cluster.acl_entries`."""
        from eosin.cluster.metadata.acl_entries import ImageAclEntries

        self._acl_entries = ImageAclEntries(self.image, clock)
        return self._acl_entries

    def shows_acl(self, acl: "Acl") -> bool:
        """True if this broker decides by the entry already, if it decides by any."""
        return self._acl_entries is None or acl in self._acl_entries

    def hides_acl(self, acl: "Acl") -> bool:
        """True if this broker decides by the entry no more."""
        return self._acl_entries is None or acl not in self._acl_entries

    def subscribe(self, listener: ClusterListener) -> None:
        """See `Cluster.subscribe`."""
        self._listeners.add(listener)

    # Changes -------------------------------------------------------------------------------------------------------

    async def create_automatically(self, name: str, client_host: str, principal: Principal = ANONYMOUS) -> Outcome:
        """See `Cluster.create_automatically`. The controller decides whether this client may (cluster.md 5.6)."""
        outcome = await self._create(
            name,
            lambda: self.create_topic_for(
                name,
                partitions=self._config.num_partitions,
                replication_factor=self._config.default_replication_factor,
                client_host=packed_host(client_host),
                principal=principal,
            ),
        )
        if outcome.error in _TOLD_OF_A_NEW_TOPIC:
            return outcome
        _LOG.info("the topic %s was not created for a client: %s: %s", name, outcome.error.name, outcome.message)
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, outcome.message)

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
        """See `Cluster.create_for_client`."""
        outcome = await self.create_topic_for(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
            client_host=packed_host(client_host),
            principal=principal,
        )
        if outcome.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            await self.shown(lambda: name in self._topics)
        return outcome

    def want_internal_topic(self, name: str) -> None:
        """See `Cluster.want_internal_topic`."""
        if name not in self._creating and name not in self._topics:
            asyncio.get_running_loop().create_task(self.create_internal(name))

    async def create_internal(self, name: str) -> Outcome:
        """Create an internal topic in this broker's own name, as its settings say."""
        config = self._config
        if name == CONSUMER_OFFSETS_TOPIC:
            partitions, setting = config.offsets_topic_num_partitions, "offsets.topic.replication.factor"
        elif name == SHARE_GROUP_STATE_TOPIC:
            partitions = config.share_coordinator_state_topic_num_partitions
            setting = "share.coordinator.state.topic.replication.factor"
        else:
            partitions = config.transaction_state_log_num_partitions
            setting = "transaction.state.log.replication.factor"
        factor = config.value(setting)
        outcome = await self._create(
            name,
            lambda: self.create_topic(
                name, partitions=partitions, replication_factor=factor, configs=joined_configs(name, config)
            ),
        )
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            why = f"{setting} is {factor}: {outcome.error.name}: {outcome.message}"
            _LOG.error("the internal topic %s cannot be created: %s", name, why)
        return outcome

    async def _create(self, name: str, create: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        creating = self._creating.get(name)
        if creating is None:
            creating = self._creating[name] = asyncio.get_running_loop().create_task(create())
            creating.add_done_callback(lambda _: self._creating.pop(name))
        done, _ = await asyncio.wait((creating,), timeout=SHOWN_WITHIN_MS / 1000)
        if not done:
            return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being created")
        outcome = creating.result()
        if outcome.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            await self.shown(lambda: name in self._topics)
        return outcome

    async def alter_group_configs(
        self, group_id: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        raise AssertionError("clients' changes of groups' settings are passed on to the controllers")

    async def alter_credentials(self, decide: Callable[[Credentials], Sequence[CredentialChange]]) -> Outcome:
        raise AssertionError("clients' changes of users are passed on to the controllers")

    async def alter_quotas(self, changes: Sequence[QuotaChange]) -> Outcome:
        raise AssertionError("clients' changes of quotas are passed on to the controllers")

    async def finalize_levels(self, levels: Mapping[str, int]) -> Outcome:
        raise AssertionError("clients' changes of features are passed on to the controllers")

    async def keep_secret(self, secret: bytes) -> Outcome:
        self._apply_secret()
        if self.credentials.secret is not None:
            return Outcome(ErrorCode.NONE)
        kept = await self.alter_broker_configs(None, [ConfigChange(SECRET_SETTING, secret_text(secret))])
        if kept.error is ErrorCode.NONE:  # of several brokers that do so at once the last one's counts, for all
            await self.shown(lambda: self.credentials.secret is not None)
        else:
            _LOG.warning(
                "the controllers keep no secret behind the salts of users who are not there (%s), so this broker's are"
                " its own until it stops: give its principal ALTER_CONFIGS on the cluster, and restart it",
                kept.message or kept.error.name,
            )
        if self.credentials.secret is None:
            self.credentials.secret = secret
        return Outcome(ErrorCode.NONE)

    async def allocate_block(self) -> range:
        """See `Cluster.allocate_block`."""
        await asyncio.sleep(0)  # it begins outside a task, in which the channel's timeout would not work
        return await self._producer_ids.allocate_block()


def _parts(delta: ImageDelta, node_id: int) -> Iterator[ImageDelta]:
    """The delta in parts of at most `PARTITIONS_A_STEP` partitions: first those that are gone from this broker, then
    those that it leads, then all others. All else that it tells is in the first part."""
    changes = delta.partitions_changed
    if len(changes) <= PARTITIONS_A_STEP:
        yield delta
        return

    def turn(change: PartitionChange) -> int:
        after = change.after
        if after is None or node_id not in after.replicas:
            return 0
        return 1 if after.leader == node_id else 2

    ordered = sorted(changes, key=turn)
    yield replace(delta, partitions_changed=ordered[:PARTITIONS_A_STEP])
    for start in range(PARTITIONS_A_STEP, len(ordered), PARTITIONS_A_STEP):
        part = ordered[start : start + PARTITIONS_A_STEP]
        yield ImageDelta(delta.before, delta.after, partitions_changed=part)


def _events(delta: ImageDelta) -> Sequence[PartitionEvent]:
    return [
        PartitionEvent(
            each.partition,
            None if each.before is None else _state(each.before, delta.before),
            None if each.after is None else _state(each.after, delta.after),
        )
        for each in delta.partitions_changed
    ]


def _as_deleted(gone: TopicImage) -> Topic:
    """The topic that is gone, as far as its followers need it: without settings."""
    return Topic(gone.name, gone.topic_id, len(gone.partitions), internal=gone.name in INTERNAL_TOPICS)


def _state(found: PartitionRegistration, image: ClusterImage) -> PartitionState:
    brokers = image.brokers
    offline = []
    for index, node_id in enumerate(found.replicas):
        broker = brokers.get(node_id)
        directory = found.directories[index] if index < len(found.directories) else MIGRATING_DIRECTORY
        if broker is None or broker.fenced or (directory not in _EVERYWHERE and directory not in broker.log_dirs):
            offline.append(node_id)
    return PartitionState(
        leader_id=found.leader if found.leader in brokers else NO_LEADER,
        leader_epoch=found.leader_epoch,
        replicas=found.replicas,
        isr=found.isr,
        offline=tuple(offline),
        partition_epoch=found.partition_epoch,
        eligible=found.elr,
        last_known_eligible=found.last_known_elr,
    )
