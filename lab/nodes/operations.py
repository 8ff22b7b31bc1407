"""`NodeOperations`: what tests do to the nodes of a broker, and their faces (`broker.node(2)`)."""

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from eosin.lab.common.callers import AsyncCaller, Caller
from eosin.lab.common.errors import NotToldError
from eosin.lab.nodes.values import LabNodeNow

if TYPE_CHECKING:
    from collections.abc import Callable

    from eosin.lab.nodes.lab_nodes import LabNodes

Nothing = TypeVar("Nothing")
"""None, or what is to be awaited for it."""
Seen = TypeVar("Seen")


class NodeOperations:
    """The part of `Operations` that is about nodes."""

    nodes: "LabNodes | None" = None
    """None for a broker that is not of the lab."""

    @property
    def _nodes(self) -> "LabNodes":
        if self.nodes is None:
            raise NotToldError("only a broker of the lab has nodes that fail on demand")
        return self.nodes

    async def node_states(self) -> list[LabNodeNow]:
        """The nodes."""
        return self._nodes.states()

    async def node_state(self, node: int) -> LabNodeNow:
        """One of them."""
        return self._nodes.state_of(node)

    async def node_down(self, node: int, elect: bool) -> None:
        """Have a node die."""
        await self._nodes.down(node, elect=elect)

    async def node_up(self, node: int) -> None:
        """Have it start again, or go on."""
        self._nodes.up(node)

    async def node_pause(self, node: int) -> None:
        """Have it stand still."""
        self._nodes.pause(node)

    async def move_leader(self, topic: str, partition: int, to: int | None) -> int:
        """Elect another leader; the leader epoch."""
        return self._nodes.move_leader(topic, partition, to)

    async def move_coordinator(self, kind: str, key: str, to: int | None, away_ms: float, loading_ms: float) -> int:
        """Have a coordinator move; the node to which."""
        return self._nodes.move_coordinator(kind, key, to, away_ms=away_ms, loading_ms=loading_ms)


class LabNode(Generic[Nothing, Seen]):
    """One node of a broker: a listener of its own, in front of what all of them share."""

    def __init__(self, call: "Callable[..., Any]", number: int) -> None:
        self._call: Final = call
        self.number: Final = number
        """The node id."""

    def down(self, *, elect: bool = True) -> Nothing:
        """Die as a process that is killed: nobody listens here, connections are reset. The other nodes elect leaders
        and coordinators for what it led; with `elect=False` they have not noticed yet, and a second `down()` is when
        they do. Harmless when it is down."""
        nothing: Nothing = self._call(NodeOperations.node_down, self.number, elect)
        return nothing

    def up(self) -> Nothing:
        """Start again after `down`, or go on after `pause`. Leaders that have moved stay where they are."""
        nothing: Nothing = self._call(NodeOperations.node_up, self.number)
        return nothing

    def pause(self) -> Nothing:
        """Stand still, as a process does that is suspended: connections are accepted, and nobody is answered. Nothing
        is elected."""
        nothing: Nothing = self._call(NodeOperations.node_pause, self.number)
        return nothing

    def now(self) -> Seen:
        """Its address, its state, and the partitions that it leads."""
        seen: Seen = self._call(NodeOperations.node_state, self.number)
        return seen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}>"


class Nodes:
    """The nodes of a broker for tests that block."""

    def node(self: Caller, number: int) -> LabNode[None, LabNodeNow]:
        """The node of this id: 1, 2, ..., as many as `nodes=` has made."""
        return LabNode(self.call, number)

    def nodes(self: Caller) -> list[LabNodeNow]:
        """All nodes as they are now."""
        return self.call(NodeOperations.node_states)

    def move_leader(self: Caller, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Elect a new leader of a partition: node `to`, by default the next one; its leader epoch, which is one higher.
        Fetches that wait at the old one end."""
        return self.call(NodeOperations.move_leader, topic, partition, to)

    def move_coordinator(
        self: Caller, kind: str, key: str, *, to: int | None = None, away_ms: float = 0, loading_ms: float = 0
    ) -> int:
        """Move the coordinator of a `group` or a `transaction` to node `to`, by default the next one; its number. It
        is nowhere for `away_ms` of real time, so that all nodes say NOT_COORDINATOR, and then loads for `loading_ms`
        (COORDINATOR_LOAD_IN_PROGRESS). With one node it goes away and comes back at a higher epoch."""
        return self.call(NodeOperations.move_coordinator, kind, key, to, away_ms, loading_ms)


class AsyncNodes:
    """The same, to be awaited."""

    def node(self: AsyncCaller, number: int) -> "LabNode[Any, Any]":
        """The node of this id: 1, 2, ..., as many as `nodes=` has made. What it does is awaited."""
        return LabNode(self.call, number)

    async def nodes(self: AsyncCaller) -> list[LabNodeNow]:
        """All nodes as they are now."""
        return await self.call(NodeOperations.node_states)

    async def move_leader(self: AsyncCaller, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """See `Nodes.move_leader`."""
        return await self.call(NodeOperations.move_leader, topic, partition, to)

    async def move_coordinator(
        self: AsyncCaller, kind: str, key: str, *, to: int | None = None, away_ms: float = 0, loading_ms: float = 0
    ) -> int:
        """See `Nodes.move_coordinator`."""
        return await self.call(NodeOperations.move_coordinator, kind, key, to, away_ms, loading_ms)
