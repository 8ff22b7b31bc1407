"""Runs an `eosin` command in its own process group.

Always true: when `stop` returns, the process and its children have ended.
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
    """Turn SIGTERM into an exception, so that this process stops its children before it ends."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


class ChildFailed(Exception):
    """A process failed. The message says which one, and how it ended."""


class Child:
    """A running `eosin ARGUMENTS...`. Its log goes to our own stderr, unless it is quiet."""

    def __init__(self, arguments: Sequence[str], *, quiet: bool = False) -> None:
        command = [sys.executable, "-m", "eosin.cli", *arguments]
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
        """The lines of its stdout as they come, until it ends."""
        assert self._process.stdout is not None
        yield from self._process.stdout

    @property
    def is_running(self) -> bool:
        """True if it has not ended yet."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        return self._process.wait()

    def kill(self) -> bool:
        """Kill it and its children (kill -9); returns whether it was still running."""
        running = self._process.poll() is None
        self._signal(signal.SIGKILL)
        self._process.wait()
        return running

    def stop(self) -> None:
        """Ask it to end; kill it if it does not. Does nothing if it has ended."""
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
