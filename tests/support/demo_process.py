"""`eosin console --demo` in its own process, as a user starts and ends it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import HANG_S


class DemoProcess:
    """One such process."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        """`temporary`: where it makes its directory."""
        command = [sys.executable, "-m", "eosin.cli", "console", "--demo", *arguments]
        environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        self.first_line = self._process.stdout.readline()

    @property
    def http_address(self) -> str:
        """The console's address, as HOST:PORT."""
        return self.first_line.strip().removeprefix("console: http://").rstrip("/")

    def end(self, number: signal.Signals | None = signal.SIGINT) -> tuple[int, str]:
        """Send a signal, or wait for its own end; the exit code, and what it has said on standard error."""
        if number is not None:
            self._process.send_signal(number)
        try:
            _, said = self._process.communicate(timeout=HANG_S)
        finally:
            self._process.kill()
        return self._process.returncode, said


@contextmanager
def demo(temporary: Path) -> Iterator[DemoProcess]:
    """A demo at free ports."""
    process = DemoProcess(temporary, "--http", "0")
    try:
        yield process
    finally:
        if process._process.poll() is None:
            process.end()
