"""What other users of the machine get to see of a broker's process: files and memory (security.md 6.3.4, 6.5.1).

These are switches of the whole process, so only commands turn them, and no `Server`.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final

_PR_SET_DUMPABLE: Final = 4
"""Of prctl(2)."""


class UnsafeDirectory(Exception):
    """Why a directory can hold no broker's data, as one sentence."""


def keep_files_private() -> None:
    """Files and directories that are made from now on are this user's alone."""
    os.umask(0o077)


def check_directory(path: str) -> Iterable[str]:
    """Warnings about who else gets at a data directory. Raises `UnsafeDirectory` where everybody may write."""
    if os.name != "posix":
        return ()
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is none yet, or the start will say what is wrong with it
        return ()
    if not stat.S_ISDIR(mode):  # the start will say so
        return ()
    if mode & 0o002:
        raise UnsafeDirectory(
            f"everybody on this machine may write in the data directory {path}: chmod o-w {path}, or name a directory"
            f" in it, such as {os.path.join(path, 'eosin')}"  # volumes of containers cannot always be changed
        )
    if mode & 0o044:
        return (f"others on this machine may read the data directory {path}: chmod 700 {path}",)
    return ()


def hide_memory() -> None:
    """Let the system write no core of this process and show its memory to nobody but root, where it can (Linux)."""
    import ctypes  # only brokers with secrets pay for it

    prctl = getattr(ctypes.CDLL(None), "prctl", None) if os.name == "posix" else None
    if prctl is not None:
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
