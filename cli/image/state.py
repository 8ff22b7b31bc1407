"""A directory that the programs of an image share, for what one of them leaves to another.

The variable EOSIN_STATE_DIR names it, in the image below /tmp; without the variable nothing is kept. Always true: only
its owner may enter it, and a directory of somebody else is not used.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "EOSIN_STATE_DIR"
CERTIFIED: Final = "SSL-CERTIFIED"
"""The protocol of a listener with TLS that asks clients for a certificate."""
_LISTENERS: Final = "listeners"
_USERS: Final = "users"
_PID: Final = "pid"
_ADVERTISED: Final = "advertised"


class OpenListener(NamedTuple):
    """A listener of the broker of this container."""

    protocol: str
    address: str
    """HOST:PORT, as a program of this container reaches it."""


class State:
    """Knowledge that the programs of an image share."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        named = variables.get(VARIABLE, "").strip()
        self._directory = Path(named) if named else None

    def keep_listeners(self, listeners: Sequence[OpenListener]) -> None:
        """Say where the broker listens; none while it does not."""
        self._write(_LISTENERS, "".join(f"{each.protocol} {each.address}\n" for each in listeners))
        self._write(_PID, f"{os.getpid()}\n" if listeners else "")

    @property
    def listeners(self) -> Sequence[OpenListener]:
        """The listeners of the broker, in its order; empty if none has become ready."""
        lines = (line.split() for line in self._read(_LISTENERS).splitlines())
        return [OpenListener(*words) for words in lines if len(words) == 2]

    @property
    def pid(self) -> int | None:
        """The process of the broker; None if none has become ready."""
        text = self._read(_PID).strip()
        return int(text) if text.isdigit() else None

    @property
    def advertised(self) -> str:
        """Addresses that clients shall be given from now on, which the broker has not seen yet; empty for none."""
        return self._read(_ADVERTISED).strip()

    @advertised.setter
    def advertised(self, listeners: str) -> None:
        self._write(_ADVERTISED, listeners)

    def add_users(self, users: Sequence[str]) -> None:
        """Leave users to the first start, as `--add-scram` has them."""
        self._write(_USERS, self._read(_USERS) + "".join(f"{each}\n" for each in users))

    @property
    def users(self) -> Sequence[str]:
        """Users that were left to the first start."""
        return [line for line in self._read(_USERS).splitlines() if line.strip()]

    def _write(self, name: str, text: str) -> None:
        directory = self._directory
        if directory is None:
            return
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_mine(directory):
                return
            path = directory / f"{name}.new"
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)
            path.replace(directory / name)
        except OSError:  # a broker serves without it
            return

    def _read(self, name: str) -> str:
        if self._directory is None:
            return ""
        try:
            if not self._is_mine(self._directory):
                return ""
            return (self._directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    @staticmethod
    def _is_mine(directory: Path) -> bool:
        found = directory.lstat()
        return stat.S_ISDIR(found.st_mode) and (os.geteuid() in (0, found.st_uid))
