"""`StreamsRequests`: streams groups as the handlers ask for them (streams-groups.md). One method per API."""

from collections.abc import Collection, Iterator
from itertools import islice

from eosin.coordinator.groups.rules.config import GroupConfig, StreamsConfigOf, StreamsGroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.listing import STREAMS, GroupListing
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.shards import Shards
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsResult, TopologyDescribed
from eosin.coordinator.groups.streams.rules.group import JOIN_EPOCH, StreamsGroup
from eosin.protocol.errors import ErrorCode


class StreamsRequests:
    """The streams groups of every partition of `__consumer_offsets` that this broker leads."""

    def __init__(self, *, shards: Shards, config: GroupConfig, config_of: StreamsConfigOf | None) -> None:
        """`config_of` tells the settings of a group; None for those of `config`."""
        self._shards = shards
        self._config = config
        self._config_of: StreamsConfigOf = config_of or (lambda _: config.streams)

    async def heartbeat(self, group_id: str, request: StreamsHeartbeat) -> StreamsResult:
        """StreamsGroupHeartbeat: join a streams group, stay, leave. Waits until what is answered is durable."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return StreamsResult(shard)
        refused = self._refuse(shard, group_id, request)
        if refused is not None:
            return refused
        classic = shard.groups.get(group_id)
        happened = shard.streams.happen(group_id, request, replaced=classic)
        if classic is not None and group_id in shard.streams:
            shard.conversions.leave(group_id)
        error = happened.written.error if happened.written.is_done else await happened.written.wait()
        if error is not ErrorCode.NONE:
            return StreamsResult(error)
        assert happened.answer is not None
        return happened.answer

    def _refuse(self, shard: Shard, group_id: str, request: StreamsHeartbeat) -> StreamsResult | None:
        """The answer where there is no streams group, and none comes into being."""
        if group_id in shard.streams:
            going = shard.streams.is_going(group_id)
            return StreamsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE) if going else None
        for kind, groups in (("consumer", shard.consumer), ("share", shard.share)):
            if group_id in groups:
                return _not_one(group_id, f"it is a {kind} group.")
        classic = shard.groups.get(group_id)
        if classic is not None:
            return _refuse_classic(shard, classic, request)
        if request.member_epoch > JOIN_EPOCH:
            # To a member 69 is fatal, and with 25 it joins again; it did so if its group was deleted as well.
            text = f"Group {group_id} not found: member {request.member_id} is to join again."
            return StreamsResult(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if request.member_epoch < JOIN_EPOCH:
            return StreamsResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if self._shards.group_count >= self._config.eosin_group_max_groups:
            return StreamsResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "The broker has as many groups as it may.")
        return None

    async def describe_topology(self, group_id: str, event: TopologyDescribed) -> StreamsResult:
        """StreamsGroupTopologyDescriptionUpdate: a member tells for people what its group computes."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return StreamsResult(shard)
        if shard.streams.durable(group_id) is None:
            return StreamsResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        happened = shard.streams.happen(group_id, event)
        error = happened.written.error if happened.written.is_done else await happened.written.wait()
        if error is not ErrorCode.NONE:
            return StreamsResult(error)
        assert happened.answer is not None
        return happened.answer

    # Those who only read

    def describe(self, group_id: str) -> StreamsGroup | ErrorCode:
        """StreamsGroupDescribe: the group as it is durable; GROUP_ID_NOT_FOUND when there is none of this kind."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.streams.durable(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def live_groups(self) -> Iterator[StreamsGroup]:
        """Every streams group as it is durable when it is taken; others may run in between."""
        found = (shard.streams.durable(group_id) for shard in self._shards for group_id in shard.streams.ids())
        return (group for group in found if group is not None)

    def with_members(self, most: int) -> list[str]:
        """The names of streams groups that have members, so many at most."""
        ids = ((shard, group_id) for shard in self._shards for group_id in shard.streams.ids())
        held = (name for shard, name in ids if (group := shard.streams.current(name)) is not None and group.members)
        return list(islice(held, most))

    def listed(self, states: Collection[str]) -> "Iterator[GroupListing | None]":
        """ListGroups: every group, or those in one of `states`, in lower case; None for one that is left out."""
        for shard in self._shards:
            for group_id in shard.streams.ids():
                group = shard.streams.durable(group_id)
                is_wanted = group is not None and (not states or group.state.value.lower() in states)
                yield GroupListing(group_id, STREAMS, group.state.value, STREAMS) if group and is_wanted else None

    def config_of(self, group_id: str) -> StreamsGroupConfig:
        """The settings of a group as they are now; it need not exist."""
        return self._config_of(group_id)


def _refuse_classic(shard: Shard, classic: Group, request: StreamsHeartbeat) -> StreamsResult | None:
    """A classic group without members makes room for a streams group, and its offsets stay."""
    group_id = classic.group_id
    if classic.state is GroupState.DEAD:
        return StreamsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if shard.consumer.becomes_classic(group_id):
        return StreamsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if request.member_epoch == JOIN_EPOCH and classic.state is GroupState.EMPTY:
        return None
    return _not_one(group_id, "it is a classic group. Stop all of its members first.")


def _not_one(group_id: str, what: str) -> StreamsResult:
    return StreamsResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group: {what}")
