"""`AloneNode`: the part in its cluster of a broker that is the whole of it (`ClusterPart`).

Always true: it leads every partition, follows nobody, and asks no other machine for anything.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.local_replicas import LocalReplicas
from eosin.broker.markers import NoOtherBrokers, OtherBrokers
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.node.assembly import OffsetsFollowTopics, Replication
from eosin.protocol.wire.codec import decode_request

if TYPE_CHECKING:
    from eosin.broker.partitions import LedLogs
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
    confirms_answers: Final = False
    keeps_metadata: Final = True
    unguarded: Final[Collection[int]] = ()
    decode_request: Final[Callable[..., Any]] = staticmethod(decode_request)

    def __init__(
        self,
        config: "BrokerConfig",
        *,
        listeners: "Sequence[Listener]",
        logs: "LogManager",
        clock: "Clock",
        chance: "Chance",
    ) -> None:
        """`listeners` are as clients are told them; `logs` is open."""
        self._config = config
        self._logs = logs
        self._clock = clock
        self._replicas: LocalReplicas | None = None
        self.cluster = EmbeddedCluster(config=config, log_manager=logs, clock=clock, chance=chance)
        for listener in listeners:
            self.cluster.advertise(listener.name, listener.host, listener.port)

    async def start(self) -> "BrokerConfig":
        """Read the cluster's metadata. Raises OSError and UnreadableMetadata."""
        await self.cluster.start()
        return self._config

    def hold(self, led_logs: "LedLogs") -> Replication:
        """Everything is led, and nothing has to be in sync."""
        replicas = self._replicas = LocalReplicas(self.cluster, led_logs, self._logs, self._clock)
        return Replication(replicas, replicas.leader_epoch)

    def verifier(self, transactions: "TransactionVerifier") -> "TransactionVerifier":
        """Its own coordinator, which knows every transaction."""
        return transactions

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """All of them as they are."""
        return apis

    def begin(self, services: "Services") -> None:
        """Open the logs, and tell whoever follows the cluster of each change, in this order."""
        assert self._replicas is not None, "replicas are held before anything begins"
        self._replicas.open()
        for listener in (
            self._replicas,
            services.partitions,
            OffsetsFollowTopics(services.groups),
            services.metadata_answers,
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
