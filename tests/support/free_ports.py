"""`free_port`: for a server that is told its port before it starts, or that keeps it while it is down.

A port that the system hands out, which is what binding port 0 would find, may be handed out once more in the meantime:
to a server of another test, or to a client, as its own end of a connection. These ports lie below.
"""

import random
import socket
from typing import Final

FIRST: Final = 20_000
LAST: Final = 32_000
"""Systems hand out higher ones: Linux from 32,768 on."""

# Tests that run side by side may have the same seed, and would then take the ports of each other.
_CHANCE: Final = random.SystemRandom()
_given: Final[set[int]] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, another one at each call."""
    while True:
        port = _CHANCE.randint(FIRST, LAST)
        with socket.socket() as asking:
            if port not in _given and asking.connect_ex(("127.0.0.1", port)) != 0:
                _given.add(port)
                return port
