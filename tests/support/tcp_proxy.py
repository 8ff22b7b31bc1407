"""A network that a test can cut and slow down: a TCP proxy on loopback, one for each address to be reached through it.

What is cut waits and is delivered when the cut is healed, as TCP does it: nothing is lost or torn, but for what its
sender takes back by a reset. A connection that is opened meanwhile seems to work, and nothing comes through.
"""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Coroutine, Iterator
from enum import Flag, auto
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from waiting import HANG_S

_T = TypeVar("_T")
_CHUNK: Final = 64 * 1024


class Way(Flag):
    """A direction of a connection."""

    THERE = auto()
    """From who opened it to who listens."""
    BACK = auto()
    BOTH = THERE | BACK


class TcpProxy:
    """Forwards connections to `target`, a port of loopback. A context manager; its port is known before."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._listen())
        self._healed = asyncio.Event()
        self._healed.set()
        self._cut = Way(0)
        self._cut_pid: int | None = None
        self._backoff: random.Random | None = None
        self._delay_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def cut(
        self, way: Way = Way.BOTH, *, pid: int | None = None, backoff: random.Random | None = None
    ) -> Iterator[None]:
        """Let nothing through that way; with `pid`, only on connections that this process has opened. With `backoff`
        each connection goes on later than the cut, up to as long as it was held."""
        self._backoff = backoff
        self._call(self._set_cut(way, pid))
        try:
            yield
        finally:
            self._call(self._set_cut(Way(0), None))

    @contextlib.contextmanager
    def slow(self, delay_s: float) -> Iterator[None]:
        """Deliver everything so much later, both ways."""
        self._delay_s = delay_s
        try:
            yield
        finally:
            self._delay_s = 0.0

    def close(self) -> None:
        """End every connection."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_S)

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _set_cut(self, way: Way, pid: int | None) -> None:
        self._cut, self._cut_pid = way, pid
        if way:
            self._healed.clear()
        else:
            self._healed.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        peer = writer.get_extra_info("peername")[1]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
            except OSError:
                writer.close()
                return
            pumps = (
                asyncio.create_task(self._pump(reader, there_writer, Way.THERE, peer)),
                asyncio.create_task(self._pump(there_reader, writer, Way.BACK, peer)),
            )
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                writer.close()
                there_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way, peer: int) -> None:
        while data := await reader.read(_CHUNK):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            while self._cut & way and (self._cut_pid is None or _opened(self._cut_pid, peer)):
                held_since = self._loop.time()
                await self._healed.wait()
                if self._backoff is not None:
                    await asyncio.sleep(self._backoff.random() * (self._loop.time() - held_since))
            if (reset := reader.exception()) is not None:
                raise reset
            writer.write(data)
            await writer.drain()


def _opened(pid: int, port: int) -> bool:
    """True if a process has the end of a connection that has this local port."""
    wanted = f":{port:04X}"
    inodes = {
        fields[9]
        for fields in (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[1].endswith(wanted)
    }
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False
