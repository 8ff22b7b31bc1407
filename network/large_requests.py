"""`LargeRequests`: requests of so many elements, or of such long names, that a thread decodes them (security.md 6.2).

A frame of 16 MiB becomes 250,000 objects, which would take the event loop 0.1 s. Always true: the connection
of such a request begins no other one before it, so their order holds; one is decoded at a time, users in turns; the
thread rests each millisecond, and ends when the client is gone, and then nothing of the request is executed.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api
from eosin.network.large_exchange import LargeExchange
from eosin.network.many_items import items_in
from eosin.network.stalls import note_stall
from eosin.protocol.types import DecodeError
from eosin.protocol.wire.headers import RequestHeader
from eosin.runtime.small_objects import SMALL_OBJECTS
from eosin.runtime.thread_rest import GivenUp, ThreadRest
from eosin.runtime.thread_turns import ThreadTurns

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost


class LargeRequests:
    """The large requests of one broker's connections that are not decoded yet."""

    __slots__ = ("_host", "_turns")

    def __init__(self, host: "ConnectionHost") -> None:
        self._host = host
        self._turns = ThreadTurns()

    def begin(self, connection: "ServerConnection", frame: memoryview, header: RequestHeader, api: Api) -> None:
        """Begin a request, of which only the header is decoded, before any other one of its connection."""
        connection.begin_turns()
        task = asyncio.get_running_loop().create_task(self._begin(connection, frame, header, api))
        self._host.running[task] = api.key
        task.add_done_callback(self._host.running.pop)

    async def _begin(self, connection: "ServerConnection", frame: memoryview, header: RequestHeader, api: Api) -> None:
        try:
            with SMALL_OBJECTS.from_malloc():
                await self._execute(connection, frame, header, api)
        except GivenUp:
            return  # the client is gone
        except DecodeError as error:
            connection.refuse_peer("a malformed request", str(error))
        except CloseConnection:
            connection.close()
        finally:
            connection.end_turns()

    async def _execute(
        self, connection: "ServerConnection", frame: memoryview, header: RequestHeader, api: Api
    ) -> None:
        async with self._turns.turn(connection.session.owner) as rests:
            request, items = await self._decoded(connection, frame, header, rests)
        if not connection.is_closing:
            context = replace(connection.context(api, header.api_version, header.client_id), is_large=True)
            exchange = LargeExchange(api, context, header.correlation_id, request, frame, items)
            del request  # the exchange lets go of it in turns
            began_ns = self._host.elapsed_ns()
            connection.begin_exchange(exchange, len(frame))
            note_stall(self._host, connection, frame, self._host.elapsed_ns() - began_ns)

    async def _decoded(
        self, connection: "ServerConnection", frame: memoryview, header: RequestHeader, rests: ThreadRest
    ) -> tuple[Any, int]:
        """The request, and how many items it has, where hooks want to know."""

        def rest() -> None:
            if connection.is_gone:
                rests.give_up()
            rests.rest()

        def decoded() -> tuple[Any, int]:
            host, key, version = self._host, header.api_key, header.api_version
            request = host.decode_request(key, version, frame, header.body_offset, rest)
            return request, items_in(request) if host.hooks is not None else 0

        if connection.is_gone:
            raise GivenUp
        return await asyncio.to_thread(decoded)
