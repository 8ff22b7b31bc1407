"""What suites of other projects' tests have in common, and the output of their programs."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from peer_suites_page import Ran


class Asked(NamedTuple):
    """The broker that a suite is run at."""

    kind: str
    """eosin or kafka."""
    address: str
    """host:port; empty if the tests start brokers themselves."""


class Suite(Protocol):
    """The tests of one project."""

    starts_brokers: ClassVar[bool]
    """True if its tests do so themselves."""

    @property
    def version(self) -> str:
        """Of the tests."""

    def names(self) -> Sequence[str]:
        """What is run, each in a process of its own."""

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        """The names that run failed tests once more."""

    def run(self, name: str, at: Asked, log: Path) -> list[Ran]:
        """Run a name; what came of its tests. The program's output goes to `log`, too."""


def output(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, *, killed_after_s: float
) -> str:
    """Run a command in a folder; what it has said. After `killed_after_s` it is killed with all that it has started."""
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=killed_after_s)
        except subprocess.TimeoutExpired:
            _end_group(process.pid)
            said, _ = process.communicate()
        finally:
            _end_group(process.pid)
    text = said.decode(errors="replace")
    with log.open("a") as out:
        out.write(f"== {' '.join(command)} {dict(environment)}: {time.monotonic() - started:.1f} s\n{text}\n")
    return text


def _end_group(leader: int) -> None:
    """Kill a process and what it has started, if anything of that is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
