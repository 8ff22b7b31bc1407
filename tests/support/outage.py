"""A broker that is killed at a step of its clients' protocol and started again, while they go on.

Owns the relay that clients reach the broker through, and that looks at the key of each request. An outage is one
`kill -9` and one start on the same files; a client sees a lost connection, then nobody who listens, then a coordinator
that loads what it had.
"""

import asyncio
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from broker_process import BrokerProcess
from waiting import HANG_S

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest

_SIZE: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">h")


class Outage(NamedTuple):
    """The moment at which the broker is killed: at the first request of an API, `before` it arrives or `after` it was
    answered, and nobody hears of the answer."""

    when: Literal["before", "after"]
    key: ApiKey


class BrokerWithOutages:
    """A broker in a process of its own, its files kept. A context manager; `address` is the relay's."""

    def __init__(self, folder: Path) -> None:
        self.states: list[str] = []
        """The states of the planned transactional id after each outage, from the broker that came back."""
        self._folder = folder
        self._transactional_id = ""
        self._broker: BrokerProcess
        self._planned: list[Outage] = []
        self._until_next_batch = False
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._up = asyncio.Event()
        self._up.set()
        self._happening: asyncio.Task[None]
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from, and are told to come back to."""
        return f"127.0.0.1:{self._port}"

    def plan(self, transactional_id: str, outages: Sequence[Outage]) -> None:
        """One after the other, each in a batch of its own: the next is waited for once an EndTxn has passed."""
        self._transactional_id = transactional_id
        self._planned = list(outages)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_S)
        settings = {"advertised.listeners": f"PLAINTEXT://{self.address}"}
        self._broker = BrokerProcess(self._folder / "broker", settings=settings).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()
        self._broker.stop()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            await self._up.wait()
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._broker.port)
            lost = asyncio.Event()
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, upstream, lost))
                both.create_task(self._answers(upstream_reader, writer, lost))
        except* (OSError, EOFError):
            pass  # one of them is gone, so the other one is, too
        finally:
            writer.close()
            if upstream is not None:
                upstream.close()

    async def _requests(
        self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while True:
            size = await reader.readexactly(_SIZE.size)
            frame = await reader.readexactly(_SIZE.unpack(size)[0])
            key = _KEY.unpack_from(frame)[0]
            due = self._due(key)
            if due is not None and due.when == "before":
                await self._happen()
                raise EOFError
            if due is not None:
                lost.set()
            upstream.write(size + frame)
            await upstream.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if lost.is_set():
                await self._happen()
                raise EOFError
            writer.write(data)
            await writer.drain()
        raise EOFError

    def _due(self, key: int) -> Outage | None:
        if self._until_next_batch:
            self._until_next_batch = key != ApiKey.END_TXN
            return None
        if not self._planned or key != self._planned[0].key:
            return None
        self._until_next_batch = True
        return self._planned.pop(0)

    async def _happen(self) -> None:
        # Whoever noticed it loses its connection by it, and must not take it back.
        self._happening = asyncio.create_task(self._outage())
        await asyncio.shield(self._happening)

    async def _outage(self) -> None:
        self._up.clear()
        await asyncio.to_thread(self._restart)
        self.states.append(await self._state())  # before a client can change it
        self._up.set()

    def _restart(self) -> None:
        self._broker.kill()
        self._broker.start()

    async def _state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=(self._transactional_id,))
        async with Client(self._broker.address) as client:

            async def attempt() -> str:
                answer = await client.request(ApiKey.DESCRIBE_TRANSACTIONS, request)
                check(answer.transaction_states[0].error_code, "asking for the state of the transaction")
                return str(answer.transaction_states[0].transaction_state)

            return await client.retry(attempt)
