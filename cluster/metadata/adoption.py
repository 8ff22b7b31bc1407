"""A directory of a broker that runs alone becomes that of the first broker of a quorum (cluster.md 1.9).

The quorum cannot be told of topics that exist: it gives new ids to those that it makes. So the topics go into the
`bootstrap.checkpoint` of its first controller, which takes them for its own before anything else. Always true:
- Nothing is written unless all of it can be: the controller was never started and is the only voter, and the directory
  was stopped cleanly and is read without a fault.
- The checkpoint is written first and the directory given away last, so that whatever stops in between is done again by
  the same command; what a broker that runs alone may have done meanwhile is in the new checkpoint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from eosin.cluster.metadata.adopted_logs import GROUP_KINDS, CannotAdopt, GroupKind, batches_of, groups_of
from eosin.cluster.metadata.image import ALL_BROKERS, MetadataImage
from eosin.cluster.quorum import bootstrap
from eosin.cluster.quorum.rules.errors import QuorumUnreadable
from eosin.model.cluster import METADATA_PARTITION
from eosin.model.credentials import SECRET_SETTING, Credentials, secret_text
from eosin.model.features import SUPPORTED_JOINED
from eosin.model.quota_table import QuotaTable
from eosin.protocol.names import TopicPartition, Uuid, is_usable_uuid, uuid_from_text, uuid_text
from eosin.protocol.records.batch import CorruptRecords, iter_records
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.schemas.records import cluster_metadata
from eosin.protocol.schemas.records.cluster_metadata import AclRecord
from eosin.protocol.schemas.records.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from eosin.protocol.types import DecodeError, Message
from eosin.runtime.chance import Chance
from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint
from eosin.storage.disk.data_directory import KRAFT_METADATA, give_to_quorum
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import DirectoryKind, MetaProperties
from eosin.storage.inspection.directory import Directory, lock, read_directory
from eosin.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from eosin.storage.log.leader_epochs import LeaderEpochs

_TOPIC_CONFIG: Final = 2
_BROKER_CONFIG: Final = 4
_GROUP_CONFIG: Final = 32
_VALUES: Final = {kind.key.struct: kind.value.struct for kind in cluster_metadata.KINDS}
_OURS: Final = (
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    ProducerIdsRecord,
    AccessControlEntryRecord,
    ClientQuotaRecord,
)
"""Records that an earlier run may have put into the checkpoint, and Apache Kafka's tool never does."""
_ALONE_ONLY: Final = "delete.retention.ms"
"""A broker that runs alone keeps little of what compaction of internal topics drops; a replica that was away may need
more (cluster.md 4.1)."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """Numbers of the topics and partitions that the quorum will begin with."""

    topics: int
    partitions: int
    groups: Mapping[GroupKind, int]
    """Number of those of each kind that has some, but for classic ones. They have no members if the quorum begins at
    level 0 of their kind."""
    unserved: tuple[GroupKind, ...]
    """The kinds that the directory has served, and that the quorum does not until its level rises."""


def adopt(
    disk: Disk, path: str, controller: str, *, node_id: int, cluster_id: str, chance: Chance, now_ms: int
) -> Adopted:
    """Make `path` the directory of broker `node_id` of the quorum whose first controller has the directory
    `controller`. Raises UnusableDirectory, then with nothing written, and OSError."""
    held = lock(disk, path)
    try:
        directory = _own(disk, path, node_id=node_id, cluster_id=cluster_id)
        kept = _bootstrap_of(disk, controller, node_id=node_id, cluster_id=cluster_id)
        image = _image(disk, path)
        levels = {kind: _level_of(kind.feature, kept) for kind in GROUP_KINDS}
        groups = _groups_that_go_on(disk, directory, image, controller=controller, levels=levels)
        directory_id = directory.properties.directory_id or uuid_text(chance.uuid())
        records = topic_records(
            image,
            node_id=node_id,
            directory_id=uuid_from_text(directory_id),
            leader_epoch=_next_leader_epoch(disk, directory, image),
        )
        disk.write_atomic(f"{controller}/{bootstrap.FILE_NAME}", bootstrap.snapshot([*kept, *records], now_ms=now_ms))
        give_to_quorum(disk, path, directory_id=directory_id, chance=chance)
        return Adopted(
            len(image.topics),
            image.partition_count,
            groups={kind: number for kind, number in groups.items() if number},
            unserved=tuple(
                kind for kind, level in levels.items() if not level and (groups[kind] or image.levels.get(kind.feature))
            ),
        )
    finally:
        held.release()


def topic_records(image: MetadataImage, *, node_id: int, directory_id: Uuid, leader_epoch: int) -> list[Message]:
    """Records of all that a quorum must know of the topics, settings, users, rights, quotas and producer ids of a
    broker that ran alone, in an order in which it can be replayed. `leader_epoch` is above every one in the logs."""
    records: list[Message] = []
    if image.next_producer_id > 0:
        records.append(ProducerIdsRecord(node_id, -1, image.next_producer_id))
    for of_all in (ALL_BROKERS, node_id):
        name = "" if of_all == ALL_BROKERS else str(node_id)
        records += _configs(_BROKER_CONFIG, name, image.broker_configs(of_all))
    for group_id in image.configured_groups:
        records += _configs(_GROUP_CONFIG, group_id, image.group_configs(group_id))
    if image.credentials.secret is not None:  # else users who were never there would get other salts from now on
        records += _configs(_BROKER_CONFIG, "", {SECRET_SETTING: secret_text(image.credentials.secret)})
    records += [AccessControlEntryRecord(acl_id, *fields_of(acl)) for acl_id, acl in image.acls.items()]
    records += _quotas(image.quotas)
    here = (node_id,)
    for topic in image.topics.values():
        records.append(TopicRecord(topic.name, topic.topic_id))
        configs = {name: value for name, value in topic.configs.items() if not topic.internal or name != _ALONE_ONLY}
        records += _configs(_TOPIC_CONFIG, topic.name, configs)
        # Without the last known leader nobody could be elected: a first registration counts as an unclean stop, which
        # empties the ISR where eligible leader replicas are on.
        records += [
            PartitionRecord(
                partition_id=partition,
                topic_id=topic.topic_id,
                replicas=here,
                isr=here,
                leader=-1,
                leader_epoch=leader_epoch,
                partition_epoch=0,
                directories=(directory_id,),
                last_known_elr=here,
            )
            for partition in range(topic.partitions)
        ]
    # Last: users before any record of ours are of Apache Kafka's tool, and stay when adoption is done again.
    return [*records, *_users(image.credentials)]


def fields_of(acl: AclRecord) -> tuple[int, str, int, str, str, int, int]:
    """An access control entry as Kafka's record has it, but for the id."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _configs(kind: int, name: str, configs: Mapping[str, str]) -> Iterator[ConfigRecord]:
    return (ConfigRecord(kind, name, each, value) for each, value in configs.items())


def _quotas(quotas: QuotaTable) -> Iterator[ClientQuotaRecord]:
    for entity, values in quotas:
        of = tuple(EntityData(*part) for part in entity)
        yield from (ClientQuotaRecord(of, key, value) for key, value in values.items())


def _users(credentials: Credentials) -> Iterator[UserScramCredentialRecord]:
    for user in credentials.users():
        for mechanism, stored in credentials.of(user).items():
            yield UserScramCredentialRecord(
                user, mechanism, stored.salt, stored.stored_key, stored.server_key, stored.iterations
            )


# The directory -------------------------------------------------------------------------------------------------------


def _own(disk: Disk, path: str, *, node_id: int, cluster_id: str) -> Directory:
    """The directory, if it can be given away."""
    directory = read_directory(disk, path)
    properties = directory.properties
    has_metadata = disk.is_directory(f"{path}/{METADATA_PARTITION}")
    if properties.kind is DirectoryKind.KRAFT and not has_metadata:
        raise CannotAdopt("it belongs to a broker of a quorum already")
    if not has_metadata:
        raise CannotAdopt(f"it has no {METADATA_PARTITION}: no broker that ran alone has left it")
    if properties.cluster_id != cluster_id:
        raise CannotAdopt(
            f"it belongs to cluster {properties.cluster_id}, and the quorum has to be of the same id, not {cluster_id}"
        )
    if properties.node_id != node_id:
        raise CannotAdopt(f"it belongs to node {properties.node_id}, not {node_id}")
    if properties.directory_id and not is_usable_uuid(properties.directory_id):
        raise CannotAdopt(f"directory.id in {META_PROPERTIES} must be an id of its own")
    if not directory.is_clean:
        raise CannotAdopt("its last stop was not clean: start its broker once more, and stop it with SIGTERM")
    if directory.problems:
        first = directory.problems[0]
        raise CannotAdopt(f"{first.file}: {first.reason}")
    return directory


def _image(disk: Disk, path: str) -> MetadataImage:
    """The metadata of a directory that was stopped cleanly."""
    image = MetadataImage()
    for found in batches_of(disk, path, METADATA_PARTITION):
        _apply(image, bytes(found.data))
    if not image.start_count:  # the first record of every broker that ran alone
        raise CannotAdopt(f"{METADATA_PARTITION} has no record of a start")
    return image


def _apply(image: MetadataImage, batch: bytes) -> None:
    try:
        for record in iter_records(batch):
            key = decode_key(cluster_metadata.KINDS, record.key or b"")
            if key is None:
                raise DecodeError("a kind of record that this version does not know")
            image.apply(key, None if record.value is None else decode_value(_VALUES[type(key)], record.value))
    except (CorruptRecords, DecodeError) as error:
        raise CannotAdopt(f"{METADATA_PARTITION} cannot be read: {error}") from error


def _groups_that_go_on(
    disk: Disk, directory: Directory, image: MetadataImage, *, controller: str, levels: Mapping[GroupKind, int]
) -> Mapping[GroupKind, int]:
    """The number of groups of each kind. Their records are in the logs, so that members go on where they were; at level
    0 of a kind nobody serves them. Raises CannotAdopt where a group would be torn apart by that."""
    known = {kind.feature for kind in GROUP_KINDS}
    if unknown := next((name for name, level in image.levels.items() if level and name not in known), None):
        raise CannotAdopt(f"it is at level {image.levels[unknown]} of {unknown}, which no quorum can be told of")
    found = groups_of(disk, directory)
    for kind, (_, with_members) in found.items():
        if with_members and not levels[kind]:
            raise CannotAdopt(
                f"{kind.name} groups have members, as {', '.join(with_members)}, and the controller in {controller}"
                f" begins with {kind.feature} 0: format it with --feature {kind.feature}=1, or start its broker once"
                f" more, {kind.way_out}"
            )
    return {kind: number for kind, (number, _) in found.items()}


def _level_of(feature: str, records: list[Message]) -> int:
    """The level of a feature with which the quorum begins; 0 if its records do not name it."""
    found = [each.feature_level for each in records if isinstance(each, FeatureLevelRecord) and each.name == feature]
    return found[-1] if found else 0


def _next_leader_epoch(disk: Disk, directory: Directory, image: MetadataImage) -> int:
    """Above every epoch in which a leader has written: of this broker's starts, and of whoever had the logs before."""
    epochs = [image.start_count]
    for partition in directory.partitions:
        epochs.append(_latest_epoch(disk, directory.path, partition) + 1)
    return max(epochs)


def _latest_epoch(disk: Disk, path: str, partition: TopicPartition) -> int:
    try:
        return LeaderEpochs.decode(disk.read_whole(f"{path}/{partition}/{LEADER_EPOCHS}")).latest
    except FileNotFoundError:
        return -1
    except MalformedCheckpoint as error:
        raise CannotAdopt(f"{partition}: {error}") from error


# The quorum ----------------------------------------------------------------------------------------------------------


def _bootstrap_of(disk: Disk, controller: str, *, node_id: int, cluster_id: str) -> list[Message]:
    """The records in the first controller's checkpoint but for those that an earlier run has put there; that controller
    has never written anything."""
    file = f"{controller}/{bootstrap.FILE_NAME}"
    properties = f"{controller}/{META_PROPERTIES}"
    log = f"{controller}/{KRAFT_METADATA}"
    if disk.size(properties) is None or disk.size(file) is None:
        if disk.size(f"{log}/{bootstrap.FIRST_CHECKPOINT}") is not None:
            raise CannotAdopt(
                f"{controller} was formatted by Apache Kafka 4.4 or later: format and start it with 4.3, and upgrade it"
            )
        raise CannotAdopt(f"{controller} is no directory of a controller that kafka-storage has formatted")
    found = MetaProperties.decode(disk.read_whole(properties))
    if found.cluster_id != cluster_id:
        raise CannotAdopt(f"the controller in {controller} belongs to cluster {found.cluster_id}, not {cluster_id}")
    if found.node_id == node_id:
        raise CannotAdopt(f"the controller in {controller} is node {node_id}, too: give it another node.id")
    names = disk.list(log) if disk.is_directory(log) else []
    if any(name.endswith(".log") for name in names):
        raise CannotAdopt(f"the controller in {controller} was started: only one that never was takes topics over")
    try:
        voting = bootstrap.voters(disk.read_whole(f"{log}/{bootstrap.FIRST_CHECKPOINT}"))
        records = bootstrap.metadata_records(disk.read_whole(file))
    except FileNotFoundError:
        voting, records = (), []
    except QuorumUnreadable as error:
        raise CannotAdopt(f"{controller} cannot be read: {error}") from error
    if voting != (found.node_id,):
        raise CannotAdopt(
            f"the controller in {controller} is not the only voter: format it with --standalone, and add others later"
        )
    _refuse_levels(controller, records)
    return list(_without_earlier(records, node_id))


def _refuse_levels(controller: str, records: list[Message]) -> None:
    """Levels that would shut the broker out of its own cluster, with the directory given away."""
    for record in records:
        if isinstance(record, FeatureLevelRecord):
            low, high = SUPPORTED_JOINED.get(record.name, (0, 0))
            if record.feature_level and not low <= record.feature_level <= high:
                raise CannotAdopt(
                    f"the controller in {controller} begins with {record.name} {record.feature_level}, and brokers of"
                    f" Eosin join at {low} to {high}: format it anew as docs/cluster.md shows"
                )


def _without_earlier(records: list[Message], node_id: int) -> Iterator[Message]:
    is_behind_ours = False
    for record in records:
        if isinstance(record, PartitionRecord) and record.replicas != (node_id,):
            raise CannotAdopt("another broker's topics are in the quorum already")
        is_behind_ours = is_behind_ours or isinstance(record, _OURS)
        # A user of an earlier run may have been deleted since: it must not come back with its old password.
        if not isinstance(record, _OURS) and not (is_behind_ours and isinstance(record, UserScramCredentialRecord)):
            yield record
