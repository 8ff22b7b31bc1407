"""A client of one connection, through a fake transport: sends messages, reads answers."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from fake_transport import FakeTransport
from manual_clock import ManualClock
from waiting import settled

from eosin.network.api import Api
from eosin.network.connection import ServerConnection
from eosin.network.host import ConnectionHost
from eosin.network.sasl.gate import SaslGate
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request


def host_of(*apis: Api, services: Any = None, **limits: Any) -> ConnectionHost:
    """A host that serves `apis`, with `limits` by field name; its clock stands still unless `services` has another."""
    if services is None:
        services = SimpleNamespace(clock=ManualClock())
    by_key: Mapping[int, Api] = {int(api.key): api for api in apis}
    return ConnectionHost(
        services=services, clock=services.clock, apis=by_key, **{"max_frame_bytes": 1_000_000, **limits}
    )


class FakePeer:
    """A client library reduced to its bytes."""

    def __init__(
        self,
        host: ConnectionHost,
        *,
        listener: str = "PLAINTEXT",
        address: str = "127.0.0.1",
        new_gate: Callable[[ServerConnection], SaslGate] | None = None,
        transport: FakeTransport | None = None,
    ) -> None:
        self.host = host
        self.transport = transport or FakeTransport(peer=(address, 50_000))
        self.connection = ServerConnection(host, listener, asyncio.get_running_loop(), new_gate=new_gate)
        self.transport.connect(self.connection)
        self._asked: list[tuple[ApiKey, int, int]] = []
        self._next_id = 1

    def frame(self, key: ApiKey, version: int, message: Message, *, client_id: str | None = "test") -> bytes:
        """One request as bytes; its answer is expected."""
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        self._asked.append((key, version, correlation_id))
        return b"".join(encode_request(key, version, correlation_id, client_id, message))

    def send(self, key: ApiKey, version: int, *messages: Message) -> None:
        """Send requests in one piece."""
        self.transport.feed(b"".join(self.frame(key, version, message) for message in messages))

    def answers(self) -> list[Any]:
        """The answers that came since the last call, checked to be in the order of the requests."""
        messages = []
        for frame in self.transport.frames():
            key, version, correlation_id = self._asked.pop(0)
            answered_id, message = decode_response(key, version, frame)
            assert answered_id == correlation_id, "answers are not in the order of the requests"
            messages.append(message)
        return messages


async def turns() -> None:
    """Let the loop turn until nobody is ready any more."""
    await settled()
