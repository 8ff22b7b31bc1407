"""What suites of other projects' tests have in common, and the output of their programs."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
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

    def left(self, names: Sequence[str], results: Mapping[str, Ran]) -> Sequence[str]:
        """The names of which something may be to be run when there are these results."""

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        """The names that run failed tests once more."""

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        """Run a name, but for tests that are `done`; what came of each as it comes. The program's output goes to
        `log`, too."""


def lines(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, *, killed_after_s: float
) -> Iterator[str]:
    """Run a command in a folder, and each line that it says as it comes. After `killed_after_s`, and when nobody asks
    for lines any more, it is killed with all that it has started."""
    started = time.monotonic()
    with (
        log.open("a") as out,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        out.write(f"== {' '.join(command)} {dict(environment)}\n")
        late = threading.Timer(killed_after_s, _end_group, (process.pid,))
        late.start()
        try:
            for said in process.stdout:
                text = said.decode(errors="replace")
                out.write(text)
                yield text
        finally:
            late.cancel()
            _end_group(process.pid)
            out.write(f"== {time.monotonic() - started:.1f} s\n")


def output(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, *, killed_after_s: float
) -> str:
    """Run a command in a folder, as `lines` does; all that it has said."""
    return "".join(lines(command, folder, environment, log, killed_after_s=killed_after_s))


def _end_group(leader: int) -> None:
    """Kill a process and what it has started, if anything of that is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
