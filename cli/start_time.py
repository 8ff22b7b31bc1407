"""The age of this process, for the line that says that a broker is ready."""

import contextlib
import os
import time
from pathlib import Path

from eosin.cli import __main__ as program


def seconds_since_start() -> float:
    """Seconds since this process was started, including the interpreter's start where the system knows it."""
    with contextlib.suppress(OSError, IndexError, ValueError, AttributeError):
        # Field 22 of proc(5), counted behind the command's name, which may hold spaces and brackets.
        began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - program.IMPORTED_AT
