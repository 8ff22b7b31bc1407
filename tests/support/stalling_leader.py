"""A second broker that can stop answering: one partition's leader, for tests of what becomes of the other partitions.

There is one Eosin behind both. Its Metadata answers name a second broker, a relay in front of the same one, as leader
of chosen partitions; while the relay is stalled, connections to it are taken and never answered.
"""

import asyncio
import contextlib
import threading
from collections.abc import Collection
from typing import Any, Self

from local_broker import ThreadedBroker
from msgspec.structs import replace
from waiting import HANG_S

from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataResponse, MetadataResponseBroker

SECOND = 2
"""The node id of the relay."""


class Relay:
    """Passes bytes on in both directions, or, while it is stalled, holds back what clients send."""

    def __init__(self, target: str) -> None:
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def stall(self) -> None:
        """Answer nobody."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def recover(self) -> None:
        """Answer again, what was held back included."""
        self._loop.call_soon_threadsafe(self._open.set)

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_S)
        return self

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        upstream_reader, upstream = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, upstream, held=True), self._pass(upstream_reader, writer))
        for each in (writer, upstream):
            each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool = False) -> None:
        while data := await reader.read(65536):
            if held:
                await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


class _SecondLeader(RequestHooks):
    """Names the relay as a broker, and as the leader of some partitions."""

    def __init__(self, inner: RequestHooks | None = None) -> None:
        self.port = 0
        self.led: Collection[tuple[str, int]] = ()
        self._inner = inner

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """The verdict of the inner one."""
        return None if self._inner is None else await self._inner.begun(observed)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Rewrite Metadata."""
        if observed.api.key is ApiKey.METADATA and isinstance(response, MetadataResponse):
            topics = tuple(
                replace(
                    topic,
                    partitions=tuple(
                        replace(each, leader_id=SECOND) if (topic.name, each.partition_index) in self.led else each
                        for each in topic.partitions
                    ),
                )
                for topic in response.topics
            )
            second = MetadataResponseBroker(node_id=SECOND, host="127.0.0.1", port=self.port)
            response = replace(response, brokers=(*response.brokers, second), topics=topics)
        return response if self._inner is None else await self._inner.handled(observed, response)


class TwoBrokers:
    """Eosin, and the relay that leads the partitions in `led`. A context manager."""

    def __init__(self, *led: tuple[str, int], inner: Any = None) -> None:
        self._leader = _SecondLeader(inner)
        self._leader.led = led
        self._broker = ThreadedBroker(hooks=self._leader)
        self.relay: Relay

    @property
    def address(self) -> str:
        return self._broker.address

    def __enter__(self) -> Self:
        self._broker.__enter__()
        self.relay = Relay(self._broker.address).start()
        self._leader.port = self.relay.port
        return self

    def __exit__(self, *error: object) -> None:
        self.relay.close()
        self._broker.__exit__(*error)
