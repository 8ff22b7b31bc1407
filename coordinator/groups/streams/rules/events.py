"""Events of a streams group, and the answer to a heartbeat."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from eosin.coordinator.groups.consumer.rules.events import MemberTimerFired
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks
from eosin.coordinator.groups.streams.rules.endpoints import EndpointPartitions
from eosin.coordinator.groups.streams.rules.group import HeldTasks, StreamsMember, UserEndpoint
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import InternalTopic, Topology
from eosin.protocol.errors import ErrorCode


class StreamsHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """A StreamsGroupHeartbeat request. None, and -1 for the timeout, stand for "as before"."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: OwnedTasks | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    endpoint_epoch: int = -1
    """The epoch of the endpoints that the member knows; -1 for none."""
    shuts_down: bool = False
    """True if the whole application is to stop."""
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    """The name of a static member; None for a dynamic one."""
    version: int = 1
    """The version of the request: members are told of some things from 1 on."""


class DelayEnded(msgspec.Struct, frozen=True, gc=False):
    """The first members of a group have waited for others long enough."""


class TopologyDescribed(msgspec.Struct, frozen=True, gc=False):
    """A member has described its topology (key 93)."""

    member_id: str
    topology_epoch: int
    data: bytes


class StreamsTargetsComputed(msgspec.Struct, frozen=True, gc=False):
    """A part of a target that was computed beside the decisions."""

    epoch: int
    """The group epoch that it was computed at."""
    targets: Mapping[str, MemberTasks]
    members: Mapping[str, StreamsMember]
    """The members of the group as they were then."""
    is_last: bool


StreamsEvent = StreamsHeartbeat | MemberTimerFired | DelayEnded | StreamsTargetsComputed | TopologyDescribed


class Status(IntEnum):
    """News for a member beside its tasks, by the number on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    """From version 1 of the request on."""


class StreamsResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to StreamsGroupHeartbeat."""

    error: ErrorCode
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    tasks: HeldTasks | None = None
    """None stands for "as before"."""
    statuses: Mapping[Status, str] = {}
    """Each with a sentence."""
    missing: tuple[InternalTopic, ...] = ()
    """Topics that are to be created for the application."""
    asks_for_description: bool = False
    """True if the member is to describe its topology (key 93)."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """None stands for "as before"."""


class RefusedStreamsHeartbeat(Exception):
    """A heartbeat is refused, and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.result = StreamsResult(error, message)


def no_member(group_id: str, member_id: str) -> RefusedStreamsHeartbeat:
    """The refusal of a member that the group does not know."""
    text = f"Member {member_id} is not a member of group {group_id}."
    return RefusedStreamsHeartbeat(ErrorCode.UNKNOWN_MEMBER_ID, text)
