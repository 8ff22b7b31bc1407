"""A module that leaves something fails its last test, and is told what it has left."""

import os
import re
import subprocess
import sys
from pathlib import Path

import leftovers
import nothing_left
import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

CONFTEST = '''
import os, subprocess, sys, pytest, leftovers
leftovers._GONE_WITHIN_S = 0.1
@pytest.fixture(scope="session")
def shared():
    with subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True) as process:
        yield process
        os.killpg(process.pid, 9)
LISTENS = """
import socket
listening, kept = socket.create_server(("127.0.0.1", 0)), []
print(listening.getsockname()[1], flush=True)
while True:
    kept.append(listening.accept())
"""
def port_of(*words):
    with subprocess.Popen([sys.executable, "-c", LISTENS, *words], stdout=subprocess.PIPE, text=True) as process:
        yield int(process.stdout.readline())
        process.kill()
@pytest.fixture(scope="session")
def spark():
    yield from port_of("org.apache.spark.deploy.SparkSubmit")
@pytest.fixture(scope="session")
def server():
    yield from port_of()
'''
LEAVES = {
    # A process that is just being replaced by its program has no environment to be known by.
    "process": 'subprocess.Popen(["sh", "-c", "sleep 1001 & until grep -q sleep /proc/$!/comm; do :; done"]).wait()',
    "thread": 'threading.Thread(target=threading.Event().wait, name="reader", daemon=True).start()',
    "descriptors": "opened = [os.open(__file__, os.O_RDONLY) for _ in range(5)]",
    "file": 'tempfile.mkdtemp(prefix="mine-")',
    "nothing": "opened = [os.open(__file__, os.O_RDONLY) for _ in range(4)]",
    "connections": "opened.extend(socket.create_connection(('127.0.0.1', server)) for _ in range(5))",
    "spark": "opened.extend(socket.create_connection(('127.0.0.1', spark)) for _ in range(5))",
}
TOLD = {
    "process": r"process \d+: .*sleep 1001.*",
    "thread": r"thread reader",
    "descriptors": r"descriptor of \S+/test_descriptors.py",
    "file": r"\S+/mine-\S+",
    "connections": r"descriptor of socket:\S+",
}

UNCLOSED = ("-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning")


def ran(folder: Path, modules: dict[str, str], *options: str) -> str:
    """What pytest says of modules with the plugin."""
    (folder / "pytest.ini").touch()
    (folder / "conftest.py").write_text(CONFTEST)
    for name, line in modules.items():
        lines = ["import os, socket, subprocess, tempfile, threading", "opened = []"]
        lines += ["def test_first(shared, spark, server):", f"    {line}"]
        (folder / f"test_{name}.py").write_text("\n".join([*lines, "def test_last():", "    pass"]))
    options = ("-p", "nothing_left", "-p", "no:cacheprovider", "-rA", "--basetemp", "base", *options)
    command = [sys.executable, "-m", "pytest", *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(leftovers.__file__).parent)}
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout


def test_what_a_module_leaves_is_an_error_of_its_last_test_but_not_what_the_session_keeps(tmp_path: Path) -> None:
    said = ran(tmp_path, LEAVES)
    assert set(re.findall(r"^ERROR test_(\w+)\.py::test_last", said, re.MULTILINE)) == set(TOLD), said
    for name, left in TOLD.items():
        assert re.search(rf"^test_{name}\.py has left\n(  .*\n)*?  {left}\s*$", said, re.MULTILINE), said
    assert "sleep 1000" not in said
    assert f"{2 * len(LEAVES)} passed, {len(TOLD)} errors" in said


def test_a_module_with_a_failed_test_is_not_asked(tmp_path: Path) -> None:
    said = ran(tmp_path, {"thread": f"{LEAVES['thread']}; assert False"})
    assert "1 failed, 1 passed" in said
    assert "has left" not in said


def test_the_next_test_is_not_blamed_for_what_a_failed_one_did_not_close(tmp_path: Path) -> None:
    said = ran(tmp_path, {"socket": "unclosed = socket.socket(); assert False"}, *UNCLOSED)
    assert "1 failed, 1 passed" in said, said


def test_modules_that_nobody_has_looked_at_are_told_of_and_fail_nothing(tmp_path: Path) -> None:
    folder = tmp_path / nothing_left.NOT_YET[0]
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").touch()
    said = ran(folder, {"thread": LEAVES["thread"]}, "--rootdir", str(tmp_path), "-n", "1")
    assert "test_thread.py has left\n  thread reader" in said, said
    assert "2 passed" in said
    assert all((Path(__file__).parents[1] / each).exists() for each in nothing_left.NOT_YET)
