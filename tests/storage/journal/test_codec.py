"""What stands in the journal: groups and entries, and what is never taken for one."""

import pytest
from batches import TOPIC_ID

from eosin.protocol.names import TopicPartition
from eosin.storage.journal.codec import (
    BLOCK_BYTES,
    GroupHeader,
    LogName,
    MalformedEntry,
    decode_group,
    encode_group,
    entries,
    group_bytes,
    places_of,
)

ID = bytes(range(16))
HEADER = GroupHeader(generation=3, sequence=17, oldest_generation=2)


def parts(data: bytes = b"batches", topic: str = "orders") -> list[bytes]:
    name = LogName(TopicPartition(topic, 4), TOPIC_ID)
    return [name.entry_head(leader_epoch=5, base_offset=10, end_offset=12, size=len(data)), data]


def test_a_group_is_read_back_with_its_entries() -> None:
    payload = [*parts(), *parts(b"more", "été")]
    content = memoryview(bytes(BLOCK_BYTES) + encode_group(ID, HEADER, payload))
    group = decode_group(ID, content, BLOCK_BYTES)
    assert group is not None
    assert group.header == HEADER
    assert group.size == len(content) - BLOCK_BYTES == group_bytes(sum(map(len, payload)))
    first, second = (entry for _, entry in entries(content, BLOCK_BYTES))
    assert first[:5] == (TopicPartition("orders", 4), TOPIC_ID, 5, 10, 12)
    assert (bytes(first.data), bytes(second.data), second.topic_partition.topic) == (b"batches", b"more", "été")


def test_a_group_without_entries_takes_one_block() -> None:
    encoded = encode_group(ID, HEADER, [])
    assert len(encoded) == BLOCK_BYTES
    assert list(entries(memoryview(encoded), 0)) == []


@pytest.mark.parametrize("position", range(0, 60, 7))
def test_a_flipped_byte_anywhere_makes_it_no_group(position: int) -> None:
    encoded = bytearray(encode_group(ID, HEADER, parts()))
    encoded[position] ^= 1
    assert decode_group(ID, memoryview(encoded), 0) is None


def test_a_cut_group_and_one_of_another_journal_are_no_groups() -> None:
    encoded = encode_group(ID, HEADER, parts(bytes(BLOCK_BYTES)))
    assert decode_group(ID, memoryview(encoded)[:BLOCK_BYTES], 0) is None
    assert decode_group(bytes(16), memoryview(encoded), 0) is None
    assert decode_group(ID, memoryview(bytes(BLOCK_BYTES)), 0) is None


def test_a_group_that_holds_no_entries_is_malformed() -> None:
    for payload in ([b"no entry"], [parts()[0]], [b"\xff" * 100]):
        with pytest.raises(MalformedEntry):
            list(entries(memoryview(encode_group(ID, HEADER, payload)), 0))


def test_groups_are_found_where_blocks_begin_only() -> None:
    group = encode_group(ID, HEADER, parts())
    content = bytes(BLOCK_BYTES) + group + b"x" + group
    assert list(places_of(ID, content, 0)) == [BLOCK_BYTES]
    assert list(places_of(ID, content, BLOCK_BYTES + 1)) == []
