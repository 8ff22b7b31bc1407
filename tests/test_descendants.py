"""Nothing that a process has started outlives it, and neither does its temporary folder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import descendants
import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

SUPPORT = Path(descendants.__file__).parent
# From a thread that is gone before the child is, in a group of its own; the child starts another one and forgets it.
STARTS = """
import os, subprocess, threading
def start():
    subprocess.Popen(["sh", "-c", "setsid sleep 1000 & exec sleep 1000"], start_new_session=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
"""
PROGRAM = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import descendants
descendants.end_with_me(sys.argv[1])
{STARTS}
print(os.environ[descendants.VARIABLE], flush=True)
sys.stdin.read()
"""
TEST = f"""
{STARTS}
import sys, descendants
def test_that_waits():
    with open("names", "a") as file:
        print(os.environ[descendants.VARIABLE], os.environ["TMPDIR"], os.getpid(), file=file)
    threading.Event().wait()
"""


def until_gone(name: str, folder: Path) -> None:
    while descendants.named(name) or folder.exists():
        time.sleep(0.02)


def until_started(name: str, count: int) -> None:
    while len(descendants.named(name)) != count:
        time.sleep(0.02)


@pytest.mark.parametrize("kills", [True, False], ids=["killed", "ended"])
def test_a_child_and_its_child_end_with_the_process_and_its_folder_goes(tmp_path: Path, kills: bool) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    (folder / "file").touch()
    command = [sys.executable, "-c", PROGRAM, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        name = process.stdout.readline().split()[-1]
        until_started(name, 2)
        assert folder.exists()
        if kills:
            process.kill()
    until_gone(name, folder)


@pytest.mark.parametrize("victim", ["controller", "worker"])
def test_what_a_worker_of_pytest_has_started_ends_when_either_is_killed(tmp_path: Path, victim: str) -> None:
    (tmp_path / "test_waiting.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "nothing_left",
        "-p",
        "no:cacheprovider",
        "-n",
        "1",
        "--basetemp",
        "base",
    ]
    if victim == "worker":
        command += ["--max-worker-restart", "0"]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        written = tmp_path / "names"
        while not (written.exists() and written.read_text().endswith("\n")):
            time.sleep(0.02)
        *_, of_controller, of_worker, folder, worker = written.read_text().split()
        until_started(of_worker, 2)
        os.kill(process.pid if victim == "controller" else int(worker), signal.SIGKILL)
    until_gone(of_controller, Path(folder).parent)


def test_what_another_process_has_started_lives_on(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, ""], input="", stdout=subprocess.PIPE, text=True, check=True)
    with subprocess.Popen(["sleep", "1000"]) as other:
        until_gone(ended.stdout.split()[-1], tmp_path / "none")
        assert other.poll() is None
        other.kill()
