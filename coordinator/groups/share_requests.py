"""`ShareRequests`: share groups as the handlers ask for them (share-groups.md).

One method per API. A heartbeat waits until what it answers is durable, and a little longer for partitions that get
their state by it: so a group of one broker has its first assignment in its first answer, and not in its second
heartbeat, as in Apache Kafka.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.rules.config import GroupConfig, ShareConfigOf, ShareGroupConfig
from eosin.coordinator.groups.rules.group import GroupState
from eosin.coordinator.groups.rules.listing import SHARE, GroupListing
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.shards import Shards
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules import validation
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import JOIN_EPOCH, LEAVE_EPOCH, ShareGroup
from eosin.coordinator.groups.share.state_work import Errors
from eosin.coordinator.share_states import SharePartition, ShareStateSummary
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, Uuid
from eosin.runtime.clock import Clock

MOST_WAITED_MS: Final = 1_000
"""A heartbeat waits so long for states at most: what comes later, its member hears with its next one."""


class ShareRequests:
    """The share groups of every partition of `__consumer_offsets` that this broker leads."""

    def __init__(self, *, shards: Shards, surroundings: ShareSurroundings, clock: Clock, config: GroupConfig) -> None:
        """Requests wait on `clock`."""
        self._shards = shards
        self._states = surroundings.states
        self._config_of: ShareConfigOf = surroundings.config_of or (lambda _: config.share)
        self._clock = clock
        self._config = config

    async def heartbeat(self, group_id: str, request: ShareHeartbeat) -> HeartbeatResult:
        """ShareGroupHeartbeat: join a share group, stay, leave. Waits until what is answered is durable."""
        refused = validation.refusal(group_id, request, config=self._config.share)
        if refused is not None:
            return refused
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return HeartbeatResult(shard)
        refused = self._refuse(shard, group_id, request)
        if refused is not None:
            return refused
        told = await self._decided(shard, group_id, request)
        if told.error is not ErrorCode.NONE or request.member_epoch == LEAVE_EPOCH:
            return told
        initialized = shard.state_work.begin(group_id)
        if initialized is None:
            return told
        await initialized.wait_at_most(MOST_WAITED_MS, self._clock)
        group = shard.share.current(group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is None or member.epoch != told.epoch or shard.share.is_going(group_id):
            return told
        again = await self._decided(shard, group_id, replace(request, member_epoch=told.epoch, topics=None))
        if again.error is not ErrorCode.NONE:
            return told
        return replace(again, assignment=told.assignment) if again.assignment is None else again

    async def _decided(self, shard: Shard, group_id: str, request: ShareHeartbeat) -> HeartbeatResult:
        happened = shard.share.happen(group_id, request)
        error = happened.written.error if happened.written.is_done else await happened.written.wait()
        if error is not ErrorCode.NONE:
            return HeartbeatResult(error)
        assert isinstance(happened.answer, HeartbeatResult)
        return happened.answer

    def _refuse(self, shard: Shard, group_id: str, request: ShareHeartbeat) -> HeartbeatResult | None:
        """The answer where there is no share group, and none comes into being."""
        if group_id in shard.share:
            going = shard.share.is_going(group_id)
            return HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE) if going else None
        if (other := _other_kind(shard, group_id)) is not None:
            return other
        if request.member_epoch > JOIN_EPOCH:
            # To a member 69 is fatal, and with 25 it joins again; it did so if its group was deleted as well.
            text = f"Group {group_id} not found: member {request.member_id} is to join again."
            return HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if request.member_epoch < JOIN_EPOCH:
            return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if self._shards.group_count >= self._config.eosin_group_max_groups:
            return HeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "The broker has as many groups as it may.")
        return None

    # Those who only read

    def describe(self, group_id: str) -> ShareGroup | ErrorCode:
        """ShareGroupDescribe: the group as it is durable; GROUP_ID_NOT_FOUND when there is none of this kind."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.share.durable(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def live_groups(self) -> Iterator[ShareGroup]:
        """Every share group as it is durable when it is taken; others may run in between."""
        found = (shard.share.durable(group_id) for shard in self._shards for group_id in shard.share.ids())
        return (group for group in found if group is not None)

    def with_members(self, most: int) -> list[str]:
        """The names of share groups that have members, so many at most."""
        ids = ((shard, group_id) for shard in self._shards for group_id in shard.share.ids())
        held = (name for shard, name in ids if (group := shard.share.current(name)) is not None and group.members)
        return list(islice(held, most))

    def listed(self, states: Collection[str]) -> "Iterator[GroupListing | None]":
        """ListGroups: every group, or those in one of `states`, in lower case; None for one that is left out."""
        for shard in self._shards:
            for group_id in shard.share.ids():
                group = shard.share.durable(group_id)
                is_wanted = group is not None and (not states or group.state.value.lower() in states)
                yield GroupListing(group_id, SHARE, group.state.value, SHARE) if group and is_wanted else None

    def config_of(self, group_id: str) -> ShareGroupConfig:
        """The settings of a group as they are now; it need not exist."""
        return self._config_of(group_id)

    # Offsets

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """DescribeShareGroupOffsets: where the group is in a partition. The group itself need not be there."""
        return await self._states.summary(partition)

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicIdPartition, int], names: Mapping[Uuid, str]
    ) -> Errors | ErrorCode:
        """AlterShareGroupOffsets: have a group without members begin at these offsets, of topics with these `names`. A
        group that is not there is created."""
        shard = self._shards.of_group(group_id) if group_id.strip() else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return shard
        if group_id not in shard.share:
            if _other_kind(shard, group_id) is not None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if not offsets:
                return {}  # that is no reason for a group
            if self._shards.group_count >= self._config.eosin_group_max_groups:
                return ErrorCode.GROUP_MAX_SIZE_REACHED
        return await shard.state_work.alter(group_id, offsets, names)

    async def delete_offsets(self, group_id: str, topics: frozenset[Uuid]) -> Mapping[Uuid, ErrorCode] | ErrorCode:
        """DeleteShareGroupOffsets: forget where a group without members is in these topics."""
        shard = self._shards.of_group(group_id) if group_id.strip() else ErrorCode.INVALID_GROUP_ID
        return shard if isinstance(shard, ErrorCode) else await shard.state_work.delete_states(group_id, topics)


def _other_kind(shard: Shard, group_id: str) -> HeartbeatResult | None:
    """The refusal of a name that a group of another kind has."""
    for kind, groups in (("consumer", shard.consumer), ("streams", shard.streams)):
        if group_id in groups:
            text = f"Group {group_id} is not a share group: it is a {kind} group."
            return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, text)
    classic = shard.groups.get(group_id)
    if classic is None and not shard.commits.holds(group_id):
        return None
    if classic is not None and classic.state is GroupState.DEAD:
        return HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    text = f"Group {group_id} is not a share group: it is a classic group, or has committed offsets. Delete it first."
    return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, text)
