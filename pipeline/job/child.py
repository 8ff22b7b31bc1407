"""A command of Eosin's in a process of its own, with all the processes that it starts in turn.

Always true: what was started is gone when `stop` returns, children included.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

_STOP_S: Final = 20


def end_on_sigterm() -> None:
    """Let SIGTERM end this process as an exception does, so that it does not leave its children behind."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


class ChildFailed(Exception):
    """A process did not do what it was started for; the message says which and how it ended."""


class Child:
    """`eosin ARGUMENTS...`; what it logs goes where our own log goes, unless it is to be quiet."""

    def __init__(self, arguments: Sequence[str], *, quiet: bool = False) -> None:
        command = [sys.executable, "-m", "eosin.broker", *arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def lines(self) -> Iterator[str]:
        """What it says on stdout, as it comes, until it ends."""
        assert self._process.stdout is not None
        yield from self._process.stdout

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self._process.wait()

    def kill(self) -> bool:
        """End it at once with all that it has started (kill -9); whether it was still running."""
        running = self._process.poll() is None
        self._signal(signal.SIGKILL)
        self._process.wait()
        return running

    def stop(self) -> None:
        """Ask it to end, and make sure. Harmless when it has ended."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _signal(self, which: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, which)
        except ProcessLookupError:
            return
