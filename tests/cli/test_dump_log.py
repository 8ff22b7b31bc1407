"""`eosin dump-log`: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from batches import NOW_MS, ORDERS
from inspected import exported, written
from waiting import HANG_S

from eosin.cli.__main__ import main
from eosin.cli.dump_lines import moment, shown
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from eosin.protocol.schemas.records.share_group_state import ShareUpdateKey, ShareUpdateValue, StoredStateBatch
from eosin.protocol.schemas.records.transaction_state import TransactionLogKey, TransactionLogValue
from eosin.storage.disk.system import ReadOnlyDisk

FIRST = "00000000000000000000.log"


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A sound partition directory."""
    return exported(await written(), tmp_path) / str(ORDERS)


def ended(*arguments: object) -> object:
    """How the command ends."""
    try:
        return main(["dump-log", *map(str, arguments)])
    except SystemExit as code:
        return code.code


def json_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def segment(folder: Path, *records: NewRecord) -> Path:
    """A file with these records in one batch."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / FIRST
    path.write_bytes(build_batch(records, timestamp=NOW_MS))
    return path


def test_people_get_a_line_for_each_batch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(folder / FIRST) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == f"{folder / FIRST}: segment, 3,970 bytes"
    assert " ".join(lines[3].split()) == (
        "362 offsets 5..6 2 records 157 bytes none 2023-11-14T22:13:20.001Z leader epoch 0 producer 2/0"
        " sequences 0..1 transactional"
    )
    assert lines[5].endswith("producer 2/0  COMMIT by coordinator epoch 1")


def test_deep_shows_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = segment(
        tmp_path / "orders-0",
        NewRecord("kéy".encode(), b"\xff\x00", headers=(("h", b"1"), ("n", None))),
        NewRecord(None, b"v" * 500),
    )
    assert ended("--deep", path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].endswith('key "kéy"  value 0xff00  headers "h"="1" "n"=null')
    assert lines[3].endswith("... (500 bytes)")
    assert "key null" in lines[3]


def test_json_is_one_object_for_each_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--json", "--deep", folder) == 0
    found = json_lines(capsys)
    assert {each["type"] for each in found} == {
        "file", "batch", "record", "offset_entry", "time_entry", "aborted_transaction", "producer", "leader_epoch",
        "property",
    }  # fmt: skip
    assert all(each["file"].startswith(str(folder)) for each in found)
    batches = [each for each in found if each["type"] == "batch"]
    assert batches[0]["is_valid"] is True
    assert batches[0]["compression"] == "none"


def test_json_holds_bytes_as_text_or_base64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = b"\xfe".decode("utf-8", "surrogateescape")
    path = segment(tmp_path / "orders-0", NewRecord("é".encode(), b"\xff\x00", headers=((name, None),)))
    assert ended("--json", "--deep", path) == 0
    record = json_lines(capsys)[2]
    assert record["key"] == "é"
    assert record["value"] == {"base64": "/wA="}
    assert record["headers"] == [[{"base64": "/g=="}, None]]


def test_a_damaged_file_is_1_and_tells_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((folder / FIRST).read_bytes())
    content[300] ^= 0xFF
    (folder / FIRST).write_bytes(content)
    assert ended(folder / FIRST, folder / "leader-epoch-checkpoint") == 1
    out, err = capsys.readouterr()
    (line,) = [line for line in out.splitlines() if line.startswith("!!")]
    assert line.startswith("!! byte 205 (offset 3): wrong checksum")
    assert "WRONG CHECKSUM" in out
    assert err == "eosin dump-log: 1 of 2 files are damaged, 1 problems in all\n"
    assert ended("--json", folder / FIRST) == 1
    (problem,) = [each for each in json_lines(capsys) if each["type"] == "problem"]
    assert (problem["position"], problem["offset"]) == (205, 3)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing.log", "there is no file "),
        ("notes.txt", "does not tell what it is; known are .log, .index"),
        ("empty", "there is nothing to show in the directory "),
    ],
)
def test_a_path_that_cannot_be_shown_exits_with_2_and_one_sentence(
    name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    assert ended(tmp_path / name) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert sentence in err


def test_arguments_that_make_no_sense_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended() == 2
    assert ended("--offsets", "--transaction-log", "x") == 2
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / FIRST).chmod(0)
    assert ended(folder / FIRST) == 2
    assert capsys.readouterr().err == f"eosin dump-log: cannot read {folder / FIRST}: Permission denied\n"


def test_a_copy_of_an_internal_log_is_decoded_when_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, value = TransactionLogKey("tx"), TransactionLogValue(producer_id=7, transaction_status=4)
    path = segment(tmp_path / "copy", NewRecord(encode_key(key), encode_value(value, 1)))
    assert ended("--transaction-log", path) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert 'TransactionLog transactional_id="tx"  -> producer_id=7' in line
    assert 'transaction_status="CompleteCommit"' in line
    offset = NewRecord(encode_key(OffsetCommitKey("g", "orders", 0)), encode_value(OffsetCommitValue(offset=5), 3))
    path = segment(tmp_path / "copy", offset, NewRecord(offset.key, None))
    assert ended("--offsets", path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'OffsetCommit group="g" topic="orders" partition=0  -> offset=5' in lines[2]
    assert lines[3].endswith("tombstone")
    assert ended("--transaction-log", path) == 0
    assert capsys.readouterr().out.splitlines()[2].endswith("a kind that is not known (key version 1)")
    update = ShareUpdateValue(3, 7, 100, -1, (StoredStateBatch(100, 109, 2, 1),))
    state = NewRecord(encode_key(ShareUpdateKey("g", bytes(15) + b"a", 4)), encode_value(update, 0))
    path = segment(tmp_path / "copy", state)
    assert ended("--share-group-state", path) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert 'ShareUpdate group_id="g" topic_id="AAAAAAAAAAAAAAAAAAAAYQ" partition=4' in line
    assert "start_offset=100" in line
    assert "delivery_state" in line


def test_nothing_is_changed_and_no_lock_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    (folder / FIRST).chmod(0o444)
    assert ended("--deep", folder) == 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before


@pytest.mark.process
def test_output_ends_quietly_when_its_reader_has_gone(folder: Path) -> None:
    command = [sys.executable, "-m", "eosin.cli", "dump-log", "--deep", *[str(folder)] * 40]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(HANG_S) == 0


def test_times_and_bytes_are_shown_for_people() -> None:
    assert moment(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert moment(-1).strip() == "no time"
    assert moment(2**62).strip() == str(2**62)
    assert shown(None) == "null"
    assert shown(b'a"b') == '"a\\"b"'
    assert shown(b"\xc3\x28") == "0xc328"
    assert shown("é".encode() * 150) == '"' + "é" * 100 + '"... (300 bytes)'


def test_files_that_a_running_broker_removes_meanwhile_are_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ReadOnlyDisk.list

    def list_and_lose(disk: ReadOnlyDisk, path: str) -> list[str]:
        names = listed(disk, path)
        for name in names:
            if name.startswith("00000000000000000000") or name.endswith(".snapshot"):
                (folder / name).unlink()
        return names

    monkeypatch.setattr(ReadOnlyDisk, "list", list_and_lose)
    assert ended(folder) == 0
    out = capsys.readouterr().out
    assert "00000000000000000051.log: segment" in out
    assert "00000000000000000000" not in out
