"""Looking at files: what is sound is told, what is damaged is told with its place (storage.md 21)."""

import struct

import pytest
from batches import NOW_MS, ORDERS, data
from inspected import FOLDER, dumped, problems, written

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch, retain_records
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.cluster_metadata import TopicKey, TopicRecord
from eosin.protocol.schemas.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from eosin.protocol.schemas.records.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from eosin.storage.inspection.names import named
from eosin.storage.inspection.segment_walk import FoundBatch, SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import (
    AbortedEntry,
    Batch,
    FileProblem,
    FileStart,
    OffsetEntry,
    ProducerFound,
    Property,
    RecordFound,
    TimeEntry,
)

FIRST = "00000000000000000000"
SECOND = "00000000000000000051"


@pytest.fixture
async def disk() -> LyingDisk:
    return await written()


def batches_of(disk: LyingDisk, name: str = f"{FIRST}.log") -> list[Batch]:
    return [value for value in dumped(disk, name) if isinstance(value, Batch)]


def only_problem(disk: LyingDisk, name: str, *, deep: bool = False) -> FileProblem:
    (problem,) = problems(dumped(disk, name, deep=deep))
    return problem


# Sound files


def test_no_file_of_a_sound_directory_has_a_problem(disk: LyingDisk) -> None:
    names = [path for path in disk.paths() if named(path) is not None]
    assert len(names) > 15
    for path in names:
        values = dumped(disk, path, deep=True)
        assert isinstance(values[0], FileStart)
        assert not problems(values), path


def test_a_segment_shows_every_batch_and_marker(disk: LyingDisk) -> None:
    found = batches_of(disk)
    assert [batch.base_offset for batch in found[:6]] == [0, 3, 5, 7, 8, 9]
    assert found[2].is_transactional
    assert (found[2].producer_id, found[2].producer_epoch, found[2].base_sequence, found[2].last_sequence) == (
        2,
        0,
        0,
        1,
    )
    assert (found[4].control, found[4].coordinator_epoch) == ("COMMIT", 1)
    assert found[-1].position + found[-1].size == disk.size(f"{FOLDER}/{FIRST}.log")


def test_deep_shows_the_records_too(disk: LyingDisk) -> None:
    records = [value for value in dumped(disk, f"{FIRST}.log", deep=True) if isinstance(value, RecordFound)]
    assert [record.offset for record in records] == list(range(51))
    assert (records[4].key, records[4].value, records[4].sequence) == (b"k", b"v" * 40, 1)
    assert records[8].control == "COMMIT"


def test_indexes_tell_their_rows(disk: LyingDisk) -> None:
    offsets = [value for value in dumped(disk, f"{SECOND}.index") if isinstance(value, OffsetEntry)]
    assert offsets
    assert all(entry.offset >= 51 for entry in offsets)
    times = [value for value in dumped(disk, f"{SECOND}.timeindex") if isinstance(value, TimeEntry)]
    assert times[-1].timestamp > NOW_MS
    aborted = [value for value in dumped(disk, f"{SECOND}.txnindex") if isinstance(value, AbortedEntry)]
    assert {entry.producer_id for entry in aborted} == {2, 3}


def test_a_snapshot_shows_its_producers(disk: LyingDisk) -> None:
    found = [value for value in dumped(disk, "00000000000000000111.snapshot") if isinstance(value, ProducerFound)]
    assert [producer.producer_id for producer in found] == [1, 2, 3]
    assert found[0].last_sequence == 23
    assert found[2].transaction_first_offset == 91


def test_small_files_show_their_content(disk: LyingDisk) -> None:
    assert [str(value) for value in dumped(disk, "leader-epoch-checkpoint")[1:]] != []
    (topic_id,) = [value for value in dumped(disk, "partition.metadata") if isinstance(value, Property)]
    assert topic_id.name == "topic_id"
    assert len(dumped(disk, "/data/replication-offset-checkpoint")) == 2
    assert len(dumped(disk, "/data/meta.properties")) == 4


def test_a_compacted_segment_is_sound(disk: LyingDisk) -> None:
    path = f"{FOLDER}/00000000000000000300.log"
    disk.open(path, create=True)
    emptied = retain_records(
        build_batch([NewRecord(b"k", b"v")] * 3, timestamp=NOW_MS, base_offset=300), lambda _: False
    )
    control = build_control_batch(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=1, timestamp=NOW_MS, base_offset=310
    )
    disk.add_bytes(path, bytes(emptied))
    disk.add_bytes(path, bytes(retain_records(control, lambda _: False)))
    tombstones = build_batch([NewRecord(b"k", None)] * 3, timestamp=NOW_MS, base_offset=320)
    disk.add_bytes(path, bytes(retain_records(tombstones, lambda record: record.offset == 321, delete_horizon_ms=5)))
    values = dumped(disk, path, deep=True)
    assert not problems(values)
    found = [value for value in values if isinstance(value, Batch)]
    assert [batch.records_count for batch in found] == [0, 0, 1]
    assert found[1].control is None
    assert found[2].delete_horizon_ms == 5
    assert [value.timestamp for value in values if isinstance(value, RecordFound)] == [NOW_MS]


def test_a_preallocated_index_ends_with_its_first_row_of_zeros(disk: LyingDisk) -> None:
    """As a running Apache Kafka leaves it."""
    for name in (f"{FIRST}.index", f"{FIRST}.timeindex"):
        before = len(dumped(disk, name))
        disk.add_bytes(f"{FOLDER}/{name}", bytes(1200))
        assert len(dumped(disk, name)) == before
        assert not problems(dumped(disk, name))


def test_a_batch_that_is_still_being_written_is_waited_for() -> None:
    disk = LyingDisk()
    disk.make_directory("/p")
    path = f"/p/{FIRST}.log"
    disk.open(path, create=True)
    whole, half = data(2), data(5)
    disk.add_bytes(path, whole + half[:70])
    rest = [half[70:80], half[80:]]

    def writes() -> None:
        if rest:
            disk.add_bytes(path, rest.pop(0))

    with Source(disk, path, wait=writes) as source:
        found = list(SegmentWalk(source, None))
    assert [type(each) for each in found[:2]] == [FoundBatch, FoundBatch]
    assert found[1].header.records_count == 5  # type: ignore[union-attr]


# Damaged segments


def test_a_flipped_byte_is_reported_with_its_batch_and_the_walk_goes_on(disk: LyingDisk) -> None:
    before = batches_of(disk)
    disk.damage(f"{FOLDER}/{FIRST}.log", before[3].position + 75)
    problem = only_problem(disk, f"{FIRST}.log")
    assert problem.reason.startswith("wrong checksum")
    assert (problem.position, problem.offset) == (before[3].position, before[3].base_offset)
    after = batches_of(disk)
    assert [batch.is_valid for batch in after] == [batch is not before[3] for batch in before]


def test_a_damaged_length_ends_the_walk_and_says_how_much_is_not_read(disk: LyingDisk) -> None:
    before = batches_of(disk)
    disk.replace(f"{FOLDER}/{FIRST}.log", before[3].position + 8, b"\xff\xff\xff\xff")
    problem = only_problem(disk, f"{FIRST}.log")
    assert problem.position == before[3].position
    left = (disk.size(f"{FOLDER}/{FIRST}.log") or 0) - before[3].position
    assert problem.reason == f"impossible batch length -1; {left} bytes up to the end are not read"
    assert len(batches_of(disk)) == 3


def test_another_format_version_is_reported(disk: LyingDisk) -> None:
    disk.replace(f"{FOLDER}/{FIRST}.log", batches_of(disk)[1].position + 16, b"\x01")
    assert "magic 1, only 2 is supported" in only_problem(disk, f"{FIRST}.log").reason


@pytest.mark.parametrize(
    ("kept", "reason"),
    [(100, "the last batch is torn: 100 bytes of "), (30, "the last 30 bytes are no whole batch header")],
)
def test_a_torn_tail_is_reported(disk: LyingDisk, kept: int, reason: str) -> None:
    last = batches_of(disk, "00000000000000000101.log")[-2]
    file = disk.open(f"{FOLDER}/00000000000000000101.log")
    file.truncate(last.position + kept)
    problem = only_problem(disk, "00000000000000000101.log")
    assert problem.reason.startswith(reason)
    assert (problem.position, problem.offset) == (last.position, last.base_offset)


def test_zeros_at_the_end_are_reported(disk: LyingDisk) -> None:
    end = disk.size(f"{FOLDER}/{SECOND}.log")
    disk.add_bytes(f"{FOLDER}/{SECOND}.log", bytes(500))
    problem = only_problem(disk, f"{SECOND}.log")
    assert problem.reason == "zeros instead of a batch header; 500 bytes up to the end are not read"
    assert problem.position == end


def test_an_offset_that_goes_back_is_reported(disk: LyingDisk) -> None:
    """The offset is not in the checksum: a stale block with valid batches shows only by this."""
    third = batches_of(disk)[2]
    disk.replace(f"{FOLDER}/{FIRST}.log", third.position, (4).to_bytes(8, "big"))
    assert only_problem(disk, f"{FIRST}.log").reason == "offset 4 where 5 or more must follow"


def test_a_segment_that_begins_before_its_name_is_reported(disk: LyingDisk) -> None:
    disk.rename(f"{FOLDER}/{SECOND}.log", f"{FOLDER}/00000000000000000053.log")
    assert "offset 51 where 53 or more must follow" in only_problem(disk, "00000000000000000053.log").reason


def test_more_records_than_offsets_are_reported() -> None:
    disk = LyingDisk()
    disk.make_directory("/p")
    disk.open(f"/p/{FIRST}.log", create=True)
    batch = bytearray(data(3))
    batch[23:27] = (1).to_bytes(4, "big")  # last offset delta; the checksum is wrong, too
    disk.add_bytes(f"/p/{FIRST}.log", bytes(batch))
    assert [problem.reason for problem in problems(dumped(disk, f"/p/{FIRST}.log"))][1] == "3 records in 2 offsets"


def test_records_that_cannot_be_read_are_reported(disk: LyingDisk) -> None:
    first = batches_of(disk)[0]
    disk.replace(f"{FOLDER}/{FIRST}.log", 61, b"\x7f")
    reasons = [problem.reason for problem in problems(dumped(disk, f"{FIRST}.log", deep=True))]
    assert reasons[0].startswith("wrong checksum")
    assert reasons[1].startswith("the records of the batch cannot be read")
    assert first.records_count == 3


def test_an_unknown_codec_is_reported_and_shown(disk: LyingDisk) -> None:
    disk.replace(f"{FOLDER}/{FIRST}.log", 21, b"\x00\x07")
    values = dumped(disk, f"{FIRST}.log", deep=True)
    assert next(value.compression for value in values if isinstance(value, Batch)) == "unknown compression id 7"
    assert len(problems(values)) == 2


def test_a_tail_that_recovery_cut_off_can_be_read(disk: LyingDisk) -> None:
    data_cut = disk.read_whole(f"{FOLDER}/{FIRST}.log")[batches_of(disk)[2].position :]
    aside = f"{FOLDER}/{FIRST}.log.truncated-{NOW_MS}"
    disk.open(aside, create=True)
    disk.add_bytes(aside, data_cut)
    assert batches_of(disk, aside)[0].base_offset == 5
    assert not problems(dumped(disk, aside))


# Damaged indexes


def replace_row(disk: LyingDisk, suffix: str, row: int, form: str, *fields: int) -> None:
    packed = struct.pack(form, *fields)
    disk.replace(f"{FOLDER}/{FIRST}{suffix}", row * len(packed), packed)


def test_an_offset_row_that_points_into_a_batch_is_reported(disk: LyingDisk) -> None:
    row = [value for value in dumped(disk, f"{FIRST}.index") if isinstance(value, OffsetEntry)][2]
    replace_row(disk, ".index", 2, ">ii", row.offset, row.position + 5)
    problem = only_problem(disk, f"{FIRST}.index")
    assert problem.reason == f"the row for offset {row.offset} is wrong: no batch starts at byte {row.position + 5}"
    assert problem.offset == row.offset


def test_an_offset_row_with_the_offset_of_another_batch_is_reported(disk: LyingDisk) -> None:
    row = [value for value in dumped(disk, f"{FIRST}.index") if isinstance(value, OffsetEntry)][2]
    replace_row(disk, ".index", 2, ">ii", row.offset - 1, row.position)
    assert only_problem(disk, f"{FIRST}.index").reason == (
        f"the row for offset {row.offset - 1} is wrong: the batch at byte {row.position} ends with offset {row.offset}"
    )


def test_an_offset_row_beyond_the_segment_is_reported(disk: LyingDisk) -> None:
    disk.add_bytes(f"{FOLDER}/{FIRST}.index", struct.pack(">ii", 77, 9000))
    assert only_problem(disk, f"{FIRST}.index").reason == (
        "the row for offset 77 is wrong: no batch starts at byte 9000: the segment ends at 3970"
    )


def test_rows_that_do_not_grow_are_reported(disk: LyingDisk) -> None:
    replace_row(disk, ".index", 1, ">ii", 1, 1)
    reasons = [problem.reason for problem in problems(dumped(disk, f"{FIRST}.index"))]
    assert reasons[0].startswith("offset 1 at byte 1 after ")
    replace_row(disk, ".timeindex", 1, ">qi", 1, 20)
    reasons = [problem.reason for problem in problems(dumped(disk, f"{FIRST}.timeindex"))]
    assert reasons[0].startswith("timestamp 1 at offset 20 after ")
    replace_row(disk, ".txnindex", 1, ">hqqqq", 0, 2, 0, 3, 4)
    reasons = [problem.reason for problem in problems(dumped(disk, f"{FIRST}.txnindex"))]
    assert reasons[0].startswith("a marker at 3 after one at ")


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_bytes_behind_the_last_row_are_reported(disk: LyingDisk, suffix: str) -> None:
    end = disk.size(f"{FOLDER}/{FIRST}{suffix}")
    disk.add_bytes(f"{FOLDER}/{FIRST}{suffix}", b"\1\2\3")
    problem = only_problem(disk, FIRST + suffix)
    assert (problem.reason, problem.position) == ("3 bytes behind the last whole row", end)


def test_rows_behind_zeros_are_reported(disk: LyingDisk) -> None:
    disk.add_bytes(f"{FOLDER}/{FIRST}.index", bytes(16) + b"\1" * 8)
    assert only_problem(disk, f"{FIRST}.index").reason == "rows follow a row of zeros"


def test_a_time_row_with_another_timestamp_is_reported(disk: LyingDisk) -> None:
    row = [value for value in dumped(disk, f"{FIRST}.timeindex") if isinstance(value, TimeEntry)][3]
    replace_row(disk, ".timeindex", 3, ">qi", row.timestamp + 1, row.offset)
    assert only_problem(disk, f"{FIRST}.timeindex").reason == (
        f"the row for timestamp {row.timestamp + 1} at offset {row.offset} is wrong:"
        f" the batch that ends there has the timestamp {row.timestamp}"
    )


def test_a_time_row_inside_a_batch_is_reported(disk: LyingDisk) -> None:
    row = next(value for value in dumped(disk, f"{FIRST}.timeindex") if isinstance(value, TimeEntry))
    batch = next(batch for batch in batches_of(disk) if batch.records_count > 1 and batch.last_offset >= row.offset)
    replace_row(disk, ".timeindex", 0, ">qi", row.timestamp, batch.last_offset - 1)
    assert only_problem(disk, f"{FIRST}.timeindex").reason.endswith("is wrong: no batch ends there")


def test_an_aborted_row_without_its_marker_is_reported(disk: LyingDisk) -> None:
    replace_row(disk, ".txnindex", 0, ">hqqqq", 0, 2, 0, 2, 3)
    assert only_problem(disk, f"{FIRST}.txnindex").reason == (
        "the row of producer 2 from 0 is wrong: there is no marker at 2"
    )


def test_an_aborted_row_at_a_commit_is_reported(disk: LyingDisk) -> None:
    commit = next(batch for batch in batches_of(disk) if batch.control == "COMMIT")
    replace_row(disk, ".txnindex", 0, ">hqqqq", 0, 2, 5, commit.base_offset, commit.base_offset + 1)
    assert only_problem(disk, f"{FIRST}.txnindex").reason.endswith("is a COMMIT marker of producer 2")


def test_an_index_without_its_segment_is_reported(disk: LyingDisk) -> None:
    disk.unlink(f"{FOLDER}/{FIRST}.log")
    assert only_problem(disk, f"{FIRST}.index").reason == f"its segment {FOLDER}/{FIRST}.log is not there"


# Damaged small files


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda content: content[:20] + b"\xff" + content[21:], "wrong checksum"),
        (lambda content: content[:-1], "583 bytes for 3 producers"),
        (lambda content: b"\x00\x07" + content[2:], "version 7"),
        (lambda content: b"", "0 bytes are too few"),
    ],
)
def test_a_damaged_snapshot_is_reported(disk: LyingDisk, spoil: object, reason: str) -> None:
    path = f"{FOLDER}/{SECOND}.snapshot"
    disk.write_atomic(path, spoil(disk.read_whole(path)))  # type: ignore[operator]
    assert only_problem(disk, path).reason == reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n2 10\n"),
        ("leader-epoch-checkpoint", b"0\n3\n3 0\n"),
        ("leader-epoch-checkpoint", b"7\n0\n"),
        ("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
        ("/data/recovery-point-offset-checkpoint", b"0\n1\norders zero 3\n"),
        ("/data/meta.properties", b"version=1\n"),
    ],
)
def test_a_damaged_small_file_is_reported(disk: LyingDisk, name: str, content: bytes) -> None:
    path = name if name.startswith("/") else f"{FOLDER}/{name}"
    disk.write_atomic(path, content)
    assert only_problem(disk, path).position == 0


# Internal topics


def records_of(topic: str, *records: NewRecord) -> tuple[list[RecordFound], list[FileProblem]]:
    disk = LyingDisk()
    path = f"/data/{topic}-3/{FIRST}.log"
    disk.make_directory(f"/data/{topic}-3")
    disk.open(path, create=True)
    disk.add_bytes(path, bytes(build_batch(records, timestamp=NOW_MS)))
    values = dumped(disk, path, deep=True)
    return [value for value in values if isinstance(value, RecordFound)], problems(values)


def test_transaction_state_is_decoded_by_the_name_of_its_directory() -> None:
    key = encode_key(TransactionLogKey("tx"))
    value = TransactionLogValue(
        producer_id=7, transaction_status=2, transaction_partitions=(PartitionsSchema("orders", (0, 1)),)
    )
    found, wrong = records_of("__transaction_state", NewRecord(key, encode_value(value, 1)), NewRecord(key, None))
    assert not wrong
    assert found[0].decoded is not None
    assert found[0].decoded.kind == "TransactionLog"
    assert found[0].decoded.key == {"transactional_id": "tx"}
    assert found[0].decoded.value is not None
    assert found[0].decoded.value["transaction_status"] == "PrepareCommit"
    assert found[0].decoded.value["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0, 1]}]
    assert found[1].decoded is not None
    assert found[1].decoded.value is None


def test_offsets_and_groups_are_decoded_with_what_consumers_embed() -> None:
    offset = NewRecord(
        encode_key(OffsetCommitKey("g", "orders", 1)), encode_value(OffsetCommitValue(offset=5, metadata="m"), 3)
    )
    subscription = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
    members = (MemberMetadata(member_id="m-1", subscription=subscription, assignment=b"\x00"),)
    group = NewRecord(
        encode_key(GroupMetadataKey("g")),
        encode_value(GroupMetadataValue(protocol_type="consumer", members=members), 3),
    )
    found, wrong = records_of("__consumer_offsets", offset, group)
    assert not wrong
    assert found[0].decoded is not None
    assert found[0].decoded.key == {"group": "g", "topic": "orders", "partition": 1}
    assert found[0].decoded.value is not None
    assert found[0].decoded.value["offset"] == 5
    assert found[1].decoded is not None
    assert found[1].decoded.value is not None
    (member,) = found[1].decoded.value["members"]
    assert member["subscription"]["topics"] == ["orders"]
    assert member["assignment"] == "\x00"  # not understood, so shown as it is


def test_cluster_metadata_is_decoded() -> None:
    key, value = encode_key(TopicKey("orders")), encode_value(TopicRecord(topic_id=bytes(15) + b"\1", partitions=3), 0)
    found, wrong = records_of("__eosin_metadata", NewRecord(key, value))
    assert not wrong
    assert found[0].decoded is not None
    assert found[0].decoded.value == {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 3, "configs": []}


def test_a_kind_of_record_that_is_not_known_is_no_damage() -> None:
    found, wrong = records_of("__consumer_offsets", NewRecord(b"\x00\x63whatever", b"\x00\x00"))
    assert not wrong
    assert found[0].decoded is not None
    assert (found[0].decoded.kind, found[0].decoded.key_version) == ("unknown", 0x63)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "no record of __transaction_state: it has no key"),
        (b"\x00", b"", "no record of __transaction_state: a record without a version"),
        (b"\x00\x00\x00\x09tx", b"", "no record of __transaction_state: "),
        (b"\x00\x00\x00\x02tx", b"\x00\x05", "TransactionLogValue version 5 is not declared"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_reported(key: bytes | None, value: bytes, reason: str) -> None:
    found, wrong = records_of("__transaction_state", NewRecord(key, value))
    assert found[0].decoded is None
    assert reason in wrong[0].reason
    assert wrong[0].offset == 0


def test_names_show_the_kind_of_a_file() -> None:
    for name in ("x.log", "00000000000000000000.txt", "0.log", "eosin.log", "00000000000000000000.log.bak"):
        assert named(f"/d/{name}") is None
    waiting = named(f"/d/{ORDERS}/{FIRST}.timeindex.swap")
    assert waiting is not None
    assert (waiting.state, waiting.topic, waiting.log_path) == (".swap", "orders", f"/d/{ORDERS}/{FIRST}.log.swap")
    snapshot = named("__cluster_metadata-0/00000000000000007814-0000000001.checkpoint")
    assert snapshot is not None
    assert snapshot.base_offset is None
