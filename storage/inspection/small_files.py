"""The small files: snapshots, checkpoints, leader epochs, whose directory it is."""

from collections.abc import Iterator

from eosin.protocol.names import TopicPartition, uuid_text
from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint, decode_offsets, decode_partition_metadata
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.disk.meta_properties import MetaProperties
from eosin.storage.inspection.names import FileKind, NamedFile
from eosin.storage.inspection.values import (
    FileProblem,
    LeaderEpochFound,
    PartitionOffset,
    ProducerFound,
    Property,
    Value,
)
from eosin.storage.log.leader_epochs import LeaderEpochs
from eosin.storage.producers.entry import ProducerEntry
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot


def read_small_file(disk: Disk, named: NamedFile) -> Iterator[Value]:
    """The content of the file, or its one fault. Raises OSError."""
    data = disk.read_whole(named.path)
    try:
        match named.kind:
            case FileKind.SNAPSHOT:
                yield from [producer_value(named.path, entry) for entry in decode_snapshot(data)]
            case FileKind.OFFSETS:
                yield from [_offset_value(named.path, *item) for item in decode_offsets(data).items()]
            case FileKind.LEADER_EPOCHS:
                for epoch, start_offset in LeaderEpochs.decode(data).entries:
                    yield LeaderEpochFound(named.path, epoch=epoch, start_offset=start_offset)
            case FileKind.PARTITION_METADATA:
                yield Property(named.path, name="topic_id", value=uuid_text(decode_partition_metadata(data)))
            case _:
                properties = MetaProperties.decode(data)
                yield Property(named.path, name="cluster.id", value=properties.cluster_id)
                yield Property(named.path, name="node.id", value=str(properties.node_id))
                yield Property(named.path, name="directory.id", value=properties.directory_id)
    except (CorruptSnapshot, MalformedCheckpoint, UnusableDirectory) as error:
        yield FileProblem(named.path, reason=str(error), position=0)


def producer_value(file: str, entry: ProducerEntry) -> ProducerFound:
    """One producer of a snapshot."""
    last = entry.batches[-1] if entry.batches else None
    return ProducerFound(
        file,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        first_sequence=-1 if last is None else last.first_sequence,
        last_sequence=-1 if last is None else last.last_sequence,
        last_offset=-1 if last is None else last.last_offset,
        offset_delta=0 if last is None else last.offset_delta,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        transaction_first_offset=entry.transaction_first_offset,
    )


def _offset_value(file: str, partition: TopicPartition, offset: int) -> PartitionOffset:
    return PartitionOffset(file, topic=partition.topic, partition=partition.partition, offset=offset)
