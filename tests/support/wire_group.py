"""Group members as they go over the wire, and what is asked of a group from outside: one line each, at any version."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from waiting import until
from wire import Wire, settled

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.describe_groups import DescribedGroup, DescribeGroupsRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS: Final = 60_000
REBALANCE_TIMEOUT_MS: Final = 10_000
_TOPIC_IDS_FROM: Final = 10
_MANY_GROUPS_FROM: Final = 8


@dataclass
class RawMember:
    """A member that does as it is told, and remembers its id and its generation."""

    wire: Wire
    group: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    protocol_type: str = "consumer"
    protocols: tuple[tuple[str, bytes], ...] = (("range", b""),)

    def join_request(self, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(*each) for each in self.protocols),
        )

    async def join(self, *, version: int = 9, **how: int) -> JoinGroupResponse:
        """JoinGroup, once; id and generation are remembered."""
        answer: JoinGroupResponse = await settled(
            lambda: self.wire.ask(self.join_request(**how), version), lambda answer: int(answer.error_code)
        )
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.error_code == ErrorCode.NONE:
            self.generation = answer.generation_id
        return answer

    async def joined(self, **how: int) -> JoinGroupResponse:
        """JoinGroup as clients do it: once more with the id that the broker gave."""
        answer = await self.join(**how)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = await self.join(**how)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer

    async def sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **more: Any
    ) -> SyncGroupResponse:
        """SyncGroup; the leader gives the assignments by member id."""
        given = tuple(SyncGroupRequestAssignment(*each) for each in (assignments or {}).items())
        named = {"protocol_type": self.protocol_type, "protocol_name": self.protocols[0][0], **more}
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, self.instance_id, assignments=given, **named
        )
        answer: SyncGroupResponse = await self.wire.ask(request, version)
        return answer

    async def alone(self) -> "RawMember":
        """Join and sync as the only member of the group."""
        await self.joined()
        answer = await self.sync({self.member_id: b"everything"})
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"everything")
        return self

    async def assigned(self, *partitions: TopicPartition) -> "RawMember":
        """Join and sync as the only member of the group, which assigns these partitions to itself."""
        await self.joined()
        by_topic: dict[str, list[int]] = {}
        for each in partitions:
            by_topic.setdefault(each.topic, []).append(each.partition)
        told = tuple(TopicPartitions(topic, tuple(indexes)) for topic, indexes in by_topic.items())
        await self.sync({self.member_id: encode_value(ConsumerProtocolAssignment(told), 0)})
        return self

    async def heartbeat(self, *, version: int = 4) -> ErrorCode:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance_id)
        return ErrorCode((await self.wire.ask(request, version)).error_code)

    async def told_to_rejoin(self) -> None:
        """Wait for the next rebalance."""

        async def is_told() -> bool:
            return await self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS

        await until(is_told)

    async def leave(self, *, version: int = 5) -> LeaveGroupResponse:
        members = (MemberIdentity(self.member_id, self.instance_id),)
        answer: LeaveGroupResponse = await self.wire.ask(
            LeaveGroupRequest(self.group, self.member_id, members), version
        )
        return answer

    async def commit(self, partition: TopicPartition, offset: int, *, version: int = 8) -> ErrorCode:
        """OffsetCommit of one partition."""
        return await commit_offset(
            self.wire,
            self.group,
            partition,
            offset,
            version=version,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The fields about the member in TxnOffsetCommit (KIP-447)."""
        return {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


async def commit_offset(
    wire: Wire,
    group: str,
    partition: TopicPartition,
    offset: int,
    *,
    version: int = 8,
    metadata: str | None = None,
    **more: Any,
) -> ErrorCode:
    """OffsetCommit of one partition; without a member, by nobody."""
    entry = OffsetCommitRequestPartition(
        partition_index=partition.partition, committed_offset=offset, committed_metadata=metadata
    )
    topic_id = wire.topic_id(partition.topic) if version >= _TOPIC_IDS_FROM else ZERO_UUID
    topics = (OffsetCommitRequestTopic(partition.topic, topic_id, (entry,)),)
    request = OffsetCommitRequest(group, topics=topics, **more)
    answer = await settled(
        lambda: wire.ask(request, version), lambda answer: int(answer.topics[0].partitions[0].error_code)
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def fetch_offset(
    wire: Wire, group: str, partition: TopicPartition | None, *, version: int = 8, require_stable: bool = False
) -> list[tuple[ErrorCode, int]]:
    """The error and the committed offset of a partition; with None, of every one that has an offset."""
    names: Any = None
    if version >= _MANY_GROUPS_FROM:
        if partition is not None:
            topic_id = wire.topic_id(partition.topic) if version >= _TOPIC_IDS_FROM else ZERO_UUID
            names = (OffsetFetchRequestTopics(partition.topic, topic_id, (partition.partition,)),)
        asked = OffsetFetchRequestGroup(group, topics=names)
        answer = await wire.ask(OffsetFetchRequest(groups=(asked,), require_stable=require_stable), version)
        assert answer.groups[0].error_code == ErrorCode.NONE
        topics = answer.groups[0].topics
    else:
        if partition is not None:
            names = (OffsetFetchRequestTopic(partition.topic, (partition.partition,)),)
        answer = await wire.ask(OffsetFetchRequest(group, names, require_stable=require_stable), version)
        topics = answer.topics
    return [(ErrorCode(each.error_code), each.committed_offset) for topic in topics for each in topic.partitions]


async def describe(wire: Wire, group: str, *, version: int = 5) -> DescribedGroup:
    """DescribeGroups of one group."""
    answer = await wire.ask(DescribeGroupsRequest((group,)), version)
    found: DescribedGroup = answer.groups[0]
    return found
