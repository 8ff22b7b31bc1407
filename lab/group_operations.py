"""`GroupOperations`: groups of all four kinds as a test asks about them, and takes members out of them.

Always true: what is asked is the same for each kind, and what a kind does not have is refused in a sentence.
"""

from typing import TYPE_CHECKING, Any, Final

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import check
from eosin.client.groups import CLASSIC, SHARE, STREAMS, GroupAdmin, GroupDescription
from eosin.client.partition_offsets import OffsetAdmin
from eosin.client.pending_offsets import pending_offsets
from eosin.client.share_groups import share_positions
from eosin.lab.common.errors import LabError, unknown
from eosin.lab.common.values import LabMember, PartitionName
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from eosin.runtime.clock import SystemClock

if TYPE_CHECKING:
    from eosin.lab.inside import Inside

_LEAVES: Final = -1
"""The member epoch of a heartbeat that says goodbye."""
_GOODBYES: Final = {
    SHARE: (ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest),
    STREAMS: (ApiKey.STREAMS_GROUP_HEARTBEAT, StreamsGroupHeartbeatRequest),
}
"""Of kinds that LeaveGroup knows nothing of."""
_WRITTEN_MS: Final = 2000
"""Longest wait until it is durable that a member is gone: a test may keep it from that."""


class GroupOperations:
    """The part of `Operations` that has to do with groups."""

    _client: Client

    def _inside_for(self, what: str) -> "Inside":
        """The broker itself. Raises NotToldError where it is not one of the lab."""
        raise NotImplementedError

    async def _markers_written(self) -> None:
        """Wait for the markers of transactions whose outcome is decided."""
        raise NotImplementedError

    async def _partitions(self, name: str, partition: int | None = None) -> list[TopicPartition]:
        """The partitions of a topic, or this one. Raises UnknownError."""
        raise NotImplementedError

    async def group_state(self, group_id: str) -> str:
        """The state of a group as Kafka spells it; `Dead` for one that is not there."""
        return (await GroupAdmin(self._client).describe(group_id)).state

    async def members(self, group_id: str) -> list[LabMember]:
        """The members of a group."""
        return _members_of(await GroupAdmin(self._client).describe(group_id))

    async def generation(self, group_id: str) -> int | None:
        """The generation of a classic group, or the epoch of another one; None for one that is not there."""
        epoch = (await GroupAdmin(self._client).describe(group_id)).epoch
        return self._inside_for("the generation of a group").generation(group_id) if epoch is None else epoch

    # Offsets

    async def committed_offset(self, group_id: str, topic: str, partition: int) -> int | None:
        """The offset that the group has committed; None for nothing."""
        await self._markers_written()
        (place,) = await self._partitions(topic, partition)
        if (await GroupAdmin(self._client).describe(group_id)).type == SHARE:
            found = (await share_positions(self._client, group_id)).get(place)
            return None if found is None or found.start_offset < 0 else found.start_offset
        return (await GroupAdmin(self._client).offsets(group_id)).get(place)

    async def pending_offset(self, group_id: str, topic: str, partition: int) -> int | None:
        """The offset that an open transaction holds for the group; None for nothing."""
        await self._markers_written()
        (place,) = await self._partitions(topic, partition)
        return self._inside_for("pending offsets").pending_offset(group_id, place)

    async def lag(self, group_id: str, topic: str | None) -> int:
        """The number of committed records that the group has not committed as read."""
        await self._markers_written()
        admin = GroupAdmin(self._client)
        group = await admin.describe(group_id)
        if group.type == SHARE:
            return await self._share_lag(group, topic)
        committed = await admin.offsets(group_id)
        places = set(committed) | await pending_offsets(self._client, group_id)
        places |= {one for member in group.members for one in member.partitions}
        return sum([await self._behind(each, committed.get(each, 0)) for each in await self._of(topic, places)])

    async def _share_lag(self, group: GroupDescription, topic: str | None) -> int:
        """The number of records that a share group is not done with."""
        positions = await share_positions(self._client, group.group_id)
        places = set(positions) | {one for member in group.members for one in member.partitions}
        lag = 0
        for each in await self._of(topic, places):
            found = positions.get(each)
            lag += await self._behind(each, 0) if found is None or found.lag < 0 else found.lag
        return lag

    async def _of(self, topic: str | None, places: set[TopicPartition]) -> list[TopicPartition]:
        """These partitions and all of the topic, if one is named and then of it alone."""
        if topic is not None:
            places = {*places, *await self._partitions(topic)}
        return sorted(place for place in places if topic in (None, place.topic))

    async def _behind(self, partition: TopicPartition, committed: int) -> int:
        """The number of committed records from an offset on."""
        offsets = OffsetAdmin(self._client)
        found = await offsets.of(partition)
        start = max(committed, found.log_start)
        between = await offsets.between(partition, start, found.last_stable)
        return max(0, found.last_stable - start) if between is None else between.records

    # Members that go

    async def kick(self, group_id: str, member_id: str | None) -> None:
        """Remove a member of a group, or all."""
        group = await GroupAdmin(self._client).describe(group_id)
        leaving = _named(group, member_id)
        doing = f"removing members of group {group_id}"
        if group.type in _GOODBYES:
            key, heartbeat = _GOODBYES[group.type]
            for each in leaving:
                said: Any = await self._client.call_coordinator(
                    CoordinatorType.GROUP, group_id, key, heartbeat(group_id, each, _LEAVES)
                )
                check(said.error_code, doing, said.error_message)
            return
        request = LeaveGroupRequest(group_id, members=tuple(MemberIdentity(each) for each in leaving))
        answer: LeaveGroupResponse = await self._client.call_coordinator(
            CoordinatorType.GROUP, group_id, ApiKey.LEAVE_GROUP, request
        )
        check(answer.error_code, doing)
        for one in answer.members:
            check(one.error_code, doing)

    async def expire_member(self, group_id: str, member_id: str | None) -> None:
        """End the session of a member of a group, or of all, as if it had been silent; done when it is durable."""
        inside = self._inside_for("and ends the session of a member")
        group = await GroupAdmin(self._client).describe(group_id)
        expiring = _named(group, member_id)
        for each in expiring:
            if inside.end_session(group_id, each) is ErrorCode.UNKNOWN_MEMBER_ID:
                raise LabError(f"{each} has no session now: it waits for the other members of group {group_id}")
        await self._are_gone(group_id, [each for each in _members_of(group) if each.member_id in expiring])

    async def _are_gone(self, group_id: str, members: list[LabMember]) -> None:
        """Wait until it is durable; one that has joined again since has another epoch."""
        clock = SystemClock()
        deadline = clock.elapsed_ms() + _WRITTEN_MS
        gone = {(each.member_id, each.epoch) for each in members}
        while clock.elapsed_ms() < deadline:
            if gone.isdisjoint((each.member_id, each.epoch) for each in await self.members(group_id)):
                return
            await clock.sleep(1)

    async def rebalance(self, group_id: str) -> None:
        """Have the members of a group join again."""
        group = await GroupAdmin(self._client).describe(group_id)
        _named(group, None)
        if group.type != CLASSIC:
            raise LabError(
                f"group {group_id} is a {group.type} group, whose members never join again together: kick or expire"
                " one, and the coordinator moves partitions"
            )
        check(self._inside_for("a group to rebalance").rebalance(group_id), f"a rebalance of group {group_id}")


def _members_of(group: GroupDescription) -> list[LabMember]:
    return [
        LabMember(
            each.member_id,
            each.client_id,
            each.host.lstrip("/"),
            each.instance_id,
            tuple(PartitionName(*one) for one in each.partitions),
            each.epoch,
        )
        for each in group.members
    ]


def _named(group: GroupDescription, member_id: str | None) -> list[str]:
    """The member of this id, or all. Raises LabError for nobody."""
    known = [each.member_id for each in group.members]
    if member_id is not None and member_id not in known:
        raise unknown(f"member of group {group.group_id}", member_id, known)
    if not known:
        raise LabError(f"group {group.group_id} has no members")
    return known if member_id is None else [member_id]
