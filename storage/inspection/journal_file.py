"""A file of the journal: its groups, and the entries of each log."""

from collections.abc import Iterator

from eosin.protocol.names import uuid_text
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.values import EntryFound, GroupFound, Problem, Value
from eosin.storage.journal.codec import MalformedEntry, entries, journal_id_of
from eosin.storage.journal.found import read_file


def read_journal(disk: Disk, path: str) -> Iterator[Value]:
    """The groups of its last round, and their faults. A torn last group is not there: a power loss may leave
    one. Raises OSError."""
    content = disk.read_whole(path)
    file = read_file(path, content, journal_id_of(content))
    for position, header in file.groups:
        yield GroupFound(path, position=position, **header._asdict())
        try:
            for at, entry in entries(file.content, position):
                yield EntryFound(
                    path,
                    position=at,
                    topic=entry.topic_partition.topic,
                    partition=entry.topic_partition.partition,
                    topic_id=uuid_text(entry.topic_id),
                    leader_epoch=entry.leader_epoch,
                    base_offset=entry.base_offset,
                    end_offset=entry.end_offset,
                    size=len(entry.data),
                )
        except MalformedEntry as error:
            yield Problem(path, reason=f"no entry is there: {error}", position=position)
    if file.later is not None:
        yield Problem(path, reason="damaged: no whole group is there, but behind it", position=file.end)
