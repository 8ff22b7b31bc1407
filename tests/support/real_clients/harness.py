"""Client libraries of other languages: one long-lived process for each language and library version.

Requests go to its stdin and answers come from its stdout, one JSON object per line:

    {"id": 7, "op": "producer.commit", "handle": "p3", "args": {...}}
    {"id": 7, "result": ...}
    {"id": 7, "error": {"kind": "fatal", "name": "PRODUCER_FENCED", "code": 90, "message": "..."}}

`op` is one of those that `remote` sends. Python names the handles; `*.open` makes one, `*.close` ends it. A process
serves the requests of one handle in order and different handles at the same time: a call that blocks holds nobody else
up. Bytes travel as base64, an absent value as null. The end of stdin ends the process; its stderr goes to a file, whose
end is shown when something fails.
"""

import atexit
import collections
import contextlib
import itertools
import json
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import leftovers
from waiting import HANG_S

from real_clients.base import ClientRefused

FENCED: Final = {"PRODUCER_FENCED", "FENCED_INSTANCE_ID"}
FENCED_IF_FATAL: Final = {"INVALID_PRODUCER_EPOCH"}
"""Some clients abort and go on after it."""
GROUP: Final = {
    "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "COMMIT_FAILED", "STALE_MEMBER_EPOCH"
}  # fmt: skip
TIMEOUT: Final = {"INVALID_TRANSACTION_TIMEOUT"}
UNSUPPORTED: Final = "UNSUPPORTED_CALL"
"""The name of the error by which a harness says that its library has no such call."""

"""The time that a call may take beyond its own limit: clients give up by themselves before that."""
_TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class Error:
    """A harness's report of a failed call."""

    kind: str
    """The library's verdict: `fatal` (the client is finished), `abortable` (abort, then go on), `retriable` (the
    same call again), `timeout` (it gave up waiting) or `refused` (anything else)."""
    name: str
    """Kafka's name of the error; the library's own where Kafka has none."""
    code: int | None
    message: str


class HarnessRefused(ClientRefused):
    """A client call failed; `error` is the library's own view of it."""

    def __init__(self, error: Error) -> None:
        super().__init__(_kind(error), f"{error.kind} {error.name}: {error.message}")
        self.error = error


class HarnessFailed(AssertionError):
    """The harness itself died, hangs, or does not speak its protocol."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command that starts a harness."""

    arguments: Sequence[str]
    environment: Mapping[str, str] | None = None
    folder: Path | None = None


@dataclass(slots=True)
class _Waiting:
    """A request without an answer yet."""

    what: str
    answer: "Future[Any]" = field(default_factory=Future)


class Harness:
    """One process. Any thread may call; a call blocks that thread until its answer is there."""

    def __init__(self, name: str, command: Command) -> None:
        self.name = name
        self._folder = Path(tempfile.mkdtemp(prefix="eosin-harness-"))
        self._stderr = self._folder / f"{name}.log"
        self._last_words = ""
        with self._stderr.open("w") as log:
            self._process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=None if command.environment is None else dict(command.environment),
                cwd=command.folder,
            )
        self._numbers = itertools.count(1)
        self._handles = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._guard = threading.Lock()
        """Around `_waiting` and `_over`."""
        self._line = threading.Lock()
        """Around whole lines on stdin; not the same, since the process may not read on before an answer is taken."""
        self._over = False
        self._reader = threading.Thread(target=self._read, name=f"harness {name}", daemon=True)
        self._reader.start()
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """True if it can be asked."""
        return not self._over and self._process.poll() is None

    def handle(self, kind: str) -> str:
        """A name for a new producer, consumer or admin."""
        return f"{kind}{next(self._handles)}"

    def call(self, op: str, handle: str, args: Mapping[str, Any] | None = None, *, within_s: float = 0.0) -> Any:
        """The result of one request. Raises HarnessRefused when the library refuses it, NotImplementedError when the
        library cannot do it, HarnessFailed when there is no answer."""
        number = next(self._numbers)
        waiting = _Waiting(f"{op} of {handle}")
        line = json.dumps({"id": number, "op": op, "handle": handle, "args": args or {}})
        with self._guard:
            if self._over:
                raise self._died(waiting.what)
            self._waiting[number] = waiting
        assert self._process.stdin is not None
        with self._line, contextlib.suppress(OSError, ValueError):  # it has died: the reader tells
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        try:
            return waiting.answer.result(within_s + HANG_S)
        except TimeoutError:
            raise HarnessFailed(f"{self.name} did not answer {waiting.what}:\n{self._tail()}") from None

    def freeze(self) -> None:
        """Stop the process where it is; its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self, timeout_s: float = 5.0) -> None:
        """End the process, and with it whatever it has open."""
        atexit.unregister(self.close)
        assert self._process.stdin is not None
        with self._line, contextlib.suppress(OSError):  # it has died, with a line on its way
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout_s)
        self._last_words = self._tail()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        """Run the reader thread: hand each answer to the call that waits for it."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if not self._answered(line):
                    break
        with self._guard:
            self._over = True
            left, self._waiting = self._waiting, {}
        for waiting in left.values():
            waiting.answer.set_exception(self._died(waiting.what))

    def _answered(self, line: str) -> bool:
        try:
            answer = json.loads(line)
            number = answer["id"]
        except (ValueError, TypeError, KeyError):
            with self._stderr.open("a") as log:
                log.write(f"not an answer: {line}")
            self._process.kill()
            return False
        with self._guard:
            waiting = self._waiting.pop(number, None)
        if waiting is None:
            return True
        if "error" in answer:
            waiting.answer.set_exception(_raised(answer["error"]))
        else:
            waiting.answer.set_result(answer.get("result"))
        return True

    def _died(self, what: str) -> HarnessFailed:
        return HarnessFailed(f"{self.name} ended before it answered {what}:\n{self._tail()}")

    def _tail(self) -> str:
        if self._last_words:
            return self._last_words
        lines = self._stderr.read_text(errors="replace").splitlines()
        return "\n".join(collections.deque(lines, _TAIL_LINES)) or "(it wrote nothing to stderr)"


def _kind(error: Error) -> str:
    """The kind of ClientRefused."""
    if error.name in FENCED or (error.name in FENCED_IF_FATAL and error.kind == "fatal"):
        return "fenced"
    if error.name in TIMEOUT:
        return "timeout"
    return "group" if error.name in GROUP else "other"


def _raised(told: Mapping[str, Any]) -> Exception:
    error = Error(str(told.get("kind")), str(told.get("name")), told.get("code"), str(told.get("message", "")))
    if error.name == UNSUPPORTED:
        return NotImplementedError(error.message)
    return HarnessRefused(error)


class Launched:
    """The one process of a client library, started when it is first needed and again should it have died."""

    def __init__(self, name: str, command: Callable[[], Command]) -> None:
        self._name = name
        self._command = command
        self._guard = threading.Lock()
        self._running: Harness | None = None

    def get(self) -> Harness:
        """The process. Raises `toolchains.NotHere` where the machine lacks what it needs."""
        with self._guard:
            if self._running is None or not self._running.alive:
                if self._running is not None:
                    self._running.close()
                with leftovers.kept():
                    self._running = Harness(self._name, self._command())
            return self._running
