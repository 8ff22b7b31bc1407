"""What other users of the machine get to see of a broker (security.md 6.3.4, 6.5.1; case 58 of security.md 9.3)."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from waiting import HANG_S

from eosin.security import process
from eosin.security.process import UnsafeDirectory, check_directory, exposed, files_with_secrets

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX systems"),
]


def test_a_directory_that_everybody_may_write_is_refused_and_one_that_others_may_read_is_told(tmp_path: Path) -> None:
    path = str(tmp_path)
    for mode in (0o777, 0o1777, 0o702):
        tmp_path.chmod(mode)
        with pytest.raises(UnsafeDirectory, match="chmod o-w"):
            check_directory(path)
    for mode in (0o755, 0o740, 0o2755):
        tmp_path.chmod(mode)
        (warning,) = check_directory(path)
        assert warning == f"others on this machine may read the data directory {path}: chmod 700 {path}"
    tmp_path.chmod(0o700)
    assert list(check_directory(path)) == []
    assert list(check_directory(path + "/none yet")) == []


def test_a_directory_of_another_user_is_refused_by_root_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:  # what belongs to root is as safe as root
        assert list(check_directory(str(tmp_path))) == []
        os.chown(tmp_path, 1234, 1234)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UnsafeDirectory, match="belongs to another user of this machine"):
        check_directory(str(tmp_path))


def test_a_directory_that_a_group_may_write_is_refused_unless_the_group_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path.stat()
    tmp_path.chmod(0o770)
    monkeypatch.setattr(process, "_is_private", lambda group, user: (group, user) != (found.st_gid, found.st_uid))
    with pytest.raises(UnsafeDirectory, match=r"may write in the data directory .*: chmod g-w"):
        check_directory(str(tmp_path))
    monkeypatch.undo()
    assert process._is_private(54321, 54321)
    assert not process._is_private(54321, 54322)


def test_files_with_secrets_that_everybody_may_read_are_told(tmp_path: Path) -> None:
    token, secrets, plain = (tmp_path / name for name in ("token", "secrets", "server.properties"))
    for each in (token, secrets):
        each.write_text("x=y")
    written = f"ssl.key.password=${{file:{secrets}:x}}\nssl.truststore.location=/etc/ca.pem\n"
    assert list(files_with_secrets(written, str(plain))) == [str(secrets)]
    for secret in ("ssl.keystore.password=x", "listener.name.a.plain.sasl.jaas.config=x"):
        assert list(files_with_secrets(secret, str(plain))) == [str(plain)]
    assert list(files_with_secrets("listeners=PLAINTEXT://:9092", str(plain))) == []
    token.chmod(0o644)
    secrets.chmod(0o640)
    (warning,) = exposed([str(token), str(secrets), str(token), str(tmp_path / "none")])
    assert warning == f"everybody on this machine may read {token}, which holds secrets: chmod o-r {token}"


@pytest.mark.slow
def test_a_broker_does_not_start_on_a_directory_that_everybody_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    command = [sys.executable, "-m", "eosin.cli", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "everybody on this machine may write in the data directory" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_files_of_a_broker_belong_to_its_user_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as broker:
        broker.stop()
        assert "may read the data directory" not in broker.log
    found = [data, *data.rglob("*")]
    assert len(found) > 5
    assert [str(each) for each in found if stat.S_IMODE(each.stat().st_mode) & 0o077] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the switch")
def test_a_broker_with_secrets_writes_no_core(tmp_path: Path) -> None:
    script = "from eosin.security.process import hide_memory; hide_memory(); "
    asked = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE
    for begun, dumpable in (("", "1"), (script, "0")):
        told = subprocess.run([sys.executable, "-c", begun + asked], capture_output=True, text=True, timeout=HANG_S)
        assert told.stdout.strip() == dumpable, told.stderr
