"""`DataDirectory`: one data directory as a whole: its lock, its owner, the kind of its last stop, and the names in it.

Always true: the lock is held from `open` to `close`; the mark of a clean stop is removed before anything else is
touched and written after everything else (storage.md sections 2 and 11); a name that is not understood is refused,
never removed.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from eosin.protocol.names import (
    METADATA_TOPIC,
    TopicPartition,
    Uuid,
    is_legal_topic_name,
    is_usable_uuid,
    uuid_from_text,
    uuid_text,
)
from eosin.runtime.chance import Chance
from eosin.storage.disk.interfaces import Disk, Lock, UnusableDirectory
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import DirectoryKind, MetaProperties, claimed
from eosin.storage.disk.space import DiskSpace, WritePurpose, is_no_space

LOCK: Final = ".lock"
CLEAN_MARK: Final = ".kafka_cleanshutdown"
DELETED: Final = "delete"
STRAY: Final = "stray"
BROKER_EPOCH: Final = "eosin.broker.epoch"
METADATA_OFFSET: Final = "eosin.metadata.offset"
"""The epoch that this broker was last unfenced with, of a broker of a quorum (cluster.md 2.9)."""
NO_BROKER_EPOCH: Final = -1
BOOT_ID: Final = ".eosin_boot_id"
"""Names the boot of the machine during which the directory was last open."""
SYSTEM_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
KRAFT_METADATA: Final = "__cluster_metadata-0"
"""Directory in which Apache Kafka keeps the records that Eosin keeps in a log of its own."""
_NOT_OURS: Final = frozenset({"lost+found"})
_MAX_NAME: Final = 255
_RETIRED_NAME: Final = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")


class UnknownName(UnusableDirectory):
    """There is something in the directory that is no partition."""


class ForeignDirectory(UnusableDirectory):
    """The directory belongs to another cluster or node."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a data directory."""

    is_clean: bool
    """True if the last stop was clean."""
    partitions: tuple[TopicPartition, ...]
    deleted: tuple[str, ...]
    """Paths of partition directories that only wait to be removed."""
    same_boot: bool = False
    """True if the machine is known not to have stopped since: then everything that was ever written is there."""
    broker_epoch: int = NO_BROKER_EPOCH
    """The epoch of the last run of a broker of a quorum, if nothing that it acknowledged can be lost; else -1."""


class DataDirectory:
    """A directory that holds partitions."""

    def __init__(self, disk: Disk, path: str, space: DiskSpace) -> None:
        """On a full disk it takes room from the reserve of `space`."""
        self.path = path
        self._disk = disk
        self._space = space
        self._lock: Lock | None = None
        self.properties: MetaProperties | None = None

    def open(self, *, node_id: int, cluster_id: str | None, chance: Chance, joined: bool = False) -> Contents:
        """Take the directory, making it if there is none; `joined`: for a broker of a quorum. Blocks. Raises
        UnusableDirectory, OSError."""
        if joined:
            refuse_for_quorum(self._disk, self.path, node_id=node_id, cluster_id=cluster_id)
        self._disk.make_directory(self.path)
        self._lock = self._disk.lock(f"{self.path}/{LOCK}")
        try:
            self._refuse_apache_kafkas()
            self.properties = (
                format_for_quorum(self._disk, self.path, node_id=node_id, cluster_id=cluster_id, chance=chance)
                if joined
                else self._identify(node_id=node_id, cluster_id=cluster_id, chance=chance)
            )
            return self._list_contents()
        except BaseException:
            self.close()
            raise

    def _refuse_apache_kafkas(self) -> None:
        """A log that Eosin does not read names its topics: every partition would be set aside."""
        if self._disk.is_directory(f"{self.path}/{KRAFT_METADATA}"):
            raise ForeignDirectory(
                f"it is Apache Kafka's: {KRAFT_METADATA} is in it (docs/operations.md tells how to take its partitions)"
            )

    def _identify(self, *, node_id: int, cluster_id: str | None, chance: Chance) -> MetaProperties:
        path = f"{self.path}/{META_PROPERTIES}"
        if self._disk.size(path) is not None:
            found = MetaProperties.decode(self._disk.read_whole(path))
            if found.kind is DirectoryKind.KRAFT:
                raise ForeignDirectory(
                    "it belongs to a broker of a quorum: give its controllers in controller.quorum.bootstrap.servers,"
                    " or name another directory with --data-dir"
                )
            _check_owner(found, node_id=node_id, cluster_id=cluster_id)
            return found
        made = MetaProperties(
            cluster_id=cluster_id or uuid_text(chance.uuid()),
            node_id=node_id,
            directory_id=uuid_text(chance.uuid()),
            kind=DirectoryKind.STANDALONE,
        )
        self._disk.write_atomic(path, made.encode())
        return made

    def _list_contents(self) -> Contents:
        names = self._disk.list(self.path)
        partitions: list[TopicPartition] = []
        deleted: list[str] = []
        for name in names:
            path = f"{self.path}/{name}"
            if name in _NOT_OURS or not self._disk.is_directory(path):
                continue
            retired = _RETIRED_NAME.fullmatch(name)
            if retired is None:
                partitions.append(parse_partition(name))
            elif retired[1] == DELETED:
                deleted.append(path)
        is_clean = CLEAN_MARK in names
        broker_epoch = self._clean_epoch(names) if is_clean else self._crashed_epoch(names)
        if is_clean:
            self._disk.unlink(f"{self.path}/{CLEAN_MARK}")
            self._disk.sync_directory(self.path)
        return Contents(is_clean, tuple(partitions), tuple(deleted), self._note_boot(names), broker_epoch)

    def _clean_epoch(self, names: list[str]) -> int:
        """The broker epoch that the mark of a clean stop names. -1 unless it is the one that this directory's broker
        was last unfenced with: a mark from somewhere else claims nothing."""
        if BROKER_EPOCH not in names:
            return NO_BROKER_EPOCH
        stopped, unfenced = (
            _epoch_in(self._disk.read_whole(f"{self.path}/{name}")) for name in (CLEAN_MARK, BROKER_EPOCH)
        )
        return stopped if stopped == unfenced else NO_BROKER_EPOCH

    def _crashed_epoch(self, names: list[str]) -> int:
        """The broker epoch of a run that did not end with a clean stop. -1 unless that run made everything durable that
        it acknowledged, in this very directory: a copy of it may be older than what was acknowledged since."""
        if BROKER_EPOCH not in names:
            return NO_BROKER_EPOCH
        data = self._disk.read_whole(f"{self.path}/{BROKER_EPOCH}")
        return _epoch_in(data) if _directory_in(data) == self._identity() else NO_BROKER_EPOCH

    def _identity(self) -> str:
        """Tells the directory from copies of it, as far as the disk can."""
        return self._disk.identity(f"{self.path}/{LOCK}")

    def save_broker_epoch(self, broker_epoch: int, *, outlives_crashes: bool) -> None:
        """Note, durably, the epoch with which this broker is about to be unfenced, and whether everything that it will
        acknowledge outlives kill -9 and power losses. Blocks. Raises OSError."""
        self._space.attempt(
            WritePurpose.VITAL,
            self._disk.write_atomic,
            f"{self.path}/{BROKER_EPOCH}",
            _epoch_file(broker_epoch, durable_in=self._identity() if outlives_crashes else None),
            durable=True,
        )

    def forget_broker_epoch(self) -> None:
        """Forget that run's epoch: no start claims it, as acknowledged records may be lost. Blocks. Raises OSError."""
        if self._disk.size(f"{self.path}/{BROKER_EPOCH}") is not None:
            self._disk.unlink(f"{self.path}/{BROKER_EPOCH}")
            self._disk.sync_directory(self.path)

    def save_metadata_offset(self, offset: int) -> None:
        """Note how far the cluster's metadata have come: a quorum that has less was reset (cluster.md 3.7). Blocks.
        Raises OSError."""
        self._disk.write_atomic(f"{self.path}/{METADATA_OFFSET}", b"%d\n" % offset, durable=False)

    def metadata_offset(self) -> int:
        """The last offset of `save_metadata_offset`; -1 before, and for a file that cannot be read. Blocks."""
        try:
            return int(self._disk.read_whole(f"{self.path}/{METADATA_OFFSET}"))
        except (OSError, ValueError):  # it is a guard, and nothing else is lost with it
            return -1

    def _note_boot(self, names: list[str]) -> bool:
        """True if the directory was last open during this boot; it is now."""
        boot_id = boot_of(self._disk, self.path)
        if boot_id is None:
            return False
        path = f"{self.path}/{BOOT_ID}"
        if BOOT_ID in names and self._disk.read_whole(path) == boot_id:
            return True
        try:
            self._space.attempt(WritePurpose.VITAL, self._disk.write_atomic, path, boot_id, durable=False)
        except OSError as error:
            if not is_no_space(error):
                raise
            # What is there, if anything, names an earlier boot: the next start only presumes less.
        return False

    @property
    def cluster_id(self) -> str:
        """The cluster that the directory belongs to. Known once it is open."""
        assert self.properties is not None
        return self.properties.cluster_id

    @property
    def directory_id(self) -> Uuid:
        """The directory's own id. Known once it is open."""
        assert self.properties is not None
        return uuid_from_text(self.properties.directory_id)

    def mark_clean(self, *, broker_epoch: int) -> None:
        """Mark the stop as clean, since everything is saved: the last call before `close`. Blocks."""
        self._space.attempt(
            WritePurpose.VITAL,
            self._disk.write_atomic,
            f"{self.path}/{CLEAN_MARK}",
            _epoch_file(broker_epoch),
            durable=True,
        )

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def partition_path(self, partition: TopicPartition) -> str:
        """The directory of a partition."""
        return f"{self.path}/{partition}"

    def retire(self, partition: TopicPartition, reason: str, chance: Chance) -> str | None:
        """Rename a partition's directory so that it is served no more; its new path, None if there was none. Blocks."""
        path = self.partition_path(partition)
        if not self._disk.is_directory(path):
            return None
        suffix = f"-{partition.partition}.{chance.uuid().hex()}-{reason}"
        renamed = f"{self.path}/{partition.topic[: _MAX_NAME - len(suffix)]}{suffix}"
        self._disk.rename(path, renamed)
        return renamed


def refuse_for_quorum(disk: Disk, path: str, *, node_id: int, cluster_id: str | None) -> None:
    """Raise UnusableDirectory when a directory cannot be that of broker `node_id` of the quorum's cluster, None for any
    cluster. Touches nothing. Blocks."""
    if not disk.is_directory(path):
        if cluster_id is None:
            raise ForeignDirectory(_UNFORMATTED)
        return
    names = [name for name in disk.list(path) if name not in _NOT_OURS and name != LOCK]
    if META_PROPERTIES not in names:
        if names:
            raise ForeignDirectory(
                f"it has no {META_PROPERTIES}, and {names[0]} is in it: only an empty one is formatted"
            )
        if cluster_id is None:
            raise ForeignDirectory(_UNFORMATTED)
        return
    found = MetaProperties.decode(disk.read_whole(f"{path}/{META_PROPERTIES}"))
    if found.kind is DirectoryKind.STANDALONE or f"{METADATA_TOPIC}-0" in names:
        raise ForeignDirectory(
            "it belongs to a broker that runs alone: name another directory with --data-dir,"
            " or see eosin format --adopt"
        )
    _check_owner(found, node_id=node_id, cluster_id=cluster_id)
    if found.directory_id and not is_usable_uuid(found.directory_id):
        raise ForeignDirectory(
            f"directory.id in {META_PROPERTIES} must be an id of its own, not {found.directory_id!r}"
        )


def is_unformatted(disk: Disk, path: str) -> bool:
    """True if a directory is not there, or has nothing in it. Blocks."""
    return not disk.is_directory(path) or not [n for n in disk.list(path) if n not in _NOT_OURS and n != LOCK]


def format_for_quorum(disk: Disk, path: str, *, node_id: int, cluster_id: str | None, chance: Chance) -> MetaProperties:
    """Make a directory that `refuse_for_quorum` lets pass that of broker `node_id`, durably; nothing changes if it is
    so already. Blocks. Raises OSError."""
    file = f"{path}/{META_PROPERTIES}"
    if disk.size(file) is None:
        assert cluster_id is not None, "it was refused"
        made = MetaProperties(cluster_id, node_id, uuid_text(chance.uuid()), DirectoryKind.KRAFT)
        disk.write_atomic(file, made.encode())
        return made
    data = disk.read_whole(file)
    found = MetaProperties.decode(data)
    if found.kind is DirectoryKind.KRAFT and found.directory_id:
        return found
    if not found.directory_id and disk.size(f"{path}/{BROKER_EPOCH}") is not None:
        # A new id is for content that may not be what the last run left: its epoch claims nothing (cluster.md 1.4).
        disk.unlink(f"{path}/{BROKER_EPOCH}")
        disk.sync_directory(path)
    taken = MetaProperties(
        found.cluster_id, found.node_id, found.directory_id or uuid_text(chance.uuid()), DirectoryKind.KRAFT
    )
    disk.write_atomic(file, claimed(data, taken))
    return taken


def give_to_quorum(disk: Disk, path: str, *, directory_id: str, chance: Chance) -> None:
    """Make the directory of a broker that ran alone that of a broker of a quorum, durably. Its own metadata are set
    aside last: until then both kinds of broker refuse it. Blocks. Raises OSError."""
    file = f"{path}/{META_PROPERTIES}"
    data = disk.read_whole(file)
    found = MetaProperties.decode(data)
    taken = MetaProperties(found.cluster_id, found.node_id, directory_id, DirectoryKind.KRAFT)
    disk.write_atomic(file, claimed(data, taken))
    disk.rename(f"{path}/{METADATA_TOPIC}-0", f"{path}/{METADATA_TOPIC}-0.{chance.uuid().hex()}-{STRAY}")
    disk.sync_directory(path)


_UNFORMATTED: Final = "it is not formatted: run eosin format, or give the cluster's id with --cluster-id"


def _check_owner(found: MetaProperties, *, node_id: int, cluster_id: str | None) -> None:
    if cluster_id not in (None, found.cluster_id):
        raise ForeignDirectory(f"it belongs to cluster {found.cluster_id}, not {cluster_id}")
    if node_id != found.node_id:
        raise ForeignDirectory(f"it belongs to node {found.node_id}, not {node_id}")


def _epoch_file(broker_epoch: int, *, durable_in: str | None = None) -> bytes:
    """A broker epoch as Apache Kafka writes it into the mark of a clean stop. `durable_in` names the directory in which
    all that is acknowledged outlives a crash."""
    content: dict[str, int | str] = {"version": 0, "brokerEpoch": broker_epoch}
    if durable_in is not None:
        content["durableIn"] = durable_in
    return json.dumps(content, separators=(",", ":")).encode()


def _epoch_in(data: bytes) -> int:
    """The epoch of such a file; -1 for anything else, such as the empty mark of older releases."""
    epoch = _content_of(data).get("brokerEpoch")
    return epoch if isinstance(epoch, int) and epoch >= 0 else NO_BROKER_EPOCH


def _directory_in(data: bytes) -> str | None:
    """The directory that such a file names."""
    directory = _content_of(data).get("durableIn")
    return directory if isinstance(directory, str) else None


def _content_of(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError:
        return {}
    return content if isinstance(content, dict) and content.get("version") == 0 else {}


def boot_of(disk: Disk, data_dir: str) -> bytes | None:
    """Names the boot of the machine and the directory's lock file, which the directory keeps for life: a directory that
    was copied back within one boot lacks what the page cache had, as after a power loss. None where the system does not
    tell (not Linux, or a disk of a test): then what was not synced may always be lost."""
    try:
        boot_id = disk.read_whole(SYSTEM_BOOT_ID)
        identity = disk.identity(f"{data_dir}/{LOCK}").encode()
    except OSError:
        return None
    return boot_id.rstrip() + b" " + identity if identity else boot_id


def parse_partition(name: str) -> TopicPartition:
    """The partition that a directory's name stands for. Raises UnknownName."""
    topic, _, number = name.rpartition("-")
    if not is_legal_topic_name(topic) or not number.isdecimal() or str(int(number)) != number:
        raise UnknownName(f"the directory {name} in it is no partition; move it away")
    return TopicPartition(topic, int(number))
