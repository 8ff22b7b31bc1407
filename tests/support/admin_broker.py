"""A broker without sockets or storage: its cluster, over fake logs, and one request at a time through the codec."""

from types import SimpleNamespace
from typing import Any, cast

from fake_logs import FakeLogManager
from manual_clock import ManualClock

from eosin.broker.services import Services
from eosin.broker.unserved_groups import UnservedGroups
from eosin.cluster.metadata.answers import MetadataAnswers
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.interfaces import FreeBytes


class AdminBroker:
    """The services of admin handlers, started with `AdminBroker.started`."""

    def __init__(self, config: BrokerConfig, logs: FakeLogManager | None = None) -> None:
        self.config = config
        self.logs = FakeLogManager() if logs is None else logs
        self.clock = ManualClock()
        self.cluster = EmbeddedCluster(
            config=config, log_manager=cast(Any, self.logs), clock=SystemClock(), chance=SeededChance(1)
        )
        self.volume: FreeBytes | None = None
        """The room on the fake disk."""
        partitions = SimpleNamespace(hosted=lambda: iter(self.logs.logs.items()), volume=self._volume)
        self.services = cast(
            Services,
            SimpleNamespace(
                config=config,
                acls=None,
                cluster=self.cluster,
                clock=self.clock,
                partitions=partitions,
                unserved_groups=UnservedGroups(self.clock),
                metadata_answers=MetadataAnswers(self.cluster, self.clock, limit_bytes=100_000_000),
            ),
        )

    @classmethod
    async def started(cls, config: BrokerConfig | None = None, logs: FakeLogManager | None = None) -> "AdminBroker":
        """A broker on two listeners, PLAINTEXT (localhost:9092) and INSIDE (broker:19092), with the logs of an earlier
        one if they are given."""
        broker = cls(config or BrokerConfig(), logs)
        await broker.cluster.start()
        broker.cluster.advertise("PLAINTEXT", "localhost", 9092)
        broker.cluster.advertise("INSIDE", "broker", 19092)
        broker.cluster.subscribe(broker.services.metadata_answers)
        return broker

    async def _volume(self) -> FreeBytes | None:
        return self.volume

    async def call(self, api: Api, request: Message, version: int | None = None, *, listener: str = "PLAINTEXT") -> Any:
        """The answer to `request`, both over the wire at `version` (by default the newest)."""
        at = api.versions[-1] if version is None else version
        received = _request_over_the_wire(api, request, at)
        response = await api.response(received, _context(at, listener), self.services)
        return _response_over_the_wire(api, response, at)


def refused(api: Api, request: Message, error: ErrorCode, version: int) -> Any:
    """The refusal of `request`, both over the wire at `version`."""
    received = _request_over_the_wire(api, request, version)
    return _response_over_the_wire(api, api.refuse(received, _context(version, "PLAINTEXT"), error), version)


def _context(version: int, listener: str) -> RequestContext:
    return RequestContext(api_version=version, client_id="test", client_host="/127.0.0.1", listener=listener)


def _request_over_the_wire(api: Api, request: Message, version: int) -> Any:
    frame = b"".join(encode_request(api.key, version, 1, "test", request))[4:]
    return decode_request(api.key, version, frame, decode_request_header(frame).body_offset)


def _response_over_the_wire(api: Api, response: Message, version: int) -> Any:
    frame = b"".join(encode_response(api.key, version, 1, response))[4:]
    correlation_id, message = decode_response(api.key, version, frame)
    assert correlation_id == 1
    return message
