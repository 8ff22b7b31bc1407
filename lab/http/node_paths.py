"""The paths about the nodes of a broker, and about the leaders and coordinators that move between them."""

from typing import Final

import msgspec

from eosin.lab.common.errors import UnknownError
from eosin.lab.http.endpoint import UP, ControlPath
from eosin.lab.http.hosts import Lab
from eosin.lab.http.values import CarriedOut
from eosin.lab.nodes.values import LabNodeNow
from eosin.lab.operations import Operations


class Down(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The death of a node."""

    elect: bool = True
    """False: the other nodes have not noticed it yet."""


class LeaderMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An election of another leader."""

    topic: str
    partition: int = 0
    to: int | None = None
    """By default the next node."""


class LeaderMoved(msgspec.Struct, frozen=True):
    """The outcome of the election."""

    leader_epoch: int


class CoordinatorMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move of the coordinator of one group or one transactional id."""

    kind: str
    """`group` or `transaction`."""
    key: str
    """The group, or the transactional id."""
    to: int | None = None
    """By default the next node; the same one if there is no other."""
    away_ms: float = 0
    """No node is the coordinator for so long."""
    loading_ms: float = 0
    """After that it loads for so long."""


class CoordinatorMoved(msgspec.Struct, frozen=True):
    """The new coordinator."""

    node: int


async def nodes(lab: Lab) -> list[LabNodeNow]:
    """The nodes: their addresses, their states, and the partitions that they lead."""
    return await lab.broker.nodes()


async def down(lab: Lab, node: str, body: Down) -> CarriedOut:
    """Have a node die; others lead what it led."""
    await lab.broker.call(Operations.node_down, _number(node), body.elect)
    return CarriedOut()


async def up(lab: Lab, node: str) -> CarriedOut:
    """Have a node start again, or go on after a pause."""
    await lab.broker.call(Operations.node_up, _number(node))
    return CarriedOut()


async def pause(lab: Lab, node: str) -> CarriedOut:
    """Have a node stand still: it accepts connections, and answers nobody."""
    await lab.broker.call(Operations.node_pause, _number(node))
    return CarriedOut()


async def move_leader(lab: Lab, body: LeaderMove) -> LeaderMoved:
    """Elect another leader of a partition; its leader epoch."""
    return LeaderMoved(await lab.broker.move_leader(body.topic, body.partition, to=body.to))


async def move_coordinator(lab: Lab, body: CoordinatorMove) -> CoordinatorMoved:
    """Move the coordinator of a group or of a transactional id; its new node."""
    node = await lab.broker.move_coordinator(
        body.kind, body.key, to=body.to, away_ms=body.away_ms, loading_ms=body.loading_ms
    )
    return CoordinatorMoved(node)


def _number(text: str) -> int:
    """The node id in a path. Raises UnknownError."""
    if not text.isdecimal():
        raise UnknownError(f"a node has a number, not {text!r}", "node", text)
    return int(text)


ENDPOINTS: Final = (
    ControlPath("GET", "/nodes", nodes, errors=UP),
    ControlPath("POST", "/nodes/{node}/down", down, errors=UP, in_batch=False),
    ControlPath("POST", "/nodes/{node}/up", up, errors=UP),
    ControlPath("POST", "/nodes/{node}/pause", pause, errors=UP),
    ControlPath("POST", "/leaders/move", move_leader, errors=UP),
    ControlPath("POST", "/coordinators/move", move_coordinator, errors=UP),
)
