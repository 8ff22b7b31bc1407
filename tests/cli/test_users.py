"""`eosin users`: on the directory of a stopped broker, and over the wire; what it refuses changes nothing."""

import io
import json
from pathlib import Path

import pytest
from broker_process import BrokerProcess

from eosin.cli.__main__ import main

SCRAM = ("--iterations", "4096")


class Command:
    """The command, with what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *where: str) -> None:
        self._capsys = capsys
        self._where = where

    def __call__(self, *words: str, code: int = 0) -> list[dict[str, object]]:
        """Run it; the rows that it prints as JSON."""
        assert main(["users", *words, *self._where, "--json"]) == code
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def refused(self, *words: str, code: int = 2) -> str:
        """Run it; the one sentence of its refusal."""
        assert main(["users", *words, *self._where]) == code
        captured = self._capsys.readouterr()
        assert captured.out == ""
        # A slow disk may have been logged beside it.
        (sentence,) = [line for line in captured.err.splitlines() if line.startswith("eosin")]
        return sentence


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str], data_dir: Path) -> Command:
    return Command(capsys, "--data-dir", str(data_dir))


def both(user: str, iterations: int = 4096) -> list[dict[str, object]]:
    return [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]


def test_the_first_user_comes_before_the_first_start(offline: Command, data_dir: Path) -> None:
    rows = offline("add", "admin", *SCRAM)
    (password,) = {row.pop("password") for row in rows}
    assert isinstance(password, str)
    assert len(password) == 24
    assert rows == both("admin")
    assert offline("list") == both("admin")
    stored = b"".join(path.read_bytes() for path in data_dir.rglob("*") if path.is_file())
    assert password.encode() not in stored


def test_users_of_a_directory_are_changed_and_deleted(offline: Command) -> None:
    offline("add", "alice", "--mechanism", "SCRAM-SHA-512", *SCRAM)
    offline("add", "bob", *SCRAM)
    assert offline("passwd", "alice", "--iterations", "8192")[0]["iterations"] == 8192
    assert [row["mechanism"] for row in offline("list") if row["user"] == "alice"] == ["SCRAM-SHA-512"]
    offline("delete", "bob", "--mechanism", "SCRAM-SHA-256")
    assert [row["user"] for row in offline("list")] == ["alice", "bob"]
    offline("delete", "bob")
    assert [row["user"] for row in offline("list")] == ["alice"]


def test_users_that_are_missing_and_users_that_exist_already(offline: Command) -> None:
    offline("add", "alice", "--mechanism", "SCRAM-SHA-512", *SCRAM)
    assert "there is a user 'alice' already" in offline.refused("add", "alice", code=1)
    assert offline.refused("passwd", "bob", code=1) == "eosin users passwd: there is no user 'bob'"
    assert "no password for SCRAM-SHA-256" in offline.refused("delete", "alice", "--mechanism", "SCRAM-SHA-256", code=1)


def test_passwords_come_from_a_file_or_stdin_and_are_not_printed(
    offline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("from a file\nand more\n")
    assert offline("add", "alice", "--password-file", str(file), *SCRAM) == both("alice")
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\n"))
    assert offline("passwd", "alice", "--password-file", "-", *SCRAM) == both("alice")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", ""), "NAME must have 1 to 255 printable characters"),
        (("add", "a\nb"), "NAME must have 1 to 255 printable characters"),
        (("add", "a", "--iterations", "4095"), "--iterations must be from 4096 to 16384, not 4095"),
        (("add", "a", "--iterations", "20000"), "--iterations must be from 4096 to 16384, not 20000"),
        (("add", "a", "--password-file", "/nowhere"), "cannot read the password from /nowhere"),
        (("add", "a", "--password-file", "/dev/null"), "the password is empty"),
    ],
)
def test_a_user_that_cannot_be_is_refused_and_nothing_is_written(
    offline: Command, data_dir: Path, words: tuple[str, ...], why: str
) -> None:
    assert why in offline.refused(*words)
    assert not data_dir.exists()


def test_a_directory_that_no_broker_has_used_has_no_users(offline: Command, data_dir: Path) -> None:
    assert "no broker has used it yet" in offline.refused("list")
    assert not data_dir.exists()


@pytest.mark.process
def test_the_directory_of_a_running_broker_is_refused(offline: Command, data_dir: Path) -> None:
    with BrokerProcess(data_dir):
        assert "cannot use the data directory" in offline.refused("add", "alice")


@pytest.mark.process
def test_a_running_broker_is_asked_over_the_wire(
    offline: Command, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offline("add", "alice", *SCRAM)
    with BrokerProcess(data_dir) as process:
        online = Command(capsys, "--bootstrap-server", process.address)
        assert online("list") == both("alice")
        assert "password" in online("add", "bob", *SCRAM)[0]
        assert "already" in online.refused("add", "bob", code=1)
        online("passwd", "bob", "--iterations", "8192")
        online("delete", "alice")
        assert online("list") == both("bob", 8192)
        assert "there is no user 'alice'" in online.refused("delete", "alice", code=1)
        assert "a user's credential was deleted" in process.log
    assert offline("list") == both("bob", 8192)


def test_an_older_eosin_refuses_a_directory_with_users(
    offline: Command, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignoring users would open or lock every door: a kind of record that is not known ends the start."""
    from eosin.protocol.schemas.records import cluster_metadata

    offline("add", "alice", *SCRAM)
    monkeypatch.setattr(cluster_metadata, "KINDS", cluster_metadata.KINDS[:4])
    assert "a kind of record that this version does not know" in offline.refused("list")


def test_stored_credentials_are_hidden_from_dumps(
    offline: Command, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offline("add", "alice", *SCRAM)
    (segment,) = (data_dir / "__eosin_metadata-0").glob("*.log")
    assert main(["dump-log", "--deep", str(segment)]) == 0
    dumped = capsys.readouterr().out
    assert "ScramCredential" in dumped
    assert dumped.count('salt="[hidden]" stored_key="[hidden]" server_key="[hidden]" iterations=4096') == 2
