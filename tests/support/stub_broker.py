"""A broker reduced to a script, on loopback: it answers each API with what a test says, and keeps what it was asked."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from eosin.client.addresses import Address
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import DECLARED, schema_of
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from eosin.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from eosin.protocol.schemas.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_request, decode_request_header, encode_response

NODE = 7
Answer = Message | None | Awaitable[Message | None]
Script = Callable[[Any, int], Answer]


class Asked(NamedTuple):
    key: ApiKey
    version: int
    message: Any


class StubBroker:
    """`answers` is the script: what to say to (request, version). None says nothing at all."""

    def __init__(self, *, topics: Iterable[str] = ("topic",), partitions: int = 2, features: int = 2) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.versions = {key: (schema.versions[0], schema.versions[-1]) for key, schema in _schemas()}
        self.transaction_version = features
        self.topics = {name: bytes(15) + bytes((at + 1,)) for at, name in enumerate(topics)}
        self.partitions = partitions
        self.answers: dict[ApiKey, Script] = {
            ApiKey.API_VERSIONS: self.api_versions,
            ApiKey.METADATA: self.metadata,
            ApiKey.FIND_COORDINATOR: self.find_coordinator,
        }
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.address = Address("127.0.0.1", 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await self._server.wait_closed()
        for writer in self._writers:
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    def drop_connections(self) -> None:
        """Close every connection, as a broker that dies does."""
        for writer in self._writers:
            writer.transport.abort()

    def requests(self, key: ApiKey) -> list[Any]:
        """The requests to one API, in order."""
        return [each.message for each in self.asked if each.key is key]

    def keys(self) -> list[ApiKey]:
        """The APIs asked, in order, without those that a client needs to find its way."""
        lookups = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
        return [each.key for each in self.asked if each.key not in lookups]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header = decode_request_header(frame)
                key, version = ApiKey(header.api_key), header.api_version
                message = decode_request(key, version, frame, header.body_offset)
                self.asked.append(Asked(key, version, message))
                answer = self.answers[key](message, version)
                if isinstance(answer, Awaitable):
                    answer = await answer
                if answer is not None:
                    writer.writelines(encode_response(key, self._speaks(key, version), header.correlation_id, answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _speaks(self, key: ApiKey, version: int) -> int:
        return 0 if key is ApiKey.API_VERSIONS and version > self.versions[key][1] else version

    # --- what every test needs

    def api_versions(self, _: Any, version: int) -> ApiVersionsResponse:
        keys = tuple(ApiVersion(key, *served) for key, served in sorted(self.versions.items()))
        if version > self.versions[ApiKey.API_VERSIONS][1]:
            return ApiVersionsResponse(error_code=35, api_keys=keys)
        feature = FinalizedFeatureKey("transaction.version", self.transaction_version, 0)
        return ApiVersionsResponse(api_keys=keys, finalized_features=(feature,))

    def metadata(self, request: MetadataRequest, _: int) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=(MetadataResponseBroker(NODE, *self.address),),
            cluster_id="stub",
            controller_id=NODE,
            topics=tuple(self._topic(name) for name in wanted),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = tuple(
            MetadataResponsePartition(partition_index=index, leader_id=NODE) for index in range(self.partitions)
        )
        return MetadataResponseTopic(name=name, topic_id=self.topics[name], partitions=partitions)

    def find_coordinator(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        if version < 4:
            return FindCoordinatorResponse(node_id=NODE, host=self.address.host, port=self.address.port)
        found = (Coordinator(key, NODE, *self.address) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=tuple(found))


def _schemas() -> Iterable[tuple[ApiKey, Any]]:
    return [(key, schema_of(key)) for key in sorted(DECLARED)]
