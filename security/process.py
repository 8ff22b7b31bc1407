"""Protect a broker's files and memory from other users of the machine (security.md 6.3.4, 6.5.1).

These are switches of the whole process, so only commands turn them, and no `Server`.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from eosin.protocol.properties import parse_properties

_PR_SET_DUMPABLE: Final = 4
"""Of prctl(2)."""
_ROOT: Final = 0
_SECRET: Final = re.compile(r"(password|\.secret|sasl\.jaas\.config|ssl\.keystore\.key)$")
"""The ends of the names of settings that hold a secret."""
_REFERENCE: Final = re.compile(r"\$\{[^:}]+:([^:}]+):[^}]*\}")


class UnsafeDirectory(Exception):
    """A directory can hold no broker's data; the message is one sentence that says why."""


def keep_files_private() -> None:
    """Files and directories that are made from now on are this user's alone."""
    os.umask(0o077)


def check_directory(path: str) -> Iterable[str]:
    """Warnings about who else gets at a data directory. Raises `UnsafeDirectory` where somebody else may write."""
    if os.name != "posix":
        return ()
    try:
        found = os.stat(path)
    except OSError:  # there is none yet, or the start will say what is wrong with it
        return ()
    mode, me = found.st_mode, os.geteuid()
    if not stat.S_ISDIR(mode):  # the start will say so
        return ()
    within = f"or name a directory in it, such as {os.path.join(path, 'eosin')}"  # volumes cannot always be changed
    if found.st_uid not in (me, _ROOT):
        raise UnsafeDirectory(
            f"the data directory {path} belongs to another user of this machine ({_user(found.st_uid)}), who may change"
            f" everything in it: run the broker as that user, or chown it to {_user(me)}"
        )
    if mode & 0o002:
        raise UnsafeDirectory(
            f"everybody on this machine may write in the data directory {path}: chmod o-w {path}, {within}"
        )
    if mode & 0o020 and not _is_private(found.st_gid, me):
        raise UnsafeDirectory(
            f"others of group {found.st_gid} may write in the data directory {path}: chmod g-w {path}, {within}"
        )
    if mode & 0o044:
        return (f"others on this machine may read the data directory {path}: chmod 700 {path}",)
    return ()


def _is_private(group: int, user: int) -> bool:
    """True if a group is the user's own: systems that give each user one let it write by default."""
    import grp

    try:
        members = grp.getgrgid(group).gr_mem
    except KeyError:
        members = []
    return group == user and not set(members) - {_user(user)}


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def exposed(paths: Iterable[str]) -> Iterator[str]:
    """Warnings about those files with secrets that everybody on this machine may read."""
    for path in dict.fromkeys(paths):
        try:
            mode = os.stat(path).st_mode
        except OSError:  # whoever reads it says so
            continue
        if os.name == "posix" and mode & 0o004:
            yield f"everybody on this machine may read {path}, which holds secrets: chmod o-r {path}"


def files_with_secrets(properties: str, path: str | None) -> Iterator[str]:
    """The files that settings with secrets come from: the file of `properties` itself, where one is written there, and
    those that it refers to, as `${file:PATH:KEY}` and its like."""
    for key, value in parse_properties(properties):
        references = _REFERENCE.findall(value)
        yield from (each for each in references if os.path.isfile(each))
        if path is not None and value and not references and _SECRET.search(key):
            yield path


def hide_memory() -> None:
    """Let the system write no core of this process and show its memory to nobody but root, where it can (Linux)."""
    import ctypes  # only brokers with secrets pay for it

    prctl = getattr(ctypes.CDLL(None), "prctl", None) if os.name == "posix" else None
    if prctl is not None:
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
