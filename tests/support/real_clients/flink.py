"""Apache Flink: the programs of `tests/harnesses/flink`. One is a cluster of one process that copies a topic exactly
once."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from real_clients import java

SOURCES: Final = java.SOURCES.parent / "flink"
RELEASE: Final = "2.1.0"
INCREMENTING: Final = "INCREMENTING"
"""A transactional id for each checkpoint."""
POOLING: Final = "POOLING"
"""Ids that are used again."""
_OPENED: Final = ("--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")
_JAVA: Final = 17


def command(folder: Path) -> list[str]:
    """The command that runs Java with Flink and our programs, up to the name of one; `folder` is for its temporary
    files. Raises `toolchains.NotHere`."""
    virtual_machine, *options = java.command(
        java.classes(SOURCES, RELEASE, runs_on=_JAVA), f"{java.jars(SOURCES, RELEASE)}/*", folder=folder
    )
    options = ["-Xmx384m" if each.startswith("-Xmx") else each for each in options]
    return [virtual_machine, *_OPENED, *options]


class Copier:
    """A job and its checkpoints; a context manager that starts it, and leaving it kills the process. Enter it again to
    go on from its last checkpoint."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        source: str,
        target: str,
        *,
        naming: str,
        timeout_ms: int = 60_000,
        pause_ms: int,
    ) -> None:
        """Its files are in `folder`. Raises `toolchains.NotHere`. A `timeout_ms` of 0 is Flink's own, an hour."""
        self._folder = folder
        (self._folder / "checkpoints").mkdir(parents=True)
        arguments = [bootstrap, source, target, str(self._folder / "checkpoints"), naming]
        self._command = [*command(folder), "Copier", *arguments, str(timeout_ms), str(pause_ms)]
        self._log = self._folder / "stderr"

    @property
    def log(self) -> str:
        """Its warnings and errors so far."""
        return self._log.read_text()

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process.poll() is None

    def __enter__(self) -> Self:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd=self._folder
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # without a word: it is to be missed
        self._process.wait()
