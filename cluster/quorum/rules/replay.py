"""Records of the metadata log, applied one after the other: they make the next image (cluster.md 3.8 and 3.9).

A `Replay` grows what is to be published next, beside the image that was published last, and takes its changes out as
one `ImageDelta`. Always true: an image that was taken never changes; between the first and the last record of a
transaction nothing of it can be taken, and after its abort nothing of it is left (KIP-868); a record that contradicts
what came before it raises `QuorumUnreadable` (cluster.md 1.8), after which the replay is of no more use.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from eosin.cluster.quorum.rules.errors import QuorumUnreadable
from eosin.cluster.quorum.rules.image import (
    EMPTY,
    MIGRATING_DIRECTORY,
    BrokerEndpoint,
    ClusterImage,
    ImageDelta,
    PartitionChange,
    PartitionRegistration,
    QuotaEntities,
    QuotaEntity,
    RegisteredBroker,
    ScramKey,
    TopicImage,
)
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message
from eosin.runtime.sorted_map import Editor, SortedMap

Steps = Generator[None, None, "ImageDelta"]
"""Work in small steps, so that an event loop can do something else in between; returns what it has made."""

_STEP: Final = 256
"""Partitions that are compared in one step: well below a millisecond."""
_SAME_LEADER: Final = -2
_RECOVERY_STATES: Final = (0, 1)

T = TypeVar("T")


class Contradiction(Exception):
    """A record does not fit the image."""


class Replay:
    """The image in the making, and the one before it."""

    def __init__(self, published: ClusterImage = EMPTY, *, is_snapshot: bool = False) -> None:
        """Go on from `published`. With `is_snapshot` begin with nothing instead: the records of a snapshot are the
        whole cluster, and what they lack is gone (cluster.md 3.5)."""
        self._published = published
        self._is_snapshot = is_snapshot
        self._before_transaction: ClusterImage | None = None
        self._topics_touched: dict[Uuid, None] = {}
        self._partitions_touched: dict[tuple[Uuid, int], None] = {}
        self._configs_touched: set[tuple[int, str]] = set()
        self._acls_touched: set[Uuid] = set()
        self._adopt(EMPTY if is_snapshot else published)

    @property
    def published(self) -> ClusterImage:
        """The image that was taken last."""
        return self._published

    @property
    def offset(self) -> int:
        """The last offset that was applied; `NO_OFFSET` at first."""
        return self._offset

    @property
    def is_in_transaction(self) -> bool:
        """True if a transaction of the controller is open."""
        return self._before_transaction is not None

    def apply(self, offset: int, record: Message) -> None:
        """Apply one data record. Raises QuorumUnreadable."""
        try:
            _APPLY[type(record)](self, record)
        except Contradiction as error:
            raise QuorumUnreadable(
                f"the {type(record).__name__} at offset {offset} of the metadata log contradicts what came before it: "
                f"{error}"
            ) from error

    def advance(self, offset: int, epoch: int) -> None:
        """A batch is over, of data or of control records: its last offset, and its raft epoch."""
        self._offset = offset
        self._epoch = epoch

    def publishable_offset(self) -> int:
        """The offset of the image that could be taken now."""
        return self._offset if self._before_transaction is None else self._before_transaction.offset

    def publish(self) -> ImageDelta:
        """Take what has changed, all of it or up to the transaction that is open."""
        return finished(self.publish_in_steps())

    def publish_in_steps(self) -> Steps:
        """As `publish`, in small steps; nothing may be applied between them. The image counts as taken at the end."""
        before = self._published
        after = self._frozen() if self._before_transaction is None else self._before_transaction
        if self._is_snapshot:
            topics: dict[Uuid, None] = dict.fromkeys((*before.topic_names, *after.topic_names))
            partitions: dict[tuple[Uuid, int], None] = {}
            configs, acls = {*before.configs, *after.configs}, {*before.acls, *after.acls}
            for topic in (*before.topics.values(), *after.topics.values()):
                partitions.update(((topic.topic_id, partition), None) for partition in topic.partitions)
                yield
        else:
            topics, partitions, configs = self._topics_touched, self._partitions_touched, self._configs_touched
            acls = self._acls_touched
        deleted, created = _topics_changed(before, after, topics)
        gone = [
            PartitionChange(TopicPartition(topic.name, partition), registration, None)
            for topic in deleted
            for partition, registration in topic.partitions.items()
        ]
        changed: list[PartitionChange] = []
        for count, (topic_id, partition) in enumerate(partitions):
            if count % _STEP == 0:
                yield
            change = _partition_change(before, after, topic_id, partition)
            if change is not None:
                changed.append(change)
        yield
        delta = ImageDelta(
            before=before,
            after=after,
            topics_deleted=deleted,
            topics_created=created,
            partitions_changed=gone + changed,
            configs_changed=frozenset(
                resource for resource in configs if before.configs.get(resource) != after.configs.get(resource)
            ),
            brokers_changed=self._differ(before.brokers, after.brokers),
            features_changed=self._differ(before.features, after.features),
            controllers_changed=self._differ(before.controllers, after.controllers),
            acls_changed=frozenset(each for each in acls if before.acls.get(each) != after.acls.get(each)),
            scram_changed=self._differ(before.scram, after.scram),
            quotas_changed=self._differ(before.quotas, after.quotas),
            tokens_changed=self._differ(before.tokens, after.tokens),
        )
        self._published = after
        self._is_snapshot = False
        if self._before_transaction is None:  # else they may have been touched in the transaction
            self._topics_touched, self._partitions_touched, self._configs_touched = {}, {}, set()
            self._acls_touched = set()
        return delta

    def _differ(self, before: object, after: object) -> bool:
        """Maps that nobody has touched are the same object; those of a snapshot are others, and may be equal."""
        return before is not after and (not self._is_snapshot or before != after)

    # The state

    def _adopt(self, image: ClusterImage) -> None:
        """Go on from `image`."""
        self._offset, self._epoch = image.offset, image.epoch
        self._brokers = _editor(image.brokers)
        self._topics = image.topics.edit()
        self._topic_names = image.topic_names.edit()
        self._configs = _editor(image.configs)
        self._features = _editor(image.features)
        self._controllers = _editor(image.controllers)
        self._acls = _editor(image.acls)
        self._scram = _editor(image.scram)
        self._quotas = _editor(image.quotas)
        self._tokens = _editor(image.tokens)
        self._next_producer_id = image.next_producer_id
        self._partition_count = image.partition_count
        self._open: dict[Uuid, Editor[int, PartitionRegistration]] = {}
        """Partitions of the topics that have been changed since the last image was taken, by topic id."""

    def _frozen(self) -> ClusterImage:
        """The image of what has been applied."""
        for topic_id, partitions in self._open.items():
            name = self._topic_names.get(topic_id)
            assert name is not None, "a topic that is removed closes its partitions"
            self._topics[name] = TopicImage(name, topic_id, partitions.frozen())
        self._open = {}
        return ClusterImage(
            offset=self._offset,
            epoch=self._epoch,
            brokers=self._brokers.frozen(),
            topics=self._topics.frozen(),
            topic_names=self._topic_names.frozen(),
            configs=self._configs.frozen(),
            features=self._features.frozen(),
            next_producer_id=self._next_producer_id,
            controllers=self._controllers.frozen(),
            acls=self._acls.frozen(),
            scram=self._scram.frozen(),
            quotas=self._quotas.frozen(),
            tokens=self._tokens.frozen(),
            partition_count=self._partition_count,
        )

    # Brokers and controllers

    def _register_broker(self, record: records.RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = RegisteredBroker(
            node_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints={
                each.name: BrokerEndpoint(each.name, each.host, each.port, each.security_protocol)
                for each in record.end_points
            },
            features={each.name: (each.min_supported_version, each.max_supported_version) for each in record.features},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs,
        )

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        del self._brokers[record.broker_id]

    def _fence_broker(self, record: records.FenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._registered(record.id, record.epoch), fenced=True)

    def _unfence_broker(self, record: records.UnfenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._registered(record.id, record.epoch), fenced=False)

    def _change_registration(self, record: records.BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise Contradiction(
                f"fenced {record.fenced} and controlled shutdown {record.in_controlled_shutdown} are not known"
            )
        cordoned = record.cordoned_log_dirs
        self._brokers[record.broker_id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            log_dirs=record.log_dirs or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else cordoned,
        )

    def _registered(self, node_id: int, epoch: int) -> RegisteredBroker:
        broker: RegisteredBroker | None = self._brokers.get(node_id)
        if broker is None:
            raise Contradiction(f"broker {node_id} is not registered")
        if broker.epoch != epoch:
            raise Contradiction(f"broker {node_id} is registered with epoch {broker.epoch}, not {epoch}")
        return broker

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = record

    def _unregister_controller(self, record: records.UnregisterControllerRecord) -> None:
        _put_or_remove(self._controllers, record.controller_id, None)

    # Topics and partitions

    def _create_topic(self, record: records.TopicRecord) -> None:
        if self._topics.get(record.name) is not None or self._topic_names.get(record.topic_id) is not None:
            raise Contradiction(f"there is a topic {record.name} or one with its id already")
        self._topics[record.name] = TopicImage(record.name, record.topic_id, SortedMap())
        self._topic_names[record.topic_id] = record.name
        self._topics_touched[record.topic_id] = None

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        topic_id = record.topic_id
        name = self._name_of(topic_id)
        self._partition_count -= len(self._partitions(topic_id).frozen())
        del self._open[topic_id]
        del self._topics[name]
        del self._topic_names[topic_id]
        self._topics_touched[topic_id] = None
        resource = (ConfigResourceType.TOPIC.value, name)
        if self._configs.get(resource) is not None:
            del self._configs[resource]
            self._configs_touched.add(resource)

    def _put_partition(self, record: records.PartitionRecord) -> None:
        partitions = self._partitions(record.topic_id)
        self._partition_count += partitions.get(record.partition_id) is None
        partitions[record.partition_id] = PartitionRegistration(
            replicas=record.replicas,
            isr=_shared(record.isr, record.replicas),
            removing=record.removing_replicas,
            adding=record.adding_replicas,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
            directories=_directories(record.directories, len(record.replicas)),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovering=_is_recovering(record.leader_recovery_state),
        )
        self._partitions_touched[record.topic_id, record.partition_id] = None

    def _change_partition(self, record: records.PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        before = partitions.get(record.partition_id)
        if before is None:
            raise Contradiction(f"{self._name_of(record.topic_id)}-{record.partition_id} does not exist")
        partitions[record.partition_id] = merged(before, record)
        self._partitions_touched[record.topic_id, record.partition_id] = None

    def _clear_elr(self, record: records.ClearElrRecord) -> None:
        if record.topic_name:
            topic = self._topics.get(record.topic_name)
            if topic is None:
                raise Contradiction(f"there is no topic {record.topic_name}")
            topic_ids = [topic.topic_id]
        else:
            topic_ids = list(self._topic_names.frozen())
        for topic_id in topic_ids:
            partitions = self._partitions(topic_id)
            for number, each in partitions.frozen().items():
                if each.elr or each.last_known_elr:
                    partitions[number] = replace(
                        each, elr=(), last_known_elr=(), partition_epoch=each.partition_epoch + 1
                    )
                    self._partitions_touched[topic_id, number] = None

    def _partitions(self, topic_id: Uuid) -> Editor[int, PartitionRegistration]:
        found = self._open.get(topic_id)
        if found is None:
            topic = self._topics.get(self._name_of(topic_id))
            assert topic is not None
            found = self._open[topic_id] = topic.partitions.edit()
        return found

    def _name_of(self, topic_id: Uuid) -> str:
        name = self._topic_names.get(topic_id)
        if name is None:
            raise Contradiction(f"there is no topic with id {topic_id.hex()}")
        return name

    # Settings and the rest

    def _set_config(self, record: records.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        settings = dict(self._configs.get(resource) or {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        _put_or_remove(self._configs, resource, settings)
        self._configs_touched.add(resource)

    def _set_feature(self, record: records.FeatureLevelRecord) -> None:
        _put_or_remove(self._features, record.name, record.feature_level)

    def _give_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _set_quota(self, record: records.ClientQuotaRecord) -> None:
        entities: QuotaEntities = tuple(
            sorted(QuotaEntity(each.entity_type, each.entity_name) for each in record.entity)
        )
        limits = dict(self._quotas.get(entities) or {})
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        _put_or_remove(self._quotas, entities, limits)

    def _add_acl(self, record: records.AccessControlEntryRecord) -> None:
        self._acls[record.id] = record
        self._acls_touched.add(record.id)

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        if self._acls.get(record.id) is None:
            raise Contradiction(f"there is no access control entry {record.id.hex()}")
        del self._acls[record.id]
        self._acls_touched.add(record.id)

    def _set_scram(self, record: records.UserScramCredentialRecord) -> None:
        self._scram[ScramKey(record.name, record.mechanism)] = record

    def _remove_scram(self, record: records.RemoveUserScramCredentialRecord) -> None:
        _put_or_remove(self._scram, ScramKey(record.name, record.mechanism), None)

    def _set_token(self, record: records.DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = record

    def _remove_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        _put_or_remove(self._tokens, record.token_id, None)

    def _ignore(self, record: Message) -> None:
        return

    # Transactions

    def _begin(self, record: records.BeginTransactionRecord) -> None:
        if self._before_transaction is not None:
            raise Contradiction("a transaction is open already")
        self._before_transaction = self._frozen()

    def _end(self, record: records.EndTransactionRecord) -> None:
        if self._before_transaction is None:
            raise Contradiction("no transaction is open")
        self._before_transaction = None

    def _abort(self, record: records.AbortTransactionRecord) -> None:
        if self._before_transaction is None:
            raise Contradiction("no transaction is open")
        offset, epoch = self._offset, self._epoch
        self._adopt(self._before_transaction)
        self._before_transaction = None
        self.advance(offset, epoch)


_APPLY: Final[Mapping[type[Message], Callable[[Replay, Any], None]]] = {
    records.RegisterBrokerRecord: Replay._register_broker,
    records.UnregisterBrokerRecord: Replay._unregister_broker,
    records.TopicRecord: Replay._create_topic,
    records.PartitionRecord: Replay._put_partition,
    records.ConfigRecord: Replay._set_config,
    records.PartitionChangeRecord: Replay._change_partition,
    records.FenceBrokerRecord: Replay._fence_broker,
    records.UnfenceBrokerRecord: Replay._unfence_broker,
    records.RemoveTopicRecord: Replay._remove_topic,
    records.DelegationTokenRecord: Replay._set_token,
    records.UserScramCredentialRecord: Replay._set_scram,
    records.FeatureLevelRecord: Replay._set_feature,
    records.ClientQuotaRecord: Replay._set_quota,
    records.ProducerIdsRecord: Replay._give_producer_ids,
    records.BrokerRegistrationChangeRecord: Replay._change_registration,
    records.AccessControlEntryRecord: Replay._add_acl,
    records.RemoveAccessControlEntryRecord: Replay._remove_acl,
    records.NoOpRecord: Replay._ignore,
    records.ZkMigrationStateRecord: Replay._ignore,
    records.RemoveUserScramCredentialRecord: Replay._remove_scram,
    records.BeginTransactionRecord: Replay._begin,
    records.EndTransactionRecord: Replay._end,
    records.AbortTransactionRecord: Replay._abort,
    records.RemoveDelegationTokenRecord: Replay._remove_token,
    records.RegisterControllerRecord: Replay._register_controller,
    records.ClearElrRecord: Replay._clear_elr,
    records.UnregisterControllerRecord: Replay._unregister_controller,
}


def merged(before: PartitionRegistration, record: records.PartitionChangeRecord) -> PartitionRegistration:
    """The partition after a change: each change raises its epoch, and a leader that is named raises the leader epoch,
    also when it is the same one (cluster.md 3.9). Raises Contradiction."""
    has_leader = record.leader != _SAME_LEADER
    replicas = before.replicas if record.replicas is None else record.replicas
    directories = before.directories if record.directories is None else record.directories
    if len(directories) != len(replicas):
        raise Contradiction(f"{len(directories)} directories of {len(replicas)} replicas")
    state = record.leader_recovery_state
    return PartitionRegistration(
        replicas=replicas,
        isr=_shared(_or(record.isr, before.isr), replicas),
        removing=_or(record.removing_replicas, before.removing),
        adding=_or(record.adding_replicas, before.adding),
        elr=_or(record.eligible_leader_replicas, before.elr),
        last_known_elr=_or(record.last_known_elr, before.last_known_elr),
        directories=directories,
        leader=record.leader if has_leader else before.leader,
        leader_epoch=before.leader_epoch + has_leader,
        partition_epoch=before.partition_epoch + 1,
        recovering=before.recovering if state == -1 else _is_recovering(state),
    )


def finished(steps: Generator[None, None, T]) -> T:
    """Do all the steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _topics_changed(
    before: ClusterImage, after: ClusterImage, touched: Mapping[Uuid, None]
) -> tuple[list[TopicImage], list[TopicImage]]:
    """The touched topics that are gone, and those that are new."""
    deleted, created = [], []
    for topic_id in touched:
        was, is_now = before.topic_by_id(topic_id), after.topic_by_id(topic_id)
        if was is not None and is_now is None:
            deleted.append(was)
        elif was is None and is_now is not None:
            created.append(is_now)
    return deleted, created


def _partition_change(
    before: ClusterImage, after: ClusterImage, topic_id: Uuid, partition: int
) -> PartitionChange | None:
    """The change of a partition; None if its topic is gone or nothing changed."""
    is_now = after.topic_by_id(topic_id)
    if is_now is None:
        return None
    was = before.topic_by_id(topic_id)
    old = None if was is None else was.partitions.get(partition)
    new = is_now.partitions.get(partition)
    return None if old == new else PartitionChange(TopicPartition(is_now.name, partition), old, new)


def _editor(of: Mapping[Any, Any]) -> Editor[Any, Any]:
    return (of if isinstance(of, SortedMap) else SortedMap(of)).edit()


def _put_or_remove(entries: Editor[Any, Any], key: Any, value: Any) -> None:
    """Put what is there, and take out what is empty, 0 or None."""
    if value:
        entries[key] = value
    elif entries.get(key) is not None:
        del entries[key]


def _or(value: tuple[int, ...] | None, unchanged: tuple[int, ...]) -> tuple[int, ...]:
    return unchanged if value is None else value


def _shared(value: tuple[int, ...], same: tuple[int, ...]) -> tuple[int, ...]:
    """`same` in place of its equal: most partitions have all their replicas in sync, and an image holds many."""
    return same if value == same else value


def _directories(named: tuple[Uuid, ...], replicas: int) -> tuple[Uuid, ...]:
    """One directory for each replica; one that is not named counts as MIGRATING."""
    if named and len(named) != replicas:
        raise Contradiction(f"{len(named)} directories of {replicas} replicas")
    return named or (MIGRATING_DIRECTORY,) * replicas


def _is_recovering(state: int) -> bool:
    if state not in _RECOVERY_STATES:
        raise Contradiction(f"leader recovery state {state} is not known")
    return state == 1
