"""`Supervised`: an application in a process of its own, started again when it exits, as a supervisor does.

Always true: all that it has started ends with `stop`, by its process group, and with this process, whatever ends that:
a guard beside it waits for the end of a pipe that this process alone holds. What it says goes to a file, of which the
last lines are kept for each exit, and which begins anew when it is `MOST_SAID` long: an application that says the same
for ever fills no disk.
"""

import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from eosin.lab.common.errors import LabError

LAST_LINES: Final = 20
LINE_CHARS: Final = 500
"""So much is shown of each."""
MOST_SAID: Final = 64 << 20
"""Bytes."""
TERM_S: Final = 10.0
"""Time that it has after SIGTERM before SIGKILL."""
_BACKOFF_S: Final = 0.2
_LOOKS_S: Final = 0.2
"""Between two looks at the length of what it says."""
_TAIL_BYTES: Final = 16_384
_GUARD: Final = """
trap '' HUP INT TERM
read -r _
kill -s CONT -- "-$1"; kill -s TERM -- "-$1"
left=$2
while [ "$left" -gt 0 ] && kill -s 0 -- "-$1"; do sleep 0.1; left=$((left - 1)); done
kill -s KILL -- "-$1"
"""
"""Of a process group, and the tenths of a second that it has after SIGTERM. A shell starts in a millisecond."""
_GATE: Final = 'read -r _ || exit; exec "$@" </dev/null'
"""Before an application: it begins once it has a guard, and never if this process ends before that."""
_GUARD_TENTHS: Final = 5
"""Few: with the lab its broker is gone, so an application has nothing to finish."""
_INTERRUPTED: Final = b"eosin lab: interrupted; the application ends with it, and no report is written\n"
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
VARIABLES: Final = (
    "KAFKA_BOOTSTRAP_SERVERS",
    "BOOTSTRAP_SERVERS",
    "SPRING_KAFKA_BOOTSTRAP_SERVERS",
    "EOSIN_BOOTSTRAP",
)
"""Variables of its environment that hold the address of the broker."""


class Exit(msgspec.Struct, frozen=True):
    """An exit that nobody has asked for."""

    status: int
    """Its exit code, or minus the number of the signal."""
    last_lines: tuple[str, ...]
    left_others: bool = False
    """True if processes that it had started were still there, which were ended."""

    def __str__(self) -> str:
        how = f"exited with {self.status}" if self.status >= 0 else f"was ended by {signal.Signals(-self.status).name}"
        if self.left_others:
            how += ", and others that it had started were ended with it: let it run in the foreground"
        return "\n".join([how, *(f"  | {each}" for each in self.last_lines)])


class Supervised:
    """One instance of the application."""

    def __init__(
        self, command: Sequence[str], bootstrap: str, log: Path, *, restarts: int, more: Mapping[str, str] | None = None
    ) -> None:
        self._command: Final = [each.replace("{bootstrap}", bootstrap) for each in command]
        self._environment: Final = {
            **os.environ,
            **dict.fromkeys(VARIABLES, bootstrap),
            "PYTHONUNBUFFERED": "1",
            **(more or {}),
        }
        self._log: Final = log
        self._most: Final = restarts
        self.exits: Final[list[Exit]] = []
        self.starts = 0
        """The number of its starts."""
        self.left_out = 0
        """Bytes that it has said, and that are not in the file any more."""
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._killed: subprocess.Popen[bytes] | None = None
        self._changing: Final = threading.Condition()
        self._is_wanted = False
        self._thread: threading.Thread | None = None

    @property
    def is_dead(self) -> bool:
        """True if it has exited more often than it may."""
        return len(self.exits) > self._most

    def start(self) -> None:
        """Start it. Raises LabError if its command cannot be run."""
        with self._changing:
            self._is_wanted = True
            self._launch()
        self._thread = threading.Thread(target=self._watch, name="eosin-lab-supervisor", daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """End it at once; it is started again, and that counts for no exit."""
        with self._changing:
            self._killed = self._process
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """Stop its process, and those that it has started."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL after `TERM_S`. Harmless when it has ended."""
        with self._changing:
            self._is_wanted = False
            self._changing.notify_all()
            process = self._process
        if process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERM_S)
        self._signal(signal.SIGKILL)  # also those that it has left behind
        process.wait()
        if self._thread is not None:
            self._thread.join()
        self._dismiss()

    def last_lines(self) -> tuple[str, ...]:
        """The last lines that it has said."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ()
        return tuple(each if len(each) <= LINE_CHARS else f"{each[:LINE_CHARS]}..." for each in lines[-LAST_LINES:])

    def _launch(self) -> None:
        self._dismiss()
        if shutil.which(self._command[0]) is None:
            is_there = os.path.exists(self._command[0])
            raise LabError(f"cannot run {self._command[0]}: {os.strerror(errno.EACCES if is_there else errno.ENOENT)}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "eosin-lab-gate", *self._command],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.starts += 1
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "eosin-lab-guard", str(self._process.pid), str(_GUARD_TENTHS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        gate = self._process.stdin
        assert gate is not None
        with suppress(BrokenPipeError), gate:  # somebody has killed it
            gate.write(b"\n")

    def _dismiss(self) -> None:
        """End the guard before its pipe: its process group may be another's by now."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def _watch(self) -> None:
        while True:
            process = self._process
            assert process is not None
            status = self._ended(process)
            with self._changing:
                if not self._is_wanted:
                    return
                left_others = _end_group(process.pid)
                if process is not self._killed:
                    self.exits.append(Exit(status, self.last_lines(), left_others))
                if self.is_dead:
                    self._dismiss()
                    return
                if self._changing.wait_for(lambda: not self._is_wanted, _BACKOFF_S):
                    return
                self._launch()

    def _ended(self, process: "subprocess.Popen[bytes]") -> int:
        """The exit status of the process, once there is one."""
        while True:
            try:
                return process.wait(_LOOKS_S)
            except subprocess.TimeoutExpired:
                self._begin_file_anew()

    def _begin_file_anew(self) -> None:
        """Leave out what is in the file, if that is too much. The process appends, wherever the end is."""
        with suppress(OSError):
            length = self._log.stat().st_size
            if length > MOST_SAID:
                os.truncate(self._log, 0)
                self.left_out += length
                with self._log.open("ab") as log:
                    log.write(f"eosin lab: {self.left_out} bytes that it has said before are left out\n".encode())


def _end_group(leader: int) -> bool:
    """End what a process that is gone has left behind; True if there was anything."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextmanager
def ended_by_signals(scratch: Path) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end this process at once, and its scratch files: a run in a thread would finish first.
    The guards end its applications."""

    def end(number: int, _frame: FrameType | None) -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        with suppress(OSError):
            os.write(2, _INTERRUPTED)
        os._exit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        wanted = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]  # as nohup has it
        before = {each: signal.signal(each, end) for each in wanted}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
