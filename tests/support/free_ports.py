"""`free_port`: for a server that is told its port before it starts, or that keeps it while it is down.

A port that the system hands out, which is what binding port 0 would find, may be handed out once more in the meantime:
to a server of another test, or to a client, as its own end of a connection. These ports lie below.

All test processes of this machine share a file; who has been given port N has locked byte N of it, until his process
ends. (One descriptor for all ports, and a lock that no child inherits.)
"""

import functools
import os
import random
import socket
import sys
from typing import Final

from toolchains import cache

FIRST: Final = 20_000
LAST: Final = 32_000
"""Systems hand out higher ones: Linux from 32,768 on."""

# Tests that run side by side may have the same seed, and would try the same ports one after the other.
_CHANCE: Final = random.SystemRandom()
_given: Final[set[int]] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, another one at each call."""
    while True:
        port = _CHANCE.randint(FIRST, LAST)
        if port not in _given and _locked(port):
            _given.add(port)
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", port)) != 0:
                    return port


def _locked(port: int) -> bool:
    """True if the port is ours now. This process has to have the file open once: closing a second one would end all
    locks."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.lockf(_shared(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@functools.cache
def _shared() -> int:
    cache().mkdir(parents=True, exist_ok=True)
    return os.open(cache() / "ports", os.O_RDWR | os.O_CREAT, 0o600)
