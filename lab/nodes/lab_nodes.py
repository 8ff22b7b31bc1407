"""`LabNodes`: the nodes of one broker, in all of its lives: they go down, stand still, and hand leaders to each other.

Always true: a move is one step of the event loop, after which each request meets the new leader; a coordinator that has
moved has read its log anew, at a higher epoch.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from eosin.lab.common.errors import LabError, UnknownError, unknown
from eosin.lab.common.values import PartitionName
from eosin.lab.nodes.lab_cluster import NodeMarkers
from eosin.lab.nodes.lab_part import LabPart
from eosin.lab.nodes.node_apis import COORDINATED, GROUP, KINDS, coordinator_partition, node_apis
from eosin.lab.nodes.table import NodeState, NodeTable
from eosin.lab.nodes.values import LabNodeNow
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from eosin.coordinator.transactions.ports import MarkerTargets
    from eosin.lab.network.lab_network import LabNetwork
    from eosin.network.host import ConnectionHost
    from eosin.node.assembly import ClusterPart
    from eosin.node.node import Site
    from eosin.node.running import RunningNode
    from eosin.runtime.clock import Timer

INTERNAL: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
LONGEST_MS: Final = 600_000.0
"""Of an absence or of a load."""


class NodeListeners(Protocol):
    """The listeners of the nodes."""

    async def end_listening(self, name: str) -> None:
        """Listen no more at one of them, and hold its port."""

    def listen_again(self, name: str, broker: "RunningNode") -> None:
        """Accept connections there again."""


class LabNodes:
    """The nodes, as tests steer them."""

    def __init__(self, count: int, network: "LabNetwork") -> None:
        self.table: Final = NodeTable(count)
        self._network: Final = network
        self._node: RunningNode | None = None
        self._endpoints: NodeListeners | None = None
        self._timers: dict[TopicPartition, Timer] = {}
        self._refusing: ConnectionHost | None = None
        """The broker that sees refusals although it has one node."""

    # Lives

    async def part_at(self, site: "Site") -> "ClusterPart":
        """The part of the broker in its cluster, at a start."""
        return await LabPart.of(self.table, site)

    def markers(self, targets: "MarkerTargets") -> "MarkerTargets":
        """The way of markers to the leaders."""
        return targets if len(self.table.ids) == 1 else NodeMarkers(self.table, targets)

    @property
    def by_listener(self) -> Mapping[str, int]:
        """The nodes by the names of their listeners; none for a broker that has one."""
        return self.table.by_listener if len(self.table.ids) > 1 else {}

    def closed_listeners(self) -> frozenset[str]:
        """The names of the listeners at which nobody listens."""
        return frozenset(map(self.table.listener, self.table.down))

    def end_life(self) -> None:
        """The broker ends, or has crashed: with it the coordinators that were about to come back."""
        for each in self._timers.values():
            each.cancel()
        self._timers.clear()
        self.table.refusals.clear()

    def begin_life(self, node: "RunningNode", endpoints: NodeListeners) -> None:
        """The broker serves."""
        self._node, self._endpoints = node, endpoints
        for each in self._led_by(*self.table.down):
            self._resign(each)

    def adopt(self, state: NodeState) -> None:
        """Go on from a snapshot, at the next start."""
        self._network.begin_life()  # connections of the last one are gone, and its event loop with them
        for each in list(self.table.paused):
            self._go_on(each)
        self.table.adopt(state)

    def _check_up(self) -> None:
        """Raise LabError if the broker does not run."""
        if self._node is None or self._node.is_stopping:
            raise LabError("the broker does not run: start() starts it again")

    @property
    def _running(self) -> "RunningNode":
        self._check_up()
        assert self._node is not None
        return self._node

    @property
    def _part(self) -> LabPart:
        part = self._running.part
        assert isinstance(part, LabPart), "it took part by `part_at`"
        return part

    # Nodes

    def state_of(self, number: int) -> LabNodeNow:
        """One node as it is now. Raises LabError."""
        return self.states()[self._checked(number) - 1]

    def states(self) -> list[LabNodeNow]:
        """The nodes as they are now."""
        addresses, part, table = self._running.addresses, self._part, self.table
        leads: dict[int, list[TopicPartition]] = {each: [] for each in (NO_LEADER, *table.ids)}
        for each in part.whole.partitions():
            leads[table.leader(each)].append(each)
        return [
            LabNodeNow(
                node,
                addresses[node - 1],
                "down" if node in table.down else "paused" if node in table.paused else "up",
                node in table.live,
                tuple(PartitionName(*each) for each in sorted(leads[node])),
            )
            for node in table.ids
        ]

    async def down(self, number: int, *, elect: bool) -> None:
        """Have a node die: nobody listens there, and its connections end. With `elect` the others notice it. Raises
        LabError."""
        node = self._checked(number)
        self._check_several("down")
        running, table, listener = self._running, self.table, self.table.listener(node)
        if self._endpoints is not None:
            await self._endpoints.end_listening(listener)
        if node not in table.down:
            table.down.add(node)
            self._go_on(node)
            for connection in [each for each in running.host.connections if each.listener == listener]:
                connection.abort()
            for layer in [each for each in running.host.layers if each.listener == listener]:
                layer.abort()
            for partition in self._led_by(node):
                self._resign(partition)
        if elect and node not in table.fenced:
            for partition in table.fence(node, self._part.whole.partitions()):
                self._elected(partition)

    def up(self, number: int) -> None:
        """Have a node start again, or go on after a pause. Raises LabError."""
        node = self._checked(number)
        running, table = self._running, self.table
        self._go_on(node)
        if node not in table.down:
            return
        was_leader = self._led_by(node)
        elected = table.unfence(node, self._part.whole.partitions())
        if self._endpoints is not None:
            self._endpoints.listen_again(table.listener(node), running)
        for each in elected:
            self._elected(each)
        for each in was_leader:
            self._load(each)

    def pause(self, number: int) -> None:
        """Have a node stand still: it accepts connections, and answers nobody. Raises LabError."""
        node = self._checked(number)
        self._check_up()
        if node in self.table.down:
            raise LabError(f"node {node} is down: up() starts it")
        if node not in self.table.paused:
            self.table.paused.add(node)
            self._network.pause(self.table.listener(node))

    def _go_on(self, node: int) -> None:
        if node in self.table.paused:
            self.table.paused.discard(node)
            self._network.go_on(self.table.listener(node))

    # Leaders

    def move_leader(self, topic: str, index: int, to: int | None) -> int:
        """Elect another leader of a partition; its leader epoch. Raises LabError."""
        partition = self._partition(topic, index)
        self._elect(partition, to)
        return self._part.whole.leader_epoch(partition)

    def move_coordinator(self, kind: str, key: str, to: int | None, *, away_ms: float, loading_ms: float) -> int:
        """Have the coordinator of a group or of a transactional id move; the node to which. For `away_ms` it is nowhere
        (NOT_COORDINATOR), for `loading_ms` it loads (COORDINATOR_LOAD_IN_PROGRESS). Raises LabError."""
        if kind not in KINDS:
            raise unknown("kind of coordinator", str(kind), KINDS)
        if not isinstance(key, str) or not key:
            raise LabError(f"name the {'group' if kind == GROUP else 'transactional id'} whose coordinator moves")
        for name, ms in (("away_ms", away_ms), ("loading_ms", loading_ms)):
            if not 0 <= ms <= LONGEST_MS:
                raise LabError(f"{name} is 0 to {LONGEST_MS:g}, not {ms:g}")
        partition = coordinator_partition(kind, key, self._running.services)
        self._elect(partition, to, away_ms=away_ms, loading_ms=loading_ms)
        return self.table.leader(partition)

    def _elect(self, partition: TopicPartition, to: int | None, *, away_ms: float = 0, loading_ms: float = 0) -> None:
        table = self.table
        node = table.successor(table.leader(partition)) if to is None else self._checked(to)
        if to is None and node == NO_LEADER:
            node = table.leader(partition)
        if table.is_away(node) and to is not None:
            raise LabError(f"node {node} is {'down' if node in table.down else 'paused'}: up({node}) comes first")
        table.elect(partition, node)
        self._elected(partition, away_ms=away_ms, loading_ms=loading_ms)

    def _elected(self, partition: TopicPartition, *, away_ms: float = 0, loading_ms: float = 0) -> None:
        """A partition has a new leader: its log has a new epoch, and nobody waits at the old one."""
        self._part.leader_moved(partition)
        if partition.topic not in INTERNAL:
            return
        self._resign(partition)
        if len(self.table.ids) == 1 and (away_ms or loading_ms):
            self._refuse_on_one_node()
        self._then(
            partition,
            ((away_ms, ErrorCode.NOT_COORDINATOR), (loading_ms, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
        )

    def _then(self, partition: TopicPartition, steps: Sequence[tuple[float, ErrorCode]]) -> None:
        """Refuse requests to a coordinator for so long each, and then have it load."""
        self._timers.pop(partition, None)
        self.table.refusals.pop(partition, None)
        steps = [each for each in steps if each[0]]
        if not steps:
            self._load(partition)
            return
        (ms, refusal), *rest = steps
        self.table.refusals[partition] = refusal
        clock = self._running.services.wire_clock
        self._timers[partition] = clock.call_later(ms, partial(self._then, partition, rest))

    def _refuse_on_one_node(self) -> None:
        """Have requests see refusals, on a broker that has had no reason to look for them."""
        host, part = self._running.host, self._part
        if self._refusing is not host:
            self._refusing = host
            host.apis = node_apis(host.apis, self.table, part.services_at, only=COORDINATED)

    # Coordinators

    def _resign(self, partition: TopicPartition) -> None:
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()
        services = self._running.services
        if partition.topic == TRANSACTION_STATE_TOPIC:
            services.transactions.resign(partition.partition)
        elif partition.topic == CONSUMER_OFFSETS_TOPIC:
            services.groups.resign(partition.partition)

    def _load(self, partition: TopicPartition) -> None:
        services, leader = self._running.services, self.table.leader(partition)
        if leader == NO_LEADER or leader in self.table.down:
            return
        if partition.topic == TRANSACTION_STATE_TOPIC:
            services.transactions.elect(partition.partition)
        elif partition.topic == CONSUMER_OFFSETS_TOPIC:
            services.groups.elect(partition.partition, lambda: services.cluster.topics)

    def _led_by(self, *nodes: int) -> list[TopicPartition]:
        """The partitions of internal topics that these nodes lead."""
        whole = self._part.whole
        topics = [topic for name, topic in whole.topics.items() if name in INTERNAL]
        return [each for topic in topics for each in whole.partitions(topic) if self.table.leader(each) in nodes]

    # Checks

    def _checked(self, number: int) -> int:
        """The id of a node. Raises LabError."""
        if not isinstance(number, int) or number not in self.table.ids:
            known = f"the nodes 1 to {len(self.table.ids)}" if len(self.table.ids) > 1 else "node 1 alone"
            sentence = f"this broker has {known}, and no {number!r}: nodes=3 makes three"
            raise UnknownError(sentence, "node", str(number))
        return number

    def _check_several(self, what: str) -> None:
        if len(self.table.ids) == 1:
            raise LabError(f"the only node does not go {what}: crash() or stop() ends the broker, nodes=3 makes three")

    def _partition(self, topic: str, index: int) -> TopicPartition:
        known = self._part.whole.topics
        if topic not in known:
            raise unknown("topic", topic, [name for name in known if name not in INTERNAL])
        count = known[topic].partitions
        if not 0 <= index < count:
            raise LabError(f"topic {topic} has the partitions 0 to {count - 1}, and no {index}")
        return TopicPartition(topic, index)
