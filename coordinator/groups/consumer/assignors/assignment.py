"""Values that assignors take and give (groups.md 15.3), and `Assign`, the shape of each of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from eosin.coordinator.steps import InSteps
from eosin.protocol.names import TopicIdPartition, Uuid

__all__ = ["Assign", "AssignInSteps", "Partitions", "Steps", "SubscribedMember", "Target", "TopicIdPartition"]

Partitions = frozenset[TopicIdPartition]
"""The partitions of one member."""


class SubscribedMember(NamedTuple):
    """A member of a group, as far as an assignor sees it."""

    member_id: str
    topics: frozenset[Uuid]
    """The existing topics that it is subscribed to, by name or by a regular expression."""
    instance_id: str | None = None
    rack_id: str | None = None


Target = Mapping[str, Partitions]
"""The partitions of each member, by member id. A member that is not in it has none."""

Assign = Callable[[Sequence[SubscribedMember], Mapping[Uuid, int], Target], Target]
"""An assignor: the target of members, in any order, over topics and their numbers of partitions, which follows a
previous target. Deterministic, and never in an error: each partition of a topic with a subscriber has one owner, which
is subscribed to its topic."""

Steps = InSteps[Target]
AssignInSteps = Callable[[Sequence[SubscribedMember], Mapping[Uuid, int], Target], Steps]
"""An assignor in steps."""
