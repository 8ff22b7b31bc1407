"""Members of streams groups (KIP-1071) as they go over the wire, and what is asked of such a group: one line each."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from waiting import until
from wire import OTHER_BROKER, Wire, settled, unique

from eosin.model.features import STREAMS_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from eosin.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NOT_SERVED: Final = "needs a broker whose streams.version is at level 1"
REBALANCE_TIMEOUT_MS: Final = 300_000
WireTask = tuple[str, int]


async def serve_streams_groups(bootstrap: str) -> None:
    """Raise `streams.version` of a broker of ours to 1 if it is not there; another one is left as it is, and what needs
    the level is left out."""
    wire = await Wire.open(bootstrap)
    try:
        features = (await wire.ask(ApiVersionsRequest("wire", "1"), 4)).finalized_features
        if any(each.name == STREAMS_VERSION and each.max_version_level for each in features):
            return
        if OTHER_BROKER:
            pytest.skip(NOT_SERVED)
        update = FeatureUpdateKey(STREAMS_VERSION, 1, upgrade_type=1)
        answer = await wire.ask(UpdateFeaturesRequest(feature_updates=(update,)), 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
    finally:
        await wire.close()


def counting(source: str, name: str) -> Topology:
    """A word count: what is read is partitioned anew, and counted in a store. `name` is in front of internal topics."""
    repartition, changelog = f"{name}-repartition", f"{name}-changelog"
    return Topology(
        0,
        (
            Subtopology("0", source_topics=(source,), repartition_sink_topics=(repartition,)),
            Subtopology(
                "1",
                repartition_source_topics=(TopicInfo(repartition),),
                state_changelog_topics=(TopicInfo(changelog),),
            ),
        ),
    )


@dataclass
class StreamsMember:
    """A member that does as it is told at once, and remembers its epoch and its active tasks."""

    wire: Wire
    group: str
    member_id: str = field(default_factory=lambda: unique("m")[:36])
    epoch: int = 0
    active: frozenset[WireTask] = frozenset()
    statuses: dict[int, str] = field(default_factory=dict)

    async def heartbeat(self, *, version: int = 1, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """StreamsGroupHeartbeat, once; what it tells the member is remembered. Without `fields` a member that tells
        what it has."""
        numbers: dict[str, list[int]] = {}
        for subtopology_id, number in sorted(self.active):
            numbers.setdefault(subtopology_id, []).append(number)
        own = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "active_tasks": tuple(TaskIds(name, tuple(some)) for name, some in numbers.items()),
            "standby_tasks": (),
            "warmup_tasks": (),
        }
        request = StreamsGroupHeartbeatRequest(**{**own, **fields})
        answer: StreamsGroupHeartbeatResponse = await settled(
            lambda: self.wire.ask(request, version), lambda answer: int(answer.error_code)
        )
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            self.statuses = {each.status_code: each.status_detail for each in answer.status or ()}
            if answer.active_tasks is not None:
                self.active = frozenset(
                    (each.subtopology_id, number) for each in answer.active_tasks for number in each.partitions
                )
        return answer

    async def join(self, topology: Topology, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """The first heartbeat."""
        self.active = frozenset()
        own = {
            "member_epoch": 0,
            "topology": topology,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "process_id": self.member_id,
        }
        return await self.heartbeat(**{**own, **fields})

    async def has(self, *counts: int) -> None:
        """Send heartbeats until the number of active tasks is one of these."""

        async def has_them() -> bool:
            if len(self.active) not in counts:
                answer = await self.heartbeat()
                assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
            return len(self.active) in counts

        await until(has_them, lambda: f"epoch {self.epoch}, {sorted(self.active)}, {self.statuses}")

    async def leave(self) -> ErrorCode:
        """Leave the group."""
        return ErrorCode((await self.heartbeat(member_epoch=-1)).error_code)


async def described(wire: Wire, group: str, *, version: int = 1, with_description: bool = False) -> DescribedGroup:
    """StreamsGroupDescribe of one group."""
    request = StreamsGroupDescribeRequest((group,), include_topology_description=with_description)
    found: DescribedGroup = (await wire.ask(request, version)).groups[0]
    return found


async def both_have(count: int, *members: StreamsMember) -> None:
    """Members send heartbeats until each has so many tasks."""

    async def have_them() -> bool:
        for member in members:
            assert (await member.heartbeat()).error_code == ErrorCode.NONE
        return all(len(member.active) == count for member in members)

    await until(have_them, lambda: str([sorted(member.active) for member in members]))
