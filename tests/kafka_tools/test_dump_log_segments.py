"""Apache Kafka's DumpLogSegments reads what Eosin wrote, compacted and recovered, and finds what `eosin dump-log` does.

storage.md 21: no mismatch, no invalid bytes, every batch valid.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from kafka_dump import Dumped, Row, parse
from kafka_tools import KafkaTools
from real_clients import tools
from toolchains import NotHere

from eosin.cli.__main__ import main
from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_state.rules.records import StateSnapshot, StateUpdate
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.records.batch import build_batch

ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
BATCH_FIELDS = (
    "base_offset", "last_offset", "records_count", "base_sequence", "last_sequence", "producer_id", "producer_epoch",
    "partition_leader_epoch", "is_transactional", "is_control", "delete_horizon_ms", "position", "timestamp_type",
    "max_timestamp", "size", "magic", "compression", "crc", "is_valid",
)  # fmt: skip
RECORD_FIELDS = ("offset", "timestamp", "sequence", "control", "coordinator_epoch")
ENTRY_FIELDS = {
    "offset_entry": ("offset", "position"),
    "time_entry": ("timestamp", "offset"),
    "aborted_transaction": ("producer_id", "first_offset", "last_offset", "last_stable_offset"),
    "producer": (
        "producer_id", "producer_epoch", "coordinator_epoch", "transaction_first_offset", "last_timestamp",
        "last_sequence", "last_offset",
    ),
}  # fmt: skip


def files_of(*folders: Path, topic: str = "*") -> list[Path]:
    """Every file that DumpLogSegments can read."""
    return sorted(path for folder in folders for path in folder.glob(f"{topic}/*") if path.suffix in SUFFIXES)


def by_eosin(files: Iterable[Path]) -> tuple[dict[str, list[Row]], int]:
    """What `eosin dump-log` finds by file, and how it ends."""
    command = [sys.executable, "-m", "eosin.cli", "dump-log", "--deep", "--json", *map(str, files)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, list[Row]] = {}
    for line in ended.stdout.splitlines():
        value = json.loads(line)
        found.setdefault(value["file"], []).append(value)
    return found, ended.returncode


def by_kafka(tools: KafkaTools, files: Iterable[Path], *options: str) -> Dumped:
    """What DumpLogSegments finds."""
    run = tools.dump(files, *options)
    assert run.code == 0, run.err
    return parse(run.out)


def picked(rows: Iterable[Row], kind: str, fields: Iterable[str]) -> list[Row]:
    """Rows of Eosin with only some fields, where -1 is what the other tool calls empty."""
    found = [{name: row[name] for name in fields} for row in rows if row["type"] == kind]
    for row in found:
        if row.get("transaction_first_offset") == -1:
            row["transaction_first_offset"] = None
    return found


def reduced(rows: Iterable[Row], fields: Iterable[str]) -> list[Row]:
    """Rows of the other tool with only some fields."""
    return [{name: row[name] for name in fields} for row in rows]


@pytest.fixture(scope="session")
def read_by_both(kafka_tools: KafkaTools, directories: Any) -> tuple[list[Path], Dumped, dict[str, list[Row]]]:
    """Every file of the three directories, read by both tools."""
    files = files_of(*directories)
    ours, code = by_eosin(files)
    assert code == 0
    return files, by_kafka(kafka_tools, files, "--deep-iteration"), ours


def test_the_directories_hold_all_kinds_of_things(directories: Any) -> None:
    """Otherwise agreeing about them would prove little."""
    for folder in directories:
        assert len(files_of(folder, topic="orders-0")) > 8
        assert any(path.stat().st_size for path in folder.glob("orders-*/*.txnindex"))
    found, _ = by_eosin(files_of(directories.stopped))
    batches = [row for rows in found.values() for row in rows if row["type"] == "batch"]
    assert {row["compression"] for row in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row["control"] for row in batches} == {None, "COMMIT", "ABORT"}
    assert {row["timestamp_type"] for row in batches} == {"CreateTime", "LogAppendTime"}
    assert len({row["partition_leader_epoch"] for row in batches}) > 1
    table = [row for path, rows in found.items() if "table-0" in path for row in rows if row["type"] == "batch"]
    offsets = sum(row["last_offset"] - row["base_offset"] + 1 for row in table)
    assert offsets < max(row["last_offset"] for row in table), "nothing was compacted"
    snapshots = [path.read_bytes() for path in files_of(*directories) if path.suffix == ".snapshot"]
    longest = max(len(data) - 10 - 46 * int.from_bytes(data[6:10]) for data in snapshots)
    assert longest > 0, "no snapshot has earlier batches behind what Apache Kafka's tool reads"


def test_apache_kafka_finds_nothing_wrong(read_by_both: tuple[list[Path], Dumped, Any]) -> None:
    files, theirs, _ = read_by_both
    assert set(theirs.files) == {str(path) for path in files}
    # Compaction leaves gaps between offsets, and the tool names the file and each gap.
    complaints = iter(theirs.complaints)
    for line in complaints:
        assert line.startswith("Non-consecutive offsets in ") or line.startswith("  "), line
        if line.startswith("Non"):
            assert "/table-0/" in line or "/__" in line, line
    batches = [row for rows in theirs.files.values() for kind, row in rows if kind == "batch"]
    assert len(batches) > 200
    assert all(row["is_valid"] for row in batches)


def test_both_tools_find_the_same_batches_and_records(
    read_by_both: tuple[list[Path], Dumped, dict[str, list[Row]]],
) -> None:
    files, theirs, ours = read_by_both
    for path in files:
        if path.suffix != ".log":
            continue
        batches = picked(ours[str(path)], "batch", BATCH_FIELDS)
        assert batches == reduced(theirs.rows(path, "batch"), BATCH_FIELDS), path
        records = [row for row in ours[str(path)] if row["type"] == "record"]
        assert picked(records, "record", RECORD_FIELDS) == reduced(theirs.rows(path, "record"), RECORD_FIELDS), path
        names = [[name for name, _ in row["headers"]] for row in records]
        assert names == [row["header_keys"] for row in theirs.rows(path, "record")]
        sizes = [len(row["value"].encode()) for row in records if isinstance(row["value"], str)]
        assert set(sizes) <= {row["value_size"] for row in theirs.rows(path, "record")}


def test_both_tools_find_the_same_index_rows_and_producers(
    read_by_both: tuple[list[Path], Dumped, dict[str, list[Row]]],
) -> None:
    files, theirs, ours = read_by_both
    seen = dict.fromkeys(ENTRY_FIELDS, 0)
    for path in files:
        for kind, fields in ENTRY_FIELDS.items():
            rows = picked(ours[str(path)], kind, fields)
            expected = reduced(theirs.rows(path, kind), fields)
            for row in expected:  # a producer of which no batch is known
                row.update({name: -1 for name in ("last_sequence", "last_offset") if row.get(name, 0) is None})
            assert rows == expected, path
            seen[kind] += len(rows)
    assert all(seen.values()), seen


def test_every_index_passes_the_sanity_check(kafka_tools: KafkaTools, directories: Any) -> None:
    indexes = [path for path in files_of(*directories) if path.suffix in (".index", ".timeindex")]
    run = kafka_tools.dump(indexes, "--index-sanity-check")
    assert run.code == 0, run.err
    told = [line for line in run.out.splitlines() if not line.startswith("Dumping ")]
    assert len(told) == len(indexes)
    assert all(line.endswith((" passed sanity check.", " is empty.")) for line in told)


@pytest.mark.parametrize(
    ("topic", "option"),
    [("__transaction_state", "--transaction-log-decoder"), ("__consumer_offsets", "--offsets-decoder")],
)
def test_both_tools_decode_internal_records_alike(
    topic: str, option: str, kafka_tools: KafkaTools, directories: Any
) -> None:
    logs = [path for path in files_of(*directories, topic=f"{topic}-*") if path.suffix == ".log"]
    theirs, (ours, code) = by_kafka(kafka_tools, logs, option), by_eosin(logs)
    assert code == 0
    decoded = 0
    for path in logs:
        records = [row for row in ours[str(path)] if row["type"] == "record"]
        for mine, other in zip(records, theirs.rows(path, "record"), strict=True):
            if mine["control"] is not None:
                continue
            decoded += 1
            assert mine["decoded"]["key"] == {snake(name): each for name, each in other["key"]["data"].items()}
            if mine["decoded"].get("value") is None:
                assert "<DELETE>" in str(other["payload"]) or other["payload"] in (None, "null"), other
                continue
            assert mine["decoded"]["value_version"] == int(other["payload"]["version"])
            compare(mine["decoded"]["value"], other["payload"]["data"])
    assert decoded > 10


STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def compare(mine: Row, other: Row) -> None:
    """Every field that the other tool knows is the same. Tagged fields at their default are not printed by it."""
    for name, value in other.items():
        found = mine[snake(name)]
        if name == "transactionStatus":
            assert found == STATES[value]
        elif name == "transactionPartitions" and value is not None:
            assert found == [{"topic": each["topic"], "partition_ids": each["partitionIds"]} for each in value]
        elif name == "members":
            assert [each["member_id"] for each in found] == [each["memberId"] for each in value]
            assert [each["subscription"]["topics"] for each in found] == [
                each["subscription"]["topics"] for each in value
            ]
        else:
            assert found == value, name


def snake(name: str) -> str:
    """A Java name as Python writes it."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_both_tools_decode_states_of_share_partitions_alike(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    (path := tmp_path / "__share_group_state-0" / f"{0:020d}.log").parent.mkdir()
    batches = (StateBatch(100, 109, ACKNOWLEDGED, 2), StateBatch(111, 111, ARCHIVED, 5))
    changes = (
        StateSnapshot(0, 1, 0, -1, -1, 1_700_000_000_000, 1_700_000_000_001, ()),
        StateUpdate(0, 7, 100, 5, batches),
        StateSnapshot(1, 1, 7, 100, 5, 1_700_000_000_000, 1_700_000_000_002, batches),
        StateUpdate(1, 7, -1, -1, ()),
        None,
    )
    records = [encoded(SharePartition("group", bytes(range(16)), 3), each) for each in changes]
    path.write_bytes(
        b"".join(
            build_batch([each], timestamp=1_700_000_000_003, base_offset=offset, partition_leader_epoch=0)
            for offset, each in enumerate(records)
        )
    )
    theirs, (ours, code) = by_kafka(kafka_tools, [path], "--share-group-state-decoder"), by_eosin([path])
    assert code == 0
    mine = [row for row in ours[str(path)] if row["type"] == "record"]
    rows = theirs.rows(path, "record")
    assert len(mine) == len(rows) == len(changes)
    for own, other in zip(mine, rows, strict=True):
        assert own["decoded"]["key"] == {snake(name): each for name, each in other["key"]["data"].items()}
        assert own["decoded"]["key_version"] == int(other["key"]["type"])
        if own["decoded"].get("value") is None:
            assert other["payload"] in (None, "null", "<DELETE>"), other
        else:
            compare_states(own["decoded"]["value"], other["payload"]["data"])


def compare_states(mine: Row, other: Row) -> None:
    """Every field is the same. The tagged one is not looked at: an older tool passes over it."""
    rows = [{snake(name): each for name, each in row.items()} for row in other["stateBatches"]]
    expected = {snake(name): each for name, each in other.items()} | {"state_batches": rows}
    assert mine == {"delivery_complete_count": mine["delivery_complete_count"]} | expected


def test_a_file_that_is_damaged_for_one_tool_is_damaged_for_the_other(
    kafka_tools: KafkaTools, directories: Any, tmp_path: Path
) -> None:
    folder = shutil.copytree(directories.stopped / "orders-0", tmp_path / "orders-0")
    first, second, *_, last = sorted(folder.glob("*.log"))
    flip(first, 300)
    with last.open("ab") as file:
        file.write(last.read_bytes()[:70])
    index = first.with_suffix(".index")
    relative, position = struct.unpack(">ii", index.read_bytes()[:8])
    index.write_bytes(struct.pack(">ii", relative + 1, position) + index.read_bytes()[8:])
    flip(second.with_suffix(".timeindex"), 7)
    snapshot = sorted(folder.glob("*.snapshot"))[-1]
    flip(snapshot, 30)
    damaged = [first, index, second.with_suffix(".timeindex"), last, snapshot]
    ours, code = by_eosin(damaged)
    assert code == 1
    for path in damaged:
        assert any(row["type"] == "problem" for row in ours[str(path)]), path
    run = kafka_tools.dump(damaged)
    theirs = run.out + run.err
    assert theirs.count("isvalid: false") == 1
    assert f"Mismatches in :{index}" in theirs
    assert "timestamp mismatch" in theirs
    assert f"Found 70 invalid bytes at the end of {last.name}" in theirs
    assert "Snapshot is corrupt" in theirs


def flip(path: Path, position: int) -> None:
    """Damage one byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0x01
    path.write_bytes(content)


@pytest.mark.parametrize("moment", ["killed", "recovered", "stopped"])
def test_eosin_check_finds_nothing_wrong(moment: str, directories: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(getattr(directories, moment))]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.splitlines()[-1] == "no errors, no warnings"


@pytest.fixture
def without_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on its path and nothing in its cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("EOSIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "bin"


def test_a_missing_tool_is_named(without_tools: Path) -> None:
    """Before the process of the tools runs."""
    with pytest.raises(NotHere, match="java is not installed"):
        tools.command()
    (without_tools / "java").write_text("#!/bin/sh\n")
    os.chmod(without_tools / "java", 0o755)
    with pytest.raises(NotHere, match="mvn is not installed"):
        tools.command()
