"""Kafka Streams: the applications of `tests/harnesses/streams`, each in a process of its own."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from waiting import HANG_S

from real_clients import java

SOURCES: Final = java.SOURCES.parent / "streams"
NEWEST: Final = "4.3.1"
WITH_STREAMS_GROUPS: Final = "4.4.0"
NEWEST_3: Final = "3.9.2"
SLOW_ONCE: Final = "SlowOnce"
"""Copies a topic; its last argument is the timeout of its transactions, which it exceeds twice."""
WORD_COUNT: Final = "WordCount"
"""Counts words; its last argument is what it takes for each line, in milliseconds."""


class Application:
    """One instance of a program; a context manager, and leaving it ends the process."""

    def __init__(
        self,
        release: str,
        program: str,
        arguments: Sequence[str],
        last: int,
        folder: Path,
        settings: Sequence[str] = (),
    ) -> None:
        """`arguments` are its name, the bootstrap address, the source and the target; its files are in `folder`.
        WordCount takes `settings` besides, each as name=value. Raises `toolchains.NotHere`."""
        folder.mkdir(exist_ok=True)
        classpath = (java.classes(SOURCES, NEWEST_3), f"{java.jars(SOURCES, release)}/*")
        self._command = [
            *java.command(*classpath, folder=folder),
            program,
            *arguments,
            str(folder / "state"),
            str(last),
            *settings,
        ]
        self._log = folder / "stderr"
        self.states: list[str] = []
        """Its states, once it has ended."""

    @property
    def log(self) -> str:
        """Its warnings and errors so far."""
        return self._log.read_text()

    def close(self) -> None:
        """Have it close as an application does that is stopped for a while, and wait for its end. WordCount alone."""
        told, _ = self._process.communicate("\n", timeout=HANG_S)
        self.states = told.split()

    def kill(self) -> None:
        """kill -9, by its process id."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.states:
            told, _ = self._process.communicate(timeout=HANG_S)
            self.states = told.split()
