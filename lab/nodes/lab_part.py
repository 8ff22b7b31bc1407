"""`LabPart`: the part in its cluster of a broker of the lab, with one node or with several.

Always true: whatever listener a request comes in on, one state serves it; with several nodes its handler gets the
services of its node, which differ in the leaders that they show.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from eosin.broker.markers import LocalMarkers
from eosin.broker.partitions import LedLogs, Partitions
from eosin.cluster.metadata.responses import MetadataResponses
from eosin.lab.nodes.lab_cluster import LabCluster, NodeCluster, PlacedPartitions, elections_in
from eosin.lab.nodes.node_apis import node_apis
from eosin.lab.nodes.table import NodeTable
from eosin.node.alone_node import AloneNode
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.broker.partitions import BrokerReplicas
    from eosin.broker.services import Services
    from eosin.model.cluster import Cluster
    from eosin.network.api import Api, RequestContext
    from eosin.node.node import Site
    from eosin.storage.log.partition_log import PartitionLog


class LabPart(AloneNode):
    """A broker that runs alone, behind the nodes of `table`."""

    def __init__(self, config: Any, **given: Any) -> None:
        """Use `of`."""
        super().__init__(config, **given)
        assert isinstance(self.cluster, LabCluster), "`of` makes it"
        self.whole: Final[LabCluster] = self.cluster
        self._led: Final[list[LedLogs]] = []
        """The logs that each node hands out."""
        self._at: Final[dict[str, tuple[int, Services]]] = {}
        """Node and services by the listener."""

    @classmethod
    async def of(cls, table: NodeTable, site: "Site") -> Self:
        """Read the cluster's metadata. Raises OSError and UnreadableMetadata."""
        return await cls.started(
            site.config,
            listeners=site.listeners,
            logs=await site.open_logs(site.config),
            clock=site.clock,
            chance=site.chance,
            wire_clock=site.wire_clock,
            cluster_of=partial(LabCluster, table),
        )

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """The APIs as each of several nodes serves them; with one node as they are."""
        table = self.whole.table
        return apis if len(table.ids) == 1 else node_apis(apis, table, self.services_at)

    def services_at(self, context: "RequestContext", services: "Services") -> "tuple[int | None, Services]":
        """The node at which a request is, and its services; None for a broker that has one node."""
        return self._at.get(context.listener, (None, services))

    def begin(self, services: "Services") -> None:
        """Open the logs, and tell whoever follows the cluster of each change, in this order."""
        super().begin(services)
        table = self.whole.table
        logs = self.led_logs.by_partition
        for partition in elections_in({each: log.epochs.latest for each, log in logs.items()}, self.whole):
            logs[partition].raise_leader_epoch(self.whole.leader_epoch(partition))
        self.cluster.subscribe(PlacedPartitions(table, self._gone))
        if len(table.ids) == 1:
            return
        first = cast("Cluster", NodeCluster(self.whole, table.ids[0]))
        limit_bytes = self.config.eosin_metadata_answers_max_bytes
        responses = MetadataResponses(first, services.clock, limit_bytes=limit_bytes)
        self.cluster.subscribe(responses)
        for node in table.ids:
            at_node = copy(services)
            at_node.cluster = cast("Cluster", NodeCluster(self.whole, node))
            at_node.partitions = self._partitions_of(node, at_node)
            at_node.partitions.refused_batches = services.partitions.refused_batches
            at_node.markers = LocalMarkers(at_node.partitions, clock=services.clock)
            at_node.markers.bind(services.groups)
            at_node.metadata_responses = responses
            self._at[table.listener(node)] = node, at_node

    def _partitions_of(self, node: int, services: "Services") -> Partitions:
        led = LedLogs(services.wire_clock)
        led.long_polls = self.led_logs.long_polls
        self._led.append(led)
        return Partitions(
            cluster=services.cluster,
            led_logs=led,
            replicas=NodeReplicas(node, self.whole.table, led, self.led_logs, self._replicas),
            log_manager=self.logs,
            clock=services.wire_clock,
            config=services.config,
            leader_epoch=self._replicas.leader_epoch,
            guard=lambda log: log,
        )

    def leader_moved(self, partition: TopicPartition) -> None:
        """A partition has a new leader, or the same at a new epoch: nobody waits at the old one."""
        log = self.led_logs.by_partition.get(partition)
        if log is not None:
            log.raise_leader_epoch(self.whole.leader_epoch(partition))
            self.led_logs.long_polls.interrupt(log)
        for each in self._led:
            each.let_go(partition)

    def _gone(self, partition: TopicPartition) -> None:
        for each in self._led:
            each.drop(partition)


class NodeReplicas:
    """The replicas of one node (`BrokerReplicas`): it has all logs, and leads those that the table gives it."""

    def __init__(self, node: int, table: NodeTable, led: LedLogs, every: LedLogs, replicas: "BrokerReplicas") -> None:
        """`led` are the logs that it has led so far, `every` those of the broker."""
        self._node: Final = node
        self._table: Final = table
        self._led: Final = led
        self._every: Final = every.by_partition
        self._replicas: Final = replicas

    def followed(self) -> "Iterator[tuple[TopicPartition, PartitionLog]]":
        """Every log that it does not lead."""
        return ((each, log) for each, log in self._every.items() if each not in self._led.by_partition)

    def lag(self, partition: TopicPartition) -> int:
        """Nothing lacks."""
        return 0

    def log(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log, led or followed."""
        return self._every.get(partition)

    def readable(self, partition: TopicPartition) -> "PartitionLog | None":
        """The log of a partition that it leads, which it begins to serve: consumers read from leaders."""
        return self.opened(partition)

    def is_settling(self, partition: TopicPartition) -> bool:
        """A log that is open is ready."""
        return False

    def opened(self, partition: TopicPartition) -> "PartitionLog | None":
        """Likewise."""
        if self._table.leader(partition) != self._node:
            return None
        log = self._every.get(partition) or self._replicas.opened(partition)
        if log is not None:
            self._led.serve(partition, log)
        return log
