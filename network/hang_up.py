"""Facts of the operating system about a client whose socket holds unread bytes: whether it is gone, and whether it
reads its responses."""

import array
import asyncio
import contextlib
import select
import sys
from typing import Final

if sys.platform != "win32":
    from fcntl import ioctl
    from termios import TIOCOUTQ

_PEER_HAS_CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)
"""The poll event for a client that sends no more, though something is unread; 0 where the system has none."""


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """True if the peer has closed, as far as the system tells."""
    socket = transport.get_extra_info("socket")
    if not _PEER_HAS_CLOSED or socket is None or socket.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), _PEER_HAS_CLOSED)
    return bool(poll.poll(0))


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Bytes in the system's own buffer that the peer's system has not taken; 0 where it does not tell. A slow reader
    shows here long before there is room for another write."""
    socket = transport.get_extra_info("socket")
    if sys.platform == "win32" or socket is None or socket.fileno() < 0:
        return 0
    found = array.array("i", [0])
    with contextlib.suppress(OSError):
        ioctl(socket.fileno(), TIOCOUTQ, found)
    return found[0]
