"""`ProcessBroker`: a broker in a child process, for applications that keep the interpreter busy and for pauses.

Always true: the child ends with `close`, and with this process at the latest, however that ends.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from eosin.lab import control
from eosin.lab.behaviours import DEFAULT_BEHAVIOUR
from eosin.lab.broker_api import BrokerApi, closed
from eosin.lab.common.errors import LabError
from eosin.lab.history.recording import PROTOCOL
from eosin.lab.lab_thread import acquire_thread, release_thread
from eosin.lab.operations import Operations
from eosin.lab.options import FLOWING, LAB, BrokerOptions, Topics, checked_snapshot, options_of

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot

if TYPE_CHECKING:
    from eosin.lab.faults.faces import Faults

P = ParamSpec("P")
T = TypeVar("T")

END_S: Final = 5.0
"""Longest wait for a child that ends; then it is killed."""


class ProcessBroker(BrokerApi):
    """A broker in a process of its own, started and serving. Calls are made one after the other."""

    def __init__(
        self,
        *,
        topics: Topics = (),
        settings: Mapping[str, object] | None = None,
        durability: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        strict_clients: bool = False,
        disk: str | Path = LAB,
        seed: int | None = None,
        snapshot: "Snapshot | str | None" = None,
        clock: str = FLOWING,
        clock_at: int | None = None,
        record: str = PROTOCOL,
        behaviour: str = DEFAULT_BEHAVIOUR,
        nodes: int = 1,
    ) -> None:
        """The options are those of `Broker`. Raises LabError."""
        self._options: Final = options_of(
            topics=topics,
            settings=settings,
            durability=durability,
            host=host,
            port=port,
            strict_clients=strict_clients,
            disk=disk,
            seed=seed,
            clock=clock,
            clock_at=clock_at,
            record=record,
            behaviour=behaviour,
            nodes=nodes,
        )
        chosen = checked_snapshot(snapshot)
        self._ready_made: Final = chosen if isinstance(chosen, str) else None
        self._pid: Final = os.getpid()
        self._lock: Final = threading.RLock()
        self._is_paused = False
        self._is_closed = False
        self._has_faults = False
        # Linux ends a child with the thread that made it, so a thread makes it that lives as long as it does.
        self._thread: Final = acquire_thread()
        self._process: Final[subprocess.Popen[bytes]] = self._child()
        _OPEN[self] = None
        try:
            self._bootstrap: Final[str] = self._started()
            if chosen is not None and not isinstance(chosen, str):
                self.restore(chosen)
        except BaseException:
            self.close()
            raise

    def _child(self) -> "subprocess.Popen[bytes]":
        try:
            return self._thread.call(_spawned(self._options, self._ready_made))
        except OSError as error:
            release_thread(self._thread)
            raise LabError(
                f"cannot start a process for a broker: {error.strerror}; see ulimit -n and ulimit -u"
            ) from None

    def _started(self) -> str:
        return str(control.result(self._next_frame()))

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._bootstrap

    def fork(self) -> "ProcessBroker":
        """A second broker that goes on from what this one has now, in a process of its own. Raises LabError."""
        snapshot = self.snapshot()
        return ProcessBroker(**self._options.again, snapshot=snapshot)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def complaints(self, *, dismiss: bool = False) -> list[str]:
        """See `BrokerApi.complaints`."""
        return super().complaints(dismiss=dismiss) if self._has_faults else []

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        with self._lock:
            self._check_usable()
            call = control.Call(operation.__name__, list(args), dict(kwargs))
            try:
                self._stdin.write(control.framed(call))
                self._stdin.flush()
            except OSError:
                raise self._gone() from None
            result: T = control.result_of(self._next_frame(), operation)
            return result

    def pause(self) -> None:
        """Stop the process where it is, as a machine does that is suspended (SIGSTOP). Raises LabError on Windows."""
        with self._lock:
            self._check_usable()
            self._send("SIGSTOP")
            self._is_paused = True

    def resume(self) -> None:
        """Let it go on. Harmless when it is not paused."""
        with self._lock:
            if self._is_paused:
                self._send("SIGCONT")
                self._is_paused = False

    def close(self) -> None:
        """Stop it. Harmless when that was done already. Raises LabError only with `strict_clients`."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_closed:
                return
            left, complaints = [], []
            if self._process.poll() is None:
                self.resume()
                if self._has_faults:
                    with suppress(LabError):  # it ends just now
                        complaints = self.complaints()
                if self._options.strict_clients:
                    left = [each for each in self.connections() if each.waits_for]
            self._is_closed = True
            _OPEN.pop(self, None)
            _close_pipes(self._process)
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            release_thread(self._thread)
        if left:
            raise LabError(f"the broker was closed while {'; '.join(map(str, left))}: close clients first")
        if complaints:
            raise LabError("; ".join(complaints))

    @property
    def faults(self) -> "Faults":
        """Its scripted faults; those that call functions of a test need a `Broker`."""
        self._has_faults = True
        return super().faults

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise LabError(
                f"this ProcessBroker belongs to process {self._pid}: children connect to its bootstrap address"
            )
        if self._is_closed:
            raise closed("ProcessBroker")
        if self._is_paused:
            raise LabError("this ProcessBroker is paused, and answers nobody: call resume() first")

    def _send(self, name: str) -> None:
        number = getattr(signal, name, None)
        if number is None:
            raise LabError("this system cannot pause a process")
        self._process.send_signal(number)

    @property
    def _stdin(self) -> Any:
        assert self._process.stdin is not None
        return self._process.stdin

    def _next_frame(self) -> bytes:
        assert self._process.stdout is not None
        frame = control.read_frame(self._process.stdout.read)
        if frame is None:
            raise self._gone()
        return frame

    def _gone(self) -> LabError:
        return LabError(f"the process of this broker has ended with code {self._process.wait()}")


async def _spawned(options: BrokerOptions, snapshot: str | None) -> "subprocess.Popen[bytes]":
    """The child, made by the thread that runs this."""
    return _spawn(options, snapshot)


def _spawn(options: BrokerOptions, snapshot: str | None) -> "subprocess.Popen[bytes]":
    topics = ",".join(f"{name}:{partitions}" for name, partitions in options.topics.items())
    settings = [word for name, value in options.settings.items() for word in ("--set", f"{name}={value}")]
    where = f"{options.host}:{options.port}"
    command = [sys.executable, "-P", "-m", "eosin.lab.command", "--control", "--listen", where, "--topics", topics]
    command += ["--durability", options.durability, "--disk", options.disk, "--clock", options.clock]
    command += ["--record", options.record, "--behaviour", options.behaviour, *settings]
    command += ["--nodes", str(options.nodes)]
    if options.seed is not None:
        command += ["--seed", str(options.seed)]
    if snapshot is not None:
        command += ["--snapshot", snapshot]
    if options.clock_at is not None:
        command += ["--clock-at", str(options.clock_at)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    """The child ends when its standard input does."""
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:  # it is gone already, and does not take what was left to write
            continue


_OPEN: Final[dict[ProcessBroker, None]] = {}
"""Brokers that nobody has closed yet."""


def _close_all() -> None:
    for each in list(_OPEN):
        each.close()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.clear)
