"""`DataDirectory`: one data directory as a whole: its lock, its owner, the kind of its last stop, and the names in it.

Always true: the lock is held from `open` to `close`; the mark of a clean stop is removed before anything else is
touched and written after everything else (storage.md sections 2 and 11); a name that is not understood is refused,
never removed.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from eosin.protocol.names import TopicPartition, Uuid, is_legal_topic_name, uuid_from_text, uuid_text
from eosin.runtime.chance import Chance
from eosin.storage.disk.interfaces import Disk, Lock, UnusableDirectory
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import MetaProperties
from eosin.storage.disk.space import DiskSpace, Need, is_no_space

LOCK: Final = ".lock"
CLEAN_MARK: Final = ".kafka_cleanshutdown"
DELETED: Final = "delete"
STRAY: Final = "stray"
BOOT_ID: Final = ".eosin_boot_id"
"""Names the boot of the machine during which the directory was last open."""
SYSTEM_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
KRAFT_METADATA: Final = "__cluster_metadata-0"
"""Where Apache Kafka keeps what Eosin keeps in a log of its own."""
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
    """Whether the last stop was clean."""
    partitions: tuple[TopicPartition, ...]
    deleted: tuple[str, ...]
    """Paths of partition directories that only wait to be removed."""
    same_boot: bool = False
    """Whether the machine is known not to have stopped since: then everything that was ever written is there."""


class DataDirectory:
    """A directory that holds partitions."""

    def __init__(self, disk: Disk, path: str, space: DiskSpace) -> None:
        """On a full disk it takes room from the reserve of `space`."""
        self.path = path
        self._disk = disk
        self._space = space
        self._lock: Lock | None = None
        self.properties: MetaProperties | None = None

    def open(self, *, node_id: int, cluster_id: str | None, chance: Chance) -> Contents:
        """Take the directory, making it if there is none. Blocks. Raises UnusableDirectory, OSError."""
        self._disk.make_directory(self.path)
        self._lock = self._disk.lock(f"{self.path}/{LOCK}")
        try:
            self._refuse_apache_kafkas()
            self.properties = self._identify(node_id=node_id, cluster_id=cluster_id, chance=chance)
            return self._take_stock()
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
            if cluster_id not in (None, found.cluster_id):
                raise ForeignDirectory(f"it belongs to cluster {found.cluster_id}, not {cluster_id}")
            if node_id != found.node_id:
                raise ForeignDirectory(f"it belongs to node {found.node_id}, not {node_id}")
            return found
        made = MetaProperties(
            cluster_id=cluster_id or uuid_text(chance.uuid()),
            node_id=node_id,
            directory_id=uuid_text(chance.uuid()),
        )
        self._disk.write_atomic(path, made.encode())
        return made

    def _take_stock(self) -> Contents:
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
        if is_clean:
            self._disk.unlink(f"{self.path}/{CLEAN_MARK}")
            self._disk.sync_directory(self.path)
        return Contents(is_clean, tuple(partitions), tuple(deleted), self._note_boot(names))

    def _note_boot(self, names: list[str]) -> bool:
        """Whether the directory was last open during this boot; it is now."""
        boot_id = boot_of(self._disk, self.path)
        if boot_id is None:
            return False
        path = f"{self.path}/{BOOT_ID}"
        if BOOT_ID in names and self._disk.read_whole(path) == boot_id:
            return True
        try:
            self._space.attempt(Need.VITAL, self._disk.write_atomic, path, boot_id, durable=False)
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
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._space.attempt(
            Need.VITAL, self._disk.write_atomic, f"{self.path}/{CLEAN_MARK}", content.encode(), durable=True
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
