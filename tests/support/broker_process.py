"""A real broker in its own process, started and stopped the way a user does it."""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

START_TIMEOUT_S: Final = 60
"""A start takes a fraction of a second, but not on a machine that is busy with something else."""
_READY = re.compile(r"^eosin \S+ ready on ([^\s,]+)(?:, \S+)* in ([0-9.]+) s")


class BrokerProcess:
    """`eosin serve` on a free loopback port. A context manager: leaving it stops the broker cleanly."""

    def __init__(
        self,
        data_dir: Path,
        *,
        durability: str = "os",
        settings: dict[str, str] | None = None,
        port: int = 0,
        descriptors: int | None = None,
    ) -> None:
        """`descriptors`: the limit of open files that it is started with (`ulimit -n`)."""
        self.descriptors = descriptors
        self.data_dir = data_dir
        self.durability = durability
        self.settings = settings or {}
        self.port = port
        self.listener_name = ""
        """Of its listener; PLAINTEXT unless given."""
        self.ready_line = ""
        self.options: tuple[str, ...] = ()
        """More of the command line."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""
        return f"127.0.0.1:{self.port}"

    @property
    def http_address(self) -> str:
        """Where it serves metrics and the console, as its ready line says."""
        return self.ready_line.rpartition("http ")[2].rstrip(")\n")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def log(self) -> str:
        """What the broker has logged so far."""
        return (self.data_dir.parent / f"{self.data_dir.name}.log").read_text()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start, and wait until it says that it is ready. A restart takes the same port again."""
        self.launch()
        return self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start, and do not wait."""
        listener = f"{self.listener_name}={self.address}" if self.listener_name else self.address
        command = [sys.executable, "-m", "eosin.broker", "serve", "--listen", listener]
        command += ["--durability", self.durability]
        command += self.options
        if self.durability != "memory":
            command += ["--data-dir", str(self.data_dir)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        if self.descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {self.descriptors} && exec "$@"', "sh", *command]
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with (self.data_dir.parent / f"{self.data_dir.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Wait until the broker that was launched says that it is ready."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                self.kill()
                raise AssertionError(f"the broker did not say that it is ready within {timeout_s} s:\n{self.log}")
        self.ready_line = self._process.stdout.readline()
        ready = _READY.match(self.ready_line)
        if ready is None:
            self._process.wait(10)
            raise AssertionError(f"the broker did not start: {self.ready_line!r}\n{self.log}")
        self.port = int(ready.group(1).rpartition(":")[2])
        return self

    def stop(self, timeout_s: float = 20) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> int:
        """SIGKILL; the exit code."""
        return self._end(signal.SIGKILL, 10)

    def wait(self, timeout_s: float) -> int:
        """Wait until it ends by itself; the exit code."""
        return self._end(None, timeout_s)

    def _end(self, how: signal.Signals | None, timeout_s: float) -> int:
        assert self._process is not None
        if how is not None:
            self._process.send_signal(how)
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
            raise AssertionError(f"the broker did not stop within {timeout_s} s:\n{self.log}") from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        self._process = None
        return code

    def resident_bytes(self) -> int:
        """Resident memory of the process now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()


def wait_until(true: Callable[[], object], timeout_s: float = 10.0, every_s: float = 0.02) -> None:
    """Call `true` until it answers something true. Fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come true in time")
        time.sleep(every_s)
