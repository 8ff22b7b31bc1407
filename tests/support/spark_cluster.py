"""Spark's standalone master on 127.0.0.1 and a worker for each host, out of the installed PySpark: a cluster that is
none of our processes, for what `local` cannot show."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from waiting import HANG_S, wait_until

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_ADDRESS: Final = re.compile(r"Starting Spark master at (spark://\S+)")


class SparkCluster:
    """A master, and a worker with `cores` on each host. A context manager; leaving it ends them and all executors."""

    def __init__(
        self, folder: Path, *, cores: int = 2, memory: str = "2g", hosts: Sequence[str] = ("127.0.0.1",)
    ) -> None:
        """`hosts`: addresses of this machine, 127.0.0.1 and 127.0.0.2 among them. Spark starts no copy of a task on the
        host where the first one runs."""
        self._folder = folder
        self._hosts = hosts
        self._cores = cores
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""
        """The value for `--master`."""

    def executors(self) -> list[int]:
        """The process ids of the executors that the workers have started and that run now."""
        members = [each for worker in self._processes[1:] for each in _session(worker.pid)]
        return [pid for pid, command in members if b"CoarseGrainedExecutorBackend" in command]

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            log = self._start("master", _MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._said(log, _ADDRESS)[1]
            size = ("--cores", str(self._cores), "--memory", self._memory, "--webui-port", "0")
            for host in self._hosts:
                place = ("--work-dir", str(self._folder / "work" / host), "--host", host)
                self._start(f"worker {host}", _WORKER, *size, *place, self.master, address=host)
                self._said(log, re.compile(rf"Registering worker {re.escape(host)}:"))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, name: str, kind: str, *arguments: str, address: str = "127.0.0.1") -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self._folder / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": address,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), kind, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, what: re.Pattern[str]) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            assert all(each.poll() is None for each in self._processes), logs()
            return what.search(log.read_text())

        def logs() -> str:
            return "\n".join(each.read_text() for each in self._folder.glob("*.log"))[-3000:]

        return wait_until(found, logs, every_s=0.1)

    def _stop(self) -> None:
        for process in reversed(self._processes):
            for pid, _ in _session(process.pid):
                _kill(pid)
            process.wait(HANG_S)


def _session(leader: int) -> list[tuple[int, bytes]]:
    """The processes of a session, with their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == leader:
                found.append((int(process.name), (process / "cmdline").read_bytes()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
