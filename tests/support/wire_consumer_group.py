"""Members of consumer groups (KIP-848) as they go over the wire, and what is asked of such a group: one line each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from waiting import until
from wire import OTHER_BROKER, Wire, settled, unique

from eosin.model.features import GROUP_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from eosin.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NOT_SERVED: Final = "needs a broker whose group.version is at level 1"
REBALANCE_TIMEOUT_MS: Final = 300_000
_TOPIC_IDS_FROM: Final = 10


async def serve_consumer_groups(bootstrap: str) -> None:
    """Raise `group.version` of a broker of ours to 1 if it is not there; another one is left as it is, and what needs
    the level is left out."""
    wire = await Wire.open(bootstrap)
    try:
        features = (await wire.ask(ApiVersionsRequest("wire", "1"), 4)).finalized_features
        if any(each.name == GROUP_VERSION and each.max_version_level for each in features):
            return
        if OTHER_BROKER:
            pytest.skip(NOT_SERVED)
        update = FeatureUpdateKey(GROUP_VERSION, 1, upgrade_type=1)
        answer = await wire.ask(UpdateFeaturesRequest(feature_updates=(update,)), 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
    finally:
        await wire.close()


Place = tuple[Uuid, int]
"""A partition by the id of its topic."""


@dataclass
class ConsumerMember:
    """A member that does as it is told, and remembers its epoch and its partitions."""

    wire: Wire
    group: str
    member_id: str = field(default_factory=lambda: unique("member"))
    instance_id: str | None = None
    epoch: int = 0
    assigned: frozenset[Place] = frozenset()

    async def heartbeat(self, *, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat, once; what it tells the member is remembered. Without `fields` a member that has
        nothing to say."""
        own = {"group_id": self.group, "member_id": self.member_id, "instance_id": self.instance_id}
        request = ConsumerGroupHeartbeatRequest(**{**own, "member_epoch": self.epoch, **fields})
        answer: ConsumerGroupHeartbeatResponse = await settled(
            lambda: self.wire.ask(request, version), lambda answer: int(answer.error_code)
        )
        if answer.error_code == ErrorCode.NONE:
            self.member_id, self.epoch = answer.member_id or self.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.assigned = places(answer)
        return answer

    async def join(self, *topics: str, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """The first heartbeat, subscribed to these topics."""
        says: dict[str, Any] = {"subscribed_topic_names": topics, "topic_partitions": ()}
        says |= {"member_epoch": 0, "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, **fields}
        return await self.heartbeat(version=version, **says)

    async def confirm(self) -> ConsumerGroupHeartbeatResponse:
        """Say that it has what it is assigned, and nothing else."""
        answer = await self.heartbeat(topic_partitions=said(self.assigned))
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        return answer

    async def joined(self, *topics: str, partitions: int = 1, **fields: Any) -> "ConsumerMember":
        """Join, and send heartbeats until so many partitions are assigned: a coordinator may learn of new topics a
        moment later."""
        answer = await self.join(*topics, **fields)
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)

        async def has_them() -> bool:
            if len(self.assigned) != partitions:
                await self.confirm()
            return len(self.assigned) == partitions

        await until(has_them, lambda: f"epoch {self.epoch}, {len(self.assigned)} partitions")
        return self

    async def leave(self, epoch: int = -1) -> ErrorCode:
        """Leave the group; with epoch -2 for a while."""
        answer = await self.heartbeat(member_epoch=epoch)
        return ErrorCode(answer.error_code)

    @property
    def committer(self) -> dict[str, Any]:
        """The fields about the member in OffsetCommit."""
        return {"member_id": self.member_id, "generation_id_or_member_epoch": self.epoch}


def places(answer: ConsumerGroupHeartbeatResponse) -> frozenset[Place]:
    """The partitions in a response."""
    topics = () if answer.assignment is None else answer.assignment.topic_partitions
    return frozenset((topic.topic_id, each) for topic in topics for each in topic.partitions)


def said(partitions: Iterable[Place]) -> tuple[TopicPartitions, ...]:
    """Partitions as a request names them."""
    topics: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id, tuple(some)) for topic_id, some in topics.items())


async def in_peace(*members: ConsumerMember) -> None:
    """Have members of one group revoke and take over partitions until it is stable."""

    async def is_stable() -> bool:
        for each in members:
            await each.confirm()
        return (await described(members[0].wire, members[0].group)).group_state == "Stable"

    await until(is_stable)


async def described(wire: Wire, group: str, *, version: int = 1) -> DescribedGroup:
    """ConsumerGroupDescribe of one group."""
    answer = await wire.ask(ConsumerGroupDescribeRequest((group,)), version)
    found: DescribedGroup = answer.groups[0]
    return found


async def fetch_as_member(
    wire: Wire, group: str, partition: TopicPartition, *, version: int = 9, **member: Any
) -> tuple[ErrorCode, int]:
    """The error of a group and the committed offset of a partition, -1 for none, as a member asks for it."""
    topic_id = wire.topic_id(partition.topic) if version >= _TOPIC_IDS_FROM else ZERO_UUID
    topics = (OffsetFetchRequestTopics(partition.topic, topic_id, (partition.partition,)),)
    asked = OffsetFetchRequestGroup(group, topics=topics, **member)
    (found,) = (await wire.ask(OffsetFetchRequest(groups=(asked,)), version)).groups
    offset = found.topics[0].partitions[0].committed_offset if found.topics else -1
    return ErrorCode(found.error_code), offset
