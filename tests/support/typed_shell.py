"""An interactive shell on a terminal of its own, and what a person types into it."""

import contextlib
import os
import pty
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from waiting import HANG_S

PROMPT: Final = "ready> "


class TypedShell:
    """A context manager; leaving it ends the shell. Its home is a folder of a test, with what its user wrote there."""

    def __init__(self, program: str, home: Path, environment: Mapping[str, str]) -> None:
        """`environment` is all that the shell is told, beside its home and its terminal."""
        self._program = program
        self._environment = {**environment, "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}
        self._shown = b""
        self._process = self._descriptor = -1

    def __enter__(self) -> Self:
        self._process, self._descriptor = pty.fork()
        if not self._process:
            os.execve(self._program, [self._program, "-i"], self._environment)
        self._until(PROMPT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._descriptor)

    def type(self, keys: str, expected: str) -> None:
        """Press keys (`\\t` is TAB, `\\r` is Enter), and wait for what is expected and the next prompt."""
        os.write(self._descriptor, keys.encode())
        self._until(expected)
        self._until(PROMPT)

    def _until(self, expected: str) -> None:
        deadline = time.monotonic() + HANG_S
        while expected.encode() not in self._shown:
            left = deadline - time.monotonic()
            assert left > 0, f"no {expected!r} in {self._shown[-3000:]!r}"
            if select.select([self._descriptor], [], [], left)[0]:
                try:
                    self._shown += os.read(self._descriptor, 65536)
                except OSError:  # EIO: the shell has ended
                    raise AssertionError(f"it ended after {self._shown[-3000:]!r}") from None
        self._shown = self._shown.split(expected.encode(), 1)[1]
