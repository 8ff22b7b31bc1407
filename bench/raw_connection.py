"""A blocking connection that sends ready-made frames: as little client as possible beside the broker."""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.codec import decode_response, encode_request

_PROCESS_CPU_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far, user and system, all its threads."""
    # What clock_getcpuclockid(3) answers on Linux; /proc/PID/stat counts in ticks of 10 ms.
    return time.clock_gettime(~pid << 3 | _PROCESS_CPU_CLOCK)


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_bytes(pid: int) -> dict[str, int]:
    """Memory of a process in RAM: `resident`; `PSS`, which divides each shared page by those who share it; `USS`,
    without any shared page."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines)}
    own = found["Private_Clean"] + found["Private_Dirty"]
    return {"resident": found["Rss"], "PSS": found["Pss"], "USS": own}


def frame(key: ApiKey, version: int, message: Any) -> bytes:
    """One request, with its size."""
    return b"".join(encode_request(key, version, 1, "bench", message))


class RawConnection:
    """One connection to a broker on loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> memoryview:
        """The next answer, without its size."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, count: int) -> memoryview:
        buffer = memoryview(bytearray(count))
        done = 0
        while done < count:
            got = self._socket.recv_into(buffer[done:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            done += got
        return buffer

    def call(self, key: ApiKey, version: int, message: Any) -> Any:
        """One request and its decoded answer."""
        self.send(frame(key, version, message))
        return decode_response(key, version, self.receive())[1]

    def pipeline(self, frames: Iterable[bytes], answered: Callable[[memoryview], None], depth: int = 5) -> None:
        """Send the frames with at most `depth` of them unanswered."""
        waiting = 0
        for each in frames:
            if waiting == depth:
                answered(self.receive())
                waiting -= 1
            self.send(each)
            waiting += 1
        for _ in range(waiting):
            answered(self.receive())

    def close(self) -> None:
        self._socket.close()
