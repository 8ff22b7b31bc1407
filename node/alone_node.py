"""`AloneNode`: the part in its cluster of a broker that is the whole of it (`ClusterPart`).

Always true: it leads every partition, follows nobody, and asks no other machine for anything.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from eosin.broker.local_replicas import LocalReplicas
from eosin.broker.markers import NoOtherBrokers, OtherBrokers
from eosin.broker.partitions import LedLogs
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.node.assembly import OffsetsFollowTopics, Replication
from eosin.protocol.wire.codec import decode_request

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.coordinator.transactions.ports import TransactionVerifier
    from eosin.network.api import Api
    from eosin.runtime.background import Background
    from eosin.runtime.chance import Chance
    from eosin.runtime.clock import Clock
    from eosin.runtime.loop_watch import LoopWatch
    from eosin.settings.broker import BrokerConfig
    from eosin.settings.listeners import Listener
    from eosin.storage.manager import LogManager


class AloneNode:
    """A broker that runs alone."""

    other_brokers: Final[OtherBrokers] = NoOtherBrokers()
    confirms_responses: Final = False
    keeps_metadata: Final = True
    state_routes: Final = None
    unguarded: Final[Collection[int]] = ()
    decode_request: Final[Callable[..., Any]] = staticmethod(decode_request)

    def __init__(
        self,
        config: "BrokerConfig",
        *,
        cluster: EmbeddedCluster,
        logs: "LogManager",
        clock: "Clock",
        wire_clock: "Clock | None" = None,
    ) -> None:
        """`cluster` has started on `logs`. Fetches wait on `wire_clock`, by default `clock`."""
        self.config: Final = config
        self.cluster: Final = cluster
        self.logs: Final = logs
        self.led_logs: Final = LedLogs(wire_clock or clock)
        self._replicas = LocalReplicas(cluster, self.led_logs, logs, clock)
        self.replication: Final = Replication(self._replicas, self._replicas.leader_epoch)

    @classmethod
    async def started(
        cls,
        config: "BrokerConfig",
        *,
        listeners: "Sequence[Listener]",
        logs: "LogManager",
        clock: "Clock",
        chance: "Chance",
        wire_clock: "Clock | None" = None,
        cluster_of: Callable[..., EmbeddedCluster] = EmbeddedCluster,
    ) -> Self:
        """Read the cluster's metadata. `listeners` are as clients are told them; `logs` is open. Fetches wait on
        `wire_clock`, by default `clock`; `cluster_of` makes the cluster. Raises OSError and UnreadableMetadata."""
        cluster = cluster_of(config=config, log_manager=logs, clock=clock, chance=chance)
        for listener in listeners:
            cluster.advertise(listener.name, listener.host, listener.port)
        await cluster.start()
        return cls(config, cluster=cluster, logs=logs, clock=clock, wire_clock=wire_clock)

    def verifier(self, transactions: "TransactionVerifier") -> "TransactionVerifier":
        """Its own coordinator, which knows every transaction."""
        return transactions

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """All of them as they are."""
        return apis

    def begin(self, services: "Services") -> None:
        """Open the logs, and tell whoever follows the cluster of each change, in this order."""
        self._replicas.open()
        for listener in (
            self._replicas,
            services.partitions,
            OffsetsFollowTopics(services.groups),
            services.metadata_responses,
            services.sharing,
        ):
            self.cluster.subscribe(listener)

    def schedule(self, background: "Background", watch: "LoopWatch") -> None:
        """Nothing is looked at again and again: the loop is watched where clients are served for long."""

    async def unfence(self) -> None:
        """It leads already."""

    async def lost(self, stop: asyncio.Event) -> None:
        """Wait for `stop`: nobody else can end its membership."""
        await stop.wait()

    async def leave(self) -> None:
        """There is nobody to take over."""

    async def close(self) -> None:
        """Nothing is sent."""
