"""`eosin check` as a command: its report, its exit codes, and that it leaves a running broker alone."""

import json
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Producer
from inspected import exported, written
from waiting import HANG_S

from eosin.cli.__main__ import main
from eosin.storage.disk.system import SystemDisk


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A sound data directory."""
    return exported(await written(), tmp_path)


def test_a_sound_directory_is_0_with_a_line_for_each_partition(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith(f"{folder}: cluster ")
    assert lines[0].endswith("node 0, stopped cleanly")
    assert lines[2].split()[:3] == ["partition", "segments", "batches"]
    assert lines[3].split() == ["orders-0", "3", "63", "96", "8,706", "0..110", "91", "3", "1"]
    assert lines[-1] == "no errors, no warnings"


def test_the_directory_may_be_named_as_for_other_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--data-dir", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: cluster ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [((), "one of the arguments DIR --data-dir is required"), (("a", "--data-dir", "b"), "not allowed with argument")],
)
def test_the_directory_is_named_once(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_damaged_directory_is_1_and_tells_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "orders-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[300] ^= 0xFF
    path.write_bytes(content)
    (folder / "orders-0" / "00000000000000000051.index").unlink()
    assert main(["check", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.startswith("!! error: orders-0/00000000000000000000.log byte 205 (offset 3): wrong checksum")
        for line in lines
    )
    assert " ! warning: orders-0/00000000000000000051.log: it lacks an index, which the next start rebuilds" in lines
    assert lines[-1] == "1 error, 1 warning"


def test_warnings_alone_are_0(folder: Path) -> None:
    (folder / "orders-0" / "00000000000000000051.index").unlink()
    assert main(["check", str(folder)]) == 0


def test_json_is_one_object_for_each_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "orders-0" / "00000000000000000051.index").unlink()
    assert main(["check", "--json", str(folder)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["type"] for each in found] == ["directory", "partition", "problem", "summary"]
    assert found[1]["last_stable_offset"] == 91
    assert found[2]["severity"] == "warning"
    assert (found[3]["errors"], found[3]["warnings"]) == (0, 1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing", "there is no directory "),
        ("data/orders-0", "is no data directory: it has no meta.properties"),
    ],
)
def test_a_path_without_a_data_directory_exits_with_2(
    folder: Path, name: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(folder.parent / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("eosin check: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_directory_of_a_later_format_is_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "meta.properties").open("a") as file:
        file.write("eosin.format=9\n")
    assert main(["check", str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f"eosin check: cannot check {folder}: it has format 9, ")


def test_a_directory_that_a_broker_holds_is_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = SystemDisk().lock(str(folder / ".lock"))
    assert main(["check", str(folder)]) == 2
    assert capsys.readouterr().err == f"eosin check: a broker is at work in {folder}; stop it first\n"
    held.release()
    assert main(["check", str(folder)]) == 0


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.slow
def test_a_running_broker_can_be_looked_at_but_not_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerProcess(tmp_path / "data", durability="fsync") as broker:
        assert main(["check", str(broker.data_dir)]) == 2
        assert "a broker is at work" in capsys.readouterr().err
        assert main(["dump-log", "--deep", str(broker.data_dir / "__eosin_metadata-0")]) == 0
        assert 'Topic name="__transaction_state"' in capsys.readouterr().out
        broker.kill()
        assert main(["check", str(broker.data_dir)]) == 0
        assert "stopped without saying so" in capsys.readouterr().out
        broker.start()
    assert main(["check", str(broker.data_dir)]) == 0
    assert "stopped cleanly" in capsys.readouterr().out


@pytest.mark.process
@pytest.mark.slow
def test_a_log_can_be_dumped_while_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Batches are large, so that a look often falls into the middle of a write."""
    with BrokerProcess(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "batch.size": 900_000})
        producer.produce("growing", b"first")
        producer.flush(HANG_S)
        folder = broker.data_dir / "growing-0"
        for _ in range(15):
            for _ in range(40):
                producer.produce("growing", bytes(20_000))
            producer.poll(0)
            assert main(["dump-log", "--json", str(folder)]) == 0, capsys.readouterr().out[-2000:]
        producer.flush(HANG_S)
        capsys.readouterr()
        assert main(["dump-log", "--json", str(folder)]) == 0
        batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert sum(each["records_count"] for each in batches if each["type"] == "batch") == 601
