"""Members of share groups (KIP-932) as they go over the wire, and what is asked of such a group: one line each."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from waiting import until
from wire import OTHER_BROKER, Wire, settled, unique

from eosin.model.features import SHARE_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
)
from eosin.protocol.schemas.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NOT_SERVED: Final = "needs a broker whose share.version is at this level"
Place = tuple[Uuid, int]
"""A partition by the id of its topic."""


async def serve_share_groups(bootstrap: str, level: int = 1) -> None:
    """Raise `share.version` of a broker of ours to this level if it is below; another one is left as it is, and what
    needs the level is left out."""
    wire = await Wire.open(bootstrap)
    try:
        features = (await wire.ask(ApiVersionsRequest("wire", "1"), 4)).finalized_features
        if any(each.name == SHARE_VERSION and each.max_version_level >= level for each in features):
            return
        if OTHER_BROKER:
            pytest.skip(NOT_SERVED)
        update = FeatureUpdateKey(SHARE_VERSION, level, upgrade_type=1)
        answer = await wire.ask(UpdateFeaturesRequest(feature_updates=(update,)), 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
    finally:
        await wire.close()


@dataclass
class ShareMember:
    """A member that does as it is told, and remembers its epoch and its partitions."""

    wire: Wire
    group: str
    member_id: str = field(default_factory=lambda: unique("m")[:36])
    epoch: int = 0
    assigned: frozenset[Place] = frozenset()

    async def heartbeat(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        """ShareGroupHeartbeat, once; what it tells the member is remembered. Without `fields` a member that has nothing
        to say."""
        own = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        request = ShareGroupHeartbeatRequest(**{**own, **fields})
        answer: ShareGroupHeartbeatResponse = await settled(
            lambda: self.wire.ask(request, 1), lambda answer: int(answer.error_code)
        )
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = frozenset(
                    (topic.topic_id, each) for topic in answer.assignment.topic_partitions for each in topic.partitions
                )
        return answer

    async def join(self, *topics: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        """The first heartbeat, subscribed to these topics."""
        return await self.heartbeat(**{"member_epoch": 0, "subscribed_topic_names": topics, **fields})

    async def joined(self, *topics: str, partitions: int = 1) -> "ShareMember":
        """Join, and send heartbeats until so many partitions are assigned."""
        answer = await self.join(*topics)
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        await self.has(partitions)
        return self

    async def has(self, *counts: int) -> None:
        """Send heartbeats until the number of partitions that are assigned is one of these."""

        async def has_them() -> bool:
            if len(self.assigned) not in counts:
                answer = await self.heartbeat()
                assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
            return len(self.assigned) in counts

        await until(has_them, lambda: f"epoch {self.epoch}, {len(self.assigned)} partitions")

    async def leave(self) -> ErrorCode:
        """Leave the group."""
        return ErrorCode((await self.heartbeat(member_epoch=-1)).error_code)


async def described(wire: Wire, group: str) -> DescribedGroup:
    """ShareGroupDescribe of one group."""
    found: DescribedGroup = (await wire.ask(ShareGroupDescribeRequest((group,)), 1)).groups[0]
    return found


async def where(
    wire: Wire, group: str, topic: str = "", *numbers: int, version: int = 1
) -> DescribeShareGroupOffsetsResponseGroup:
    """DescribeShareGroupOffsets of partitions; without a topic of all that are known."""
    topics = (DescribeShareGroupOffsetsRequestTopic(topic, numbers),) if topic else None
    request = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(group, topics),))
    found: DescribeShareGroupOffsetsResponseGroup = (await wire.ask(request, version)).groups[0]
    return found


async def alter(wire: Wire, group: str, topic: str, *offsets: tuple[int, int]) -> AlterShareGroupOffsetsResponse:
    """AlterShareGroupOffsets of partitions of a topic, each with its offset."""
    partitions = tuple(AlterShareGroupOffsetsRequestPartition(number, offset) for number, offset in offsets)
    request = AlterShareGroupOffsetsRequest(group, (AlterShareGroupOffsetsRequestTopic(topic, partitions),))
    answer: AlterShareGroupOffsetsResponse = await settled(
        lambda: wire.ask(request, 0), lambda answer: int(answer.error_code)
    )
    return answer


async def forget(wire: Wire, group: str, *topics: str) -> DeleteShareGroupOffsetsResponse:
    """DeleteShareGroupOffsets of topics."""
    named = tuple(DeleteShareGroupOffsetsRequestTopic(each) for each in topics)
    answer: DeleteShareGroupOffsetsResponse = await settled(
        lambda: wire.ask(DeleteShareGroupOffsetsRequest(group, named), 0), lambda answer: int(answer.error_code)
    )
    return answer
