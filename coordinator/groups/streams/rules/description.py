"""Descriptions of topologies, which members tell for people (KIP-1331, streams-groups.md 9.1). Pure.

A description is in memory alone: after a restart of the coordinator the members are asked for it again. One member is
asked at a time, and another one when that has not answered for a while.
"""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.events import (
    RefusedStreamsHeartbeat,
    StreamsResult,
    TopologyDescribed,
    no_member,
)
from eosin.coordinator.groups.streams.rules.group import Description, StreamsMember
from eosin.protocol.errors import ErrorCode

FIRST_VERSION: Final = 1
"""Of heartbeats whose members can be asked."""
PATIENCE_MS: Final = 30_000
"""Until another member is asked, the first time; each time after that twice as long."""
MOST_PATIENCE_MS: Final = 3_600_000
_DOUBLINGS: Final = 7


def must_describe(decision: StreamsDecision, member: StreamsMember, *, version: int) -> bool:
    """True if a member is to describe the topology of its group, for which nobody else is asked then for a while."""
    group = decision.group
    known, topology = group.description, group.topology
    if topology is None or version < FIRST_VERSION or not decision.config.eosin_topology_description_max_bytes:
        return False
    if member.topology_epoch != topology.epoch or topology.epoch in (known.topology_epoch, known.refused_epoch):
        return False
    if decision.now_ms < known.asked_again_ms <= decision.now_ms + MOST_PATIENCE_MS:
        return False
    patience_ms = min(PATIENCE_MS << min(known.times_asked, _DOUBLINGS), MOST_PATIENCE_MS)
    asked = known._replace(asked_again_ms=decision.now_ms + patience_ms, times_asked=known.times_asked + 1)
    decision.group = replace(group, description=asked)
    return True


def described(decision: StreamsDecision, event: TopologyDescribed) -> StreamsResult:
    """Keep a description that a member of the group tells. Raises RefusedStreamsHeartbeat."""
    group, most = decision.group, decision.config.eosin_topology_description_max_bytes
    if event.member_id not in group.members:
        raise no_member(group.group_id, event.member_id)
    present = -1 if group.topology is None else group.topology.epoch
    if event.topology_epoch != present:
        text = f"Topology epoch {event.topology_epoch} does not match the group's current topology epoch {present}."
        raise RefusedStreamsHeartbeat(ErrorCode.INVALID_REQUEST, text)
    if len(event.data) > most:
        decision.group = replace(group, description=group.description._replace(refused_epoch=present))
        text = f"The description has {len(event.data)} bytes, and eosin.topology.description.max.bytes is {most}."
        return StreamsResult(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, text)
    decision.group = replace(group, description=Description(present, event.data))
    return StreamsResult(ErrorCode.NONE)
