"""The words of an application, as a report has them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from eosin.lab.run import process
from eosin.lab.run.process import LAST_LINES, LINE_CHARS, Supervised


def test_the_last_lines_are_few_and_short_whatever_an_application_says(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)) + "x" * 10_000)
    lines = Supervised(["app"], "127.0.0.1:9092", log, restarts=0).last_lines()
    assert len(lines) == LAST_LINES
    assert lines[-2] == "line 99"
    assert lines[-1] == "x" * LINE_CHARS + "..."


@pytest.mark.process
def test_an_application_that_says_the_same_for_ever_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_SAID", 1 << 12)
    log = tmp_path / "app.log"
    app = Supervised(["sh", "-c", "while :; do echo nonsense; done"], "127.0.0.1:9092", log, restarts=0)
    app.start()
    wait_until(lambda: app.left_out > 2 << 12 and "nonsense" in app.last_lines())
    app.stop()
    assert app.exits == []
    assert "that it has said before are left out" in log.read_text()


@pytest.mark.process
def test_what_an_application_leaves_behind_ends_before_it_is_started_again(tmp_path: Path) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    script = f"exec 3>{fifo}; sleep 1000 & echo $! >&3; exit 0"
    app = Supervised(["sh", "-c", script], "127.0.0.1:9092", tmp_path / "app.log", restarts=0)
    app.start()
    with fifo.open("rb") as held:
        assert held.readline().strip().isdigit()
        assert held.read() == b"", "the child has let go of the pipe"
    wait_until(lambda: app.exits)
    app.stop()
    (left,) = app.exits
    assert str(left) == (
        "exited with 0, and others that it had started were ended with it: let it run in the foreground"
    )


HELD = "exec 3>$FIFO; echo up >&3; sleep 1000"
"""An application, and a child of it, that hold a pipe for as long as one of them lives."""
LAB = """
import sys
from pathlib import Path
from eosin.lab.run.process import Supervised, ended_by_signals
with ended_by_signals(Path(sys.argv[2])):
    Supervised(["sh", "-c", sys.argv[1]], "127.0.0.1:9092", Path(sys.argv[2], "log"), restarts=0).start()
    sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_an_application_ends_with_the_lab_whatever_ends_the_lab(tmp_path: Path, number: signal.Signals) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    (tmp_path / "scratch").mkdir()
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB, HELD, str(tmp_path / "scratch")],
        env={**os.environ, "FIFO": str(fifo)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with lab, fifo.open("rb") as held:
        assert held.readline() == b"up\n"
        lab.send_signal(number)
        assert lab.wait() == (-number if number == signal.SIGKILL else 128 + number)
        assert held.read() == b"", "it has let go of the pipe"
        assert lab.stderr is not None
        assert (b"interrupted" in lab.stderr.read()) == (number != signal.SIGKILL)
    assert (tmp_path / "scratch").exists() == (number == signal.SIGKILL)
