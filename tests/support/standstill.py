"""All that a wait in vain can tell of a query in Real-time Mode: its threads, its positions, what its broker knows.

Each question has a limit of its own, so that the report comes whatever is broken.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from waiting import HANG_S

_AT_WORK: Final = re.compile(
    r"eosin|stream execution thread|Executor task launch|kafka-(producer|admin-client)-|foreachBatch|dispatcher-Coarse"
)
_FRAMES: Final = 18
"""The most lines of a thread."""


def report(bootstrap: str, pipeline: str, partitions: Iterable[str], processes: Iterable[int]) -> str:
    """The threads of the Java processes that have something to do with the query, and what `eosin` says of it."""
    told = [f"threads of {pid}:\n{threads(pid)}" for pid in processes if _is_java(pid)]
    told.append(_eosin("pipeline", "progress", pipeline, bootstrap))
    told.append(_eosin("explain", None, bootstrap))
    told += [_eosin("explain", f"{pipeline}:{partition}", bootstrap) for partition in partitions]
    return "\n".join(told)


def threads(pid: int) -> str:
    """The stacks of the threads of a Java process that stand in the work of a query."""
    program = shutil.which("jstack")
    if program is None:
        return "no jstack is here"
    return "\n".join(of_the_query(_said([program, str(pid)])))


def of_the_query(dump: str) -> list[str]:
    """The threads in a dump of Java's that are at work for a query, each cut to its first lines."""
    found = []
    for thread in dump.split("\n\n"):
        if thread.startswith('"') and _AT_WORK.search(thread):
            found.append("\n".join(thread.splitlines()[:_FRAMES]))
    return found


def _is_java(pid: int) -> bool:
    try:
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0]
    except OSError:
        return False


def _eosin(*words: str | None) -> str:
    *command, bootstrap = words
    given = [each for each in command if each is not None]
    said = _said([sys.executable, "-m", "eosin.cli", *given, "--bootstrap-server", str(bootstrap)])
    return f"eosin {' '.join(given)}:\n{said}"


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
    except subprocess.TimeoutExpired:
        return f"{command[0]} has not answered"
    return (done.stdout + done.stderr).strip()
