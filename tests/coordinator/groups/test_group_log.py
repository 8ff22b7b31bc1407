"""Records of `__consumer_offsets`: what is written is what Kafka's tools read, and is read back the same."""

import struct

import pytest
from group_fakes import subscription
from msgspec.structs import replace

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.records import GroupWritten, OffsetWritten
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetToCommit
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, Record, iter_records, read_header
from eosin.protocol.types import DecodeError

P0 = TopicPartition("orders", 3)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def stored(record: NewRecord, offset: int = 0) -> Record:
    return Record(offset, 0, record.key, record.value)


def test_an_offset_is_written_as_key_version_1_and_value_version_3() -> None:
    record = group_records.offset_record("g", OffsetToCommit(P0, 42, 7, "note"), now_ms=99)
    assert record.key == struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 3)
    assert record.value == struct.pack(">hqi", 3, 42, 7) + text("note") + struct.pack(">q", 99)


def test_an_offset_with_an_expiry_is_written_as_value_version_1() -> None:
    record = group_records.offset_record("g", OffsetToCommit(P0, 42, 7, None, 5, 1_000), now_ms=99)
    assert record.value == struct.pack(">hq", 1, 42) + text("") + struct.pack(">qq", 5, 1_000)


def test_an_offset_is_read_back_with_the_place_of_its_record() -> None:
    record = group_records.offset_record("g", OffsetToCommit(P0, 42, 7, "note"), now_ms=99)
    assert group_records.read(stored(record, offset=12)) == OffsetWritten(
        "g", P0, CommittedOffset(42, 7, "note", 99, record_offset=12)
    )


@pytest.mark.parametrize(
    "value",
    [
        struct.pack(">hq", 0, 42) + text("note") + struct.pack(">q", 99),
        struct.pack(">hq", 2, 42) + text("note") + struct.pack(">q", 99),
        struct.pack(">hqi", 4, 42, -1) + b"\x05note" + struct.pack(">q", 99) + b"\x00",
    ],
    ids=["v0", "v2", "v4"],
)
def test_older_and_newer_offsets_of_kafka_are_read(value: bytes) -> None:
    key = struct.pack(">h", 0) + text("g") + text("orders") + struct.pack(">i", 3)
    assert group_records.read(Record(12, 0, key, value)) == OffsetWritten(
        "g", P0, CommittedOffset(42, -1, "note", 99, record_offset=12)
    )


def test_the_topic_of_an_offset_is_in_its_record_as_apache_kafka_has_it() -> None:
    topic_id = b"i" * 16
    written = group_records.offset_record("g", OffsetToCommit(P0, 42, 7, "note", topic_id=topic_id), now_ms=99)
    assert written.value == (
        struct.pack(">hqi", 4, 42, 7) + b"\x05note" + struct.pack(">q", 99) + b"\x01\x00\x10" + topic_id
    )
    assert group_records.read(stored(written, offset=12)) == OffsetWritten(
        "g", P0, CommittedOffset(42, 7, "note", 99, record_offset=12, topic_id=topic_id)
    )


MEMBER = Member("m-1", "instance", "client", "/10.0.0.1", 10_000, 60_000, (("range", subscription("orders")),), b"mine")
STABLE = Group("g", GroupState.STABLE, 123, 5, "consumer", "range", "m-1", {"m-1": MEMBER})


def test_a_group_is_written_as_version_3() -> None:
    record = group_records.group_record(STABLE)
    assert record.key == struct.pack(">h", 2) + text("g")
    member = text("m-1") + text("instance") + text("client") + text("/10.0.0.1") + struct.pack(">ii", 60_000, 10_000)
    metadata = subscription("orders")
    assert record.value == (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 5)
        + text("range")
        + text("m-1")
        + struct.pack(">qi", 123, 1)
        + member
        + struct.pack(">i", len(metadata))
        + metadata
        + struct.pack(">i", 4)
        + b"mine"
    )


def test_a_group_is_read_back_the_same() -> None:
    assert group_records.read(stored(group_records.group_record(STABLE))) == GroupWritten("g", STABLE)


def test_only_the_metadata_of_the_selected_protocol_is_kept() -> None:
    both = replace(MEMBER, protocols=(("rr", b"other"), *MEMBER.protocols))
    record = group_records.group_record(replace(STABLE, members={"m-1": both}))
    assert group_records.read(stored(record)) == GroupWritten("g", STABLE)


def test_an_empty_group_has_no_protocol_and_no_leader() -> None:
    group = Group("g", GroupState.EMPTY, 123, 6, "consumer")
    record = group_records.group_record(group)
    assert record.value == (
        struct.pack(">h", 3) + text("consumer") + struct.pack(">ihh", 6, -1, -1) + struct.pack(">qi", 123, 0)
    )
    assert group_records.read(stored(record)) == GroupWritten("g", group)


def test_tombstones_name_what_is_gone() -> None:
    assert group_records.read(stored(group_records.offset_tombstone("g", P0))) == OffsetWritten("g", P0, None)
    assert group_records.read(stored(group_records.group_tombstone("g"))) == GroupWritten("g", None)


@pytest.mark.parametrize("version", [3, 8, 15, 16])
def test_records_of_other_group_protocols_are_passed_over(version: int) -> None:
    assert group_records.read(Record(0, 0, struct.pack(">h", version) + b"whatever", b"whatever")) is None


def test_a_damaged_record_of_a_known_kind_is_an_error() -> None:
    with pytest.raises(DecodeError):
        group_records.read(Record(0, 0, struct.pack(">h", 1) + b"\x00", b""))


def test_a_transactional_batch_carries_its_producer_and_sequence_0() -> None:
    batch = group_records.transactional_batch(
        [group_records.offset_tombstone("g", P0)], GroupConfig(), now_ms=9, producer_id=77, producer_epoch=2
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 0)
    assert header.is_transactional
    assert not header.is_control


def test_the_configured_codec_is_used() -> None:
    records = [group_records.offset_tombstone("g", P0)]
    batch = group_records.batch(records, GroupConfig(offsets_topic_compression_codec=4), now_ms=9)
    assert read_header(batch).compression == 4
    assert [record.key for record in iter_records(batch)] == [records[0].key]


def test_many_tombstones_are_cut_into_batches_that_a_topic_accepts() -> None:
    records = [group_records.offset_tombstone("g", TopicPartition("t" * 200, number)) for number in range(10_000)]
    pieces = list(group_records.in_batches(records))
    assert [record for piece in pieces for record in piece] == records
    assert len(pieces) > 1
    assert all(len(group_records.batch(piece, GroupConfig(), now_ms=0)) < 600_000 for piece in pieces)
    assert list(group_records.in_batches(records[:3])) == [records[:3]]
