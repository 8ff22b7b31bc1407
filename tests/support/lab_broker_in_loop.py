"""A broker with a clock of the lab in the loop of a virtual test, and its operations."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from local_broker import SOCKET, config_of, running

from eosin.client.client import Client
from eosin.coordinator.groups.rules.effects import JoinResult
from eosin.coordinator.transactions.ports import MarkerTargets
from eosin.lab.clock.lab_clock import LabClock
from eosin.lab.inside import Inside
from eosin.lab.inside_client import InsideClient
from eosin.lab.operations import Operations
from eosin.network.request_hooks import RequestHooks
from eosin.node.running import RunningNode
from eosin.storage.disk.interfaces import Disk

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


@dataclass
class Lab:
    """A broker in the loop of the test, with its operations."""

    node: RunningNode
    clock: LabClock
    client: Client
    inside: Inside
    operations: Operations

    async def write(self, *values: str, topic: str = "orders", **more: Any) -> list[int]:
        timestamp = more.get("timestamp")
        transactional_id, commit = more.get("transactional_id"), more.get("commit", True)
        return await self.operations.produce(topic, values, None, {}, timestamp, None, transactional_id, commit)

    async def values(self, topic: str = "orders") -> list[bytes | None]:
        return [each.value for each in await self.operations.read(topic, "read_committed", None)]

    async def join(self, group_id: str = "readers", *, session_timeout_ms: int = 45 * SECOND_MS) -> JoinResult:
        return await self.node.services.groups.join(
            group_id,
            member_id="",
            instance_id=None,
            protocol_type="consumer",
            protocols=(("range", b""),),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=MINUTE_MS,
            client_id="c",
            client_host="/127.0.0.1",
            api_version=3,
        )


@asynccontextmanager
async def lab(
    *,
    is_frozen: bool = False,
    disk: Disk | None = None,
    hooks: RequestHooks | None = None,
    markers: Callable[[MarkerTargets], MarkerTargets] | None = None,
    **settings: Any,
) -> AsyncIterator[Lab]:
    """A broker whose clock flows with that of the test, unless it `is_frozen`."""
    clock = LabClock(is_frozen=is_frozen)
    config = config_of(
        listeners=SOCKET, eosin_recorder_max_bytes=1 << 20, group_initial_rebalance_delay_ms=0, **settings
    )
    async with running(
        config,
        clock=clock,
        session_clock=clock.sessions,
        wire_clock=clock.wire,
        disk=disk,
        hooks=hooks,
        markers=markers,
    ) as node:
        client, inside = InsideClient(node), Inside(node, clock)
        yield Lab(node, clock, client, inside, Operations(client, inside))
