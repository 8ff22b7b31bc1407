"""Kafka Streams: the application of `tests/harnesses/streams`, in a process of its own."""

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from real_clients import java

SOURCES: Final = java.SOURCES.parent / "streams"
NEWEST: Final = "4.3.1"
NEWEST_3: Final = "3.9.2"


class Application:
    """One instance, which copies a topic; a context manager, and leaving it ends the process."""

    def __init__(self, release: str, bootstrap: str, source: str, target: str, *, timeout_ms: int) -> None:
        """Raises `toolchains.NotHere`."""
        folder = Path(tempfile.mkdtemp(prefix="eosin-streams-"))
        classpath = (java.classes(SOURCES, NEWEST_3), f"{java.jars(SOURCES, release)}/*")
        arguments = (f"copy-{source}", bootstrap, source, target, str(folder / "state"), str(timeout_ms))
        self._command = [*java.command(*classpath), "SlowOnce", *arguments]
        self._log = folder / "stderr"
        self.states: list[str] = []
        """What it came to, once it has ended."""

    @property
    def log(self) -> str:
        """Its warnings and errors so far."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate(timeout=20)
        self.states = told.split()
