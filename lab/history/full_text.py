"""The text of a whole request, for histories at the level `full`. Loaded by those alone."""

from collections.abc import Iterator
from typing import Any

from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import CorruptRecords, batches, iter_records


def full_text(key: ApiKey, request: Any, most: int) -> str:
    """The fields of a request, at most so many characters; of Produce the values of the records."""
    if key is not ApiKey.PRODUCE:
        return repr(request)[:most]
    found, size = [], 0
    for each in _values(request):
        found.append(each)
        size += len(each) + 1
        if size > most:
            break
    return " ".join(found)[:most]


def _values(request: Any) -> Iterator[str]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            data = memoryview(partition.records or b"")
            end = 0
            try:
                for position, header in batches(data):
                    end = position + header.size
                    for record in iter_records(data[position:end]):
                        yield repr(record.value)
            except (CorruptRecords, ValueError, IndexError):  # nobody has checked it yet
                end = -1
            if end != len(data):
                yield "unreadable"
