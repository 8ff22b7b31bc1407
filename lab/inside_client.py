"""`InsideClient`: our own client of a broker in the same event loop, without a socket and past every login.

Always true: what it does is what any client's request does, by the same handlers; it is in no list of connections, and
no access control entry or quota holds for it.
"""

from typing import Any, Final

from eosin.broker.handlers.registry import BY_KEY
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.network.api import RequestContext
from eosin.node.running import RunningNode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.types import Buffer, Message
from eosin.protocol.wire.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.storage.results.file_range import as_range

CLIENT_ID: Final = "eosin-lab"
_API_VERSIONS: Final = 4
"""The first version that names features whose lowest level is 0 (KAFKA-17011)."""


class InsideConnection:
    """The way of a request to its handler and back (`PeerConnection`). The bytes are those of the wire."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._listener = next(iter(node.config.protocols))

    @property
    def is_open(self) -> bool:
        """True until the broker stops."""
        return not self._node.is_stopping

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        """Have the broker handle a request, which takes as long as it takes. Raises ClientError once it stops."""
        if not self.is_open:
            raise ClientError("the broker does not run: start() starts it again")
        frame = memoryview(bytearray(b"".join(encode_request(key, version, 0, CLIENT_ID, message)))[SIZE_BYTES:])
        body = decode_request_header(frame).body_offset
        context = RequestContext(version, CLIENT_ID, "/127.0.0.1", self._listener, client_software_name=CLIENT_ID)
        request = decode_request(key, version, frame, body)
        response = await BY_KEY[key].response(request, context, self._node.services)
        encoded = b"".join([await _read(each) for each in encode_response(key, version, 0, response)])
        return decode_response(key, version, encoded[SIZE_BYTES:])[1]

    async def close(self) -> None:
        """There is nothing to close."""


class InsideClient(Client):
    """A client whose one peer is the broker around it."""

    def __init__(self, node: RunningNode) -> None:
        super().__init__(node.addresses[0], client_id=CLIENT_ID)
        self._connection = InsideConnection(node)
        self._peer: Peer | None = None

    def follow(self, node: RunningNode) -> None:
        """Be the client of the next life of the broker."""
        self.forget()
        self._connection = InsideConnection(node)
        self._peer = None

    async def peer(self, node: int | None = None) -> Peer:
        """The broker, whatever node is named."""
        if self._peer is None:
            versions = await self._connection.request(
                ApiKey.API_VERSIONS, ApiVersionsRequest(CLIENT_ID, "1"), version=_API_VERSIONS
            )
            self._peer = Peer(self._connection, Versions(versions))
        return self._peer


async def _read(part: Buffer) -> Buffer:
    """The bytes of a part of a response, also of one that is not read yet."""
    found = as_range(part)
    if found is None:
        return part
    data = bytearray()
    while len(data) < len(found):
        data += await found.read(len(data), len(found) - len(data))
    return data
