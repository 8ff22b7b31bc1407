"""Prompt acknowledgements from the workers of Spark, of what Eosin's tasks are sent.

Spark sends a worker the function of a task and then its rows, over a loopback connection with Nagle's algorithm (RFC
896): the last segment of the rows leaves when everything before it is acknowledged. A system that expects an answer
instead, as the worker gave one to the task before, delays the acknowledgement by 40 ms (RFC 1122, 4.2.3.2). The arrival
of the function is the first moment at which code of Eosin runs.

Always true: this saves time and does nothing else. It has no effect over a Unix socket, on another system than Linux,
and in a process that is no worker.
"""

import contextlib
import socket
import sys
from types import FrameType
from typing import Any, Final

_SPARK: Final = "pyspark"
_STREAM: Final = "infile"
"""The name that every main function of Spark's workers gives to the stream from Java."""


class SentToTasks:
    """A part of a task's function, whose arrival in a worker is acknowledged at once."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_at_once()


def acknowledge_at_once() -> bool:
    """Acknowledge all that this worker has received from Java, and what it receives until it answers. False if this is
    no worker, or its connection knows no delay."""
    stream = _stream_from_java()
    if stream is None or not hasattr(socket, "TCP_QUICKACK"):
        return False
    if socket.getdefaulttimeout() is not None:
        return False  # a function of the user has set one: a new socket object would turn blocking off, for Spark too
    with contextlib.suppress(OSError):
        connection = socket.socket(fileno=stream.fileno())
        try:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # see tcp(7)
                return True
        finally:
            connection.detach()  # the stream goes on with it
    return False


def _stream_from_java() -> Any:
    """The stream that the worker's main function reads from; None if none of the calls that led here is one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (frame.f_globals.get("__package__") or "").startswith(_SPARK) and _STREAM in frame.f_locals:
            return frame.f_locals[_STREAM]
        frame = frame.f_back
    return None
