"""A real broker in its own process, started and stopped the way a user does it."""

import os
import re
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from waiting import HANG_S

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
        self.program: tuple[str, ...] = ("-m", "eosin.cli")
        """Of the interpreter."""
        self.environment: dict[str, str] = {}
        """More of its environment."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""
        return f"127.0.0.1:{self.port}"

    @property
    def http_address(self) -> str:
        """The address of metrics and the console, from its ready line."""
        return self.ready_line.rpartition("http ")[2].rstrip(")\n")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """True if it was started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def log(self) -> str:
        """The broker's log so far."""
        return (self.data_dir.parent / f"{self.data_dir.name}.log").read_text()

    def start(self, longest_s: float = HANG_S) -> Self:
        """Start, and wait until it says that it is ready. A restart takes the same port again."""
        self.launch()
        return self.wait_ready(longest_s)

    def launch(self) -> None:
        """Start, and do not wait."""
        listener = f"{self.listener_name}={self.address}" if self.listener_name else self.address
        command = [sys.executable, *self.program, "serve", "--listen", listener]
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
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )

    def wait_ready(self, longest_s: float = HANG_S) -> Self:
        """Wait until the broker that was launched says that it is ready."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(longest_s):
                self.kill()
                raise AssertionError(f"the broker did not say that it is ready within {longest_s} s:\n{self.log}")
        self.ready_line = self._process.stdout.readline()
        ready = _READY.match(self.ready_line)
        if ready is None:
            self._process.wait(HANG_S)
            self._process.stdout.close()
            raise AssertionError(f"the broker did not start: {self.ready_line!r}\n{self.log}")
        self.port = int(ready.group(1).rpartition(":")[2])
        return self

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL; the exit code."""
        return self._end(signal.SIGKILL)

    def wait(self) -> int:
        """Wait until it ends by itself; the exit code."""
        return self._end(None)

    def _end(self, how: signal.Signals | None) -> int:
        assert self._process is not None
        if how is not None:
            self._process.send_signal(how)
        try:
            code = self._process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(HANG_S)
            raise AssertionError(f"the broker did not stop within {HANG_S} s:\n{self.log}") from None
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
