"""`NodeTable`: the leader of each partition among the nodes of one broker, and the nodes that are away. Pure.

Always true: nodes have the ids 1, 2, ... ; partition p of a topic begins at node p modulo their number, plus 1; each
election makes the leader epoch of its partition one higher, and nothing makes it lower.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

MOST_NODES: Final = 9
FIRST_LISTENER: Final = "PLAINTEXT"
NODE: Final = "NODE"
"""The names of other nodes' listeners begin so, and end with their ids."""


class NodeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table as a snapshot holds it."""

    leaders: tuple[tuple[str, int, int], ...] = ()
    """Topic, partition and node, of the partitions that are not where they began."""
    elections: tuple[tuple[str, int, int], ...] = ()
    """Topic, partition and the number of its elections."""
    down: tuple[int, ...] = ()
    fenced: tuple[int, ...] = ()


def listener_names(nodes: int) -> list[str]:
    """The names of the listeners of so many nodes, by node id."""
    return [FIRST_LISTENER, *(f"{NODE}{node}" for node in range(2, nodes + 1))]


class NodeTable:
    """The nodes of one broker, in all of its lives."""

    def __init__(self, count: int) -> None:
        self.ids: Final = tuple(range(1, count + 1))
        self.version = 0
        """One more with each change."""
        self.down: set[int] = set()
        """Nodes that have died."""
        self.paused: set[int] = set()
        """Nodes that stand still."""
        self.fenced: set[int] = set()
        """Nodes that the others know to be down: they are in no metadata."""
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        """The answer of the coordinator on a partition, while it is not there yet."""
        self._leaders: dict[TopicPartition, int] = {}
        self._elections: dict[TopicPartition, int] = {}

    def listener(self, node: int) -> str:
        """The name of a node's listener."""
        return listener_names(node)[-1]

    @property
    def by_listener(self) -> Mapping[str, int]:
        """The nodes by their listeners' names."""
        return {self.listener(each): each for each in self.ids}

    @property
    def live(self) -> list[int]:
        """The nodes that metadata name."""
        return [each for each in self.ids if each not in self.fenced]

    def is_away(self, node: int) -> bool:
        """True for a node that does nothing now."""
        return node in self.down or node in self.paused

    # Leaders

    def first_leader(self, partition: TopicPartition) -> int:
        """The node at which a partition begins."""
        return self.ids[partition.partition % len(self.ids)]

    def leader(self, partition: TopicPartition) -> int:
        """The leader of a partition that exists; `NO_LEADER` when no node could be elected."""
        return self._leaders.get(partition) or self.first_leader(partition)

    def elections(self, partition: TopicPartition) -> int:
        """The number of elections of a partition: so much higher is its leader epoch."""
        return self._elections.get(partition, 0)

    def elect(self, partition: TopicPartition, node: int) -> None:
        """Make a node the leader; it may be the leader already."""
        self._leaders[partition] = node
        self._elections[partition] = self.elections(partition) + 1
        self.version += 1

    def raise_elections(self, partition: TopicPartition, elections: int) -> None:
        """Count at least so many elections of a partition."""
        self._elections[partition] = max(elections, self.elections(partition))

    def place(self, partition: TopicPartition) -> None:
        """Give a new partition to a node that is there."""
        self._leaders.pop(partition, None)
        self._elections.pop(partition, None)
        if self.first_leader(partition) in self.fenced:
            self._leaders[partition] = self.successor(self.first_leader(partition))

    def forget(self, topic: str) -> None:
        """A topic is deleted."""
        for some in (self._leaders, self._elections):
            for partition in [each for each in some if each.topic == topic]:
                del some[partition]
        self.version += 1

    def successor(self, node: int) -> int:
        """The next node that is there; `NO_LEADER` if there is none."""
        later = (*self.ids[node:], *self.ids[: node - 1])
        return next((each for each in later if each not in self.fenced and each not in self.down), NO_LEADER)

    # Nodes

    def fence(self, node: int, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Notice that a node is down, and elect others where it led; the partitions that have moved."""
        self.fenced.add(node)
        self.version += 1
        moved = [each for each in partitions if self.leader(each) == node]
        successor = self.successor(node)
        for each in moved:
            self.elect(each, successor)
        return moved

    def unfence(self, node: int, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Let a node be there again, and elect it where there was no leader; these partitions."""
        self.down.discard(node)
        self.fenced.discard(node)
        self.version += 1
        moved = [each for each in partitions if self.leader(each) == NO_LEADER]
        for each in moved:
            self.elect(each, node)
        return moved

    # Snapshots

    def state(self) -> NodeState:
        """A copy for a snapshot."""
        return NodeState(
            _listed(self._leaders), _listed(self._elections), tuple(sorted(self.down)), tuple(sorted(self.fenced))
        )

    def adopt(self, state: NodeState) -> None:
        """Go on from a snapshot, which may be of a broker with another number of nodes."""
        known: Collection[int] = self.ids
        self._leaders = {
            TopicPartition(topic, index): node
            for topic, index, node in state.leaders
            if node in known or (node == NO_LEADER and state.fenced and set(state.fenced) >= set(known))
        }
        self._elections = {TopicPartition(topic, index): count for topic, index, count in state.elections}
        self.down = {each for each in state.down if each in known}
        self.fenced = {each for each in state.fenced if each in known}
        self.paused.clear()
        self.refusals.clear()
        self.version += 1


def _listed(numbers: Mapping[TopicPartition, int]) -> tuple[tuple[str, int, int], ...]:
    return tuple((each.topic, each.partition, number) for each, number in sorted(numbers.items()))
