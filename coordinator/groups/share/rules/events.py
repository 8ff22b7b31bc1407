"""Events of a share group."""

from collections.abc import Mapping

import msgspec

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.protocol.names import TopicIdPartition, Uuid


class ShareHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """A ShareGroupHeartbeat request. None stands for "as before"."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class SessionEnded(msgspec.Struct, frozen=True, gc=False):
    """A member has sent nothing for its session."""

    member_id: str


class StatesInitialized(msgspec.Struct, frozen=True, gc=False):
    """The states of some partitions are there."""

    partitions: frozenset[TopicIdPartition]


class StatesWanted(msgspec.Struct, frozen=True, gc=False):
    """An AlterShareGroupOffsets request: states of these partitions are to begin somewhere, by topic id and with the
    topic's name."""

    names: Mapping[Uuid, str]
    partitions: frozenset[TopicIdPartition]


class StatesDoomed(msgspec.Struct, frozen=True, gc=False):
    """The states of these topics are to be deleted."""

    topics: frozenset[Uuid]


class StatesDeleted(msgspec.Struct, frozen=True, gc=False):
    """The states of these topics are deleted."""

    topics: frozenset[Uuid]


class TopicsGone(msgspec.Struct, frozen=True, gc=False):
    """These topics exist no longer; their states end with them."""

    topics: frozenset[Uuid]


class ShareTargetsComputed(msgspec.Struct, frozen=True, gc=False):
    """A part of a target that was computed beside the decisions."""

    epoch: int
    """The group epoch that it was computed at."""
    targets: Mapping[str, Partitions]
    is_last: bool


ShareEvent = (
    ShareHeartbeat
    | SessionEnded
    | StatesInitialized
    | StatesWanted
    | StatesDoomed
    | StatesDeleted
    | TopicsGone
    | ShareTargetsComputed
)
