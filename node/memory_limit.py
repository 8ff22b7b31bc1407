"""Limits of the memory that this process may use, and of the part that requests of clients may hold."""

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eosin.protocol.wire.frame_memory import CHECK_MS, NO_LIMIT, FrameMemory

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig

_CGROUP_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of versions 2 and 1; a container sees its own there."""
_MEMINFO: Final = "/proc/meminfo"
SHARE: Final = 4
"""Requests may hold one part of so many, unless `queued.max.request.bytes` says otherwise."""


def memory_bytes(*, meminfo: str = _MEMINFO, cgroup_files: tuple[str, ...] = _CGROUP_FILES) -> int | None:
    """The machine's memory, or what its control group leaves of it; None where the system does not tell."""
    found = []
    text = _read(meminfo)
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            found.append(int(line.split()[1]) * 1024)
    for path in cgroup_files:
        limit = _read(path).strip()
        if limit.isdecimal():  # "max": no limit
            found.append(int(limit))
    return min(found, default=None)


@cache
def own_memory_bytes() -> int | None:
    """The same for this process, as it was when its first broker started: reading it is a tenth of a start."""
    return memory_bytes()


def frame_memory_of(config: "BrokerConfig", loop: "asyncio.AbstractEventLoop", clock: "Clock") -> FrameMemory:
    """The memory for the large requests of all clients."""
    limit = config.queued_max_request_bytes
    if limit < 0:
        memory = own_memory_bytes()
        limit = NO_LIMIT if memory is None else memory // SHARE
    return FrameMemory(
        limit_bytes=limit,
        share_bytes=config.eosin_connection_in_flight_max_bytes,
        largest_bytes=config.socket_request_max_bytes,
        soon=_soon(loop),
        later=partial(clock.start_deadline, CHECK_MS),
    )


def _soon(loop: "asyncio.AbstractEventLoop") -> "Callable[[Callable[[], None]], object]":
    def soon(call: "Callable[[], None]") -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return soon


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
