"""The metadata of a data directory whose broker is stopped: read, and changed durably.

Always true: the directory is locked meanwhile; only a broker's that runs alone is opened, since the metadata of any
other are the quorum's; a change counts as a start, so that its leader epoch is its own.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from eosin.cluster.metadata.image import MetadataImage
from eosin.cluster.metadata.log import METADATA_LOG_CONFIG, METADATA_TOPIC_ID, MetadataLog
from eosin.cluster.metadata.writer import Records
from eosin.cluster.opened_logs import open_logs
from eosin.model.cluster import METADATA_PARTITION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.records.cluster_metadata import StartKey
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import DirectoryKind, MetaProperties
from eosin.storage.disk.system import SystemDisk


class OfflineMetadata:
    """The metadata of one stopped broker."""

    def __init__(self, log: MetadataLog, image: MetadataImage, begin_epoch: Callable[[int], None]) -> None:
        self.image = image
        """The stored image, not changed by `write`."""
        self._log = log
        self._begin_epoch = begin_epoch

    async def write(self, records: Records) -> None:
        """Store records, all or none, durably. Raises OSError."""
        self._begin_epoch(self.image.start_count)
        started: Records = [(StartKey(), self.image.start_record(start_count=self.image.start_count + 1))]
        if await self._log.put([*started, *records]) is not ErrorCode.NONE:
            raise OSError(errno.EIO, "cannot write cluster metadata", str(METADATA_PARTITION))


@asynccontextmanager
async def stopped_metadata(path: str) -> AsyncIterator[OfflineMetadata]:
    """Open the metadata in a directory; one that is empty becomes that of a broker that runs alone. Raises OSError and
    `UnreadableMetadata`."""
    disk, clock = SystemDisk(), SystemClock()
    config = BrokerConfig(log_dirs=(path,), node_id=_node_of(disk, path))
    logs = open_logs(config, clock=clock, chance=SystemChance(), disk=disk)
    await logs.open()
    clean = False
    try:
        log = logs.create_log(METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, 0)
        if log.failure is not None:
            raise log.failure
        metadata, image = MetadataLog(log, clock), MetadataImage()
        for key, value in metadata.records():
            image.apply(key, value)
        yield OfflineMetadata(metadata, image, logs.set_leader_epoch)
        clean = True
    finally:
        await asyncio.shield(logs.close(clean=clean))


def _node_of(disk: Disk, path: str) -> int:
    """The node that a directory belongs to, or the default for an empty one. Raises UnusableDirectory, OSError."""
    file = f"{path}/{META_PROPERTIES}"
    if disk.size(file) is None:
        return BrokerConfig().node_id
    found = MetaProperties.decode(disk.read_whole(file))
    if found.kind is DirectoryKind.KRAFT and not disk.is_directory(f"{path}/{METADATA_PARTITION}"):
        raise UnusableDirectory(
            "it belongs to a broker of a quorum, which keeps the users: change them with --bootstrap-server"
        )
    return found.node_id
