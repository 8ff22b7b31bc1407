"""`GroupCoordinator`: consumer groups as the handlers ask for them (groups.md 2 to 14). Offsets are in `offsets/`.

One method per API. Each finds the shard of the group, lets the pure parts (`decide`, `checks`, `expiry`) decide, has
the decision carried out, and answers. Nothing is awaited between a check and the change that it permits. Methods await
durability, and the transaction coordinator, after which they check again.

    request -> Shards -> Shard -+-> EffectRunner   groups, timers, waiting requests
                                +-> Commits       offsets, committed and pending
                                +-> LogWriter     the one log under both
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from eosin.coordinator.groups import departures
from eosin.coordinator.groups.consumer import classic_requests
from eosin.coordinator.groups.consumer.ports import ClusterTopics, MayDescribe, may_describe_all
from eosin.coordinator.groups.consumer.rules import validation
from eosin.coordinator.groups.consumer.rules.events import (
    ClassicHeartbeat,
    ConsumerHeartbeat,
    HeartbeatResult,
    Upgrade,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.groups.offset_requests import OffsetRequests
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules import checks
from eosin.coordinator.groups.rules.config import ConsumerConfigOf, GroupConfig, StreamsConfigOf
from eosin.coordinator.groups.rules.effects import JoinResult, LeaveResult, SyncResult
from eosin.coordinator.groups.rules.events import Join, Leave, LeavingMember, Rebalance, Sync
from eosin.coordinator.groups.rules.group import Group, GroupState, Protocols, protocol_bytes
from eosin.coordinator.groups.rules.listing import CLASSIC, CONSUMER, SHARE, STREAMS, GroupListing
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.groups.rules.write_errors import of_group_record, of_offsets
from eosin.coordinator.groups.shard import NO_TOPICS, Shard
from eosin.coordinator.groups.shards import Shards
from eosin.coordinator.groups.share.ports import NO_SHARE_STATES, ShareSurroundings
from eosin.coordinator.groups.share_requests import ShareRequests
from eosin.coordinator.groups.streams_requests import StreamsRequests
from eosin.coordinator.ports import CoordinatorLogs
from eosin.coordinator.transactions.ports import TransactionVerifier
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, uuid_text
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.turns import next_turn
from eosin.storage.results.log_results import Marker

_LOG: Final = logging.getLogger("eosin.coordinator.groups")

NO_REQUEST: Final = 0
"""Of an event before anybody waits for its answer."""


class GroupCoordinator:
    """The groups and offsets of every partition of `__consumer_offsets` that this broker leads."""

    def __init__(
        self,
        *,
        logs: CoordinatorLogs,
        verifier: TransactionVerifier,
        clock: Clock,
        chance: Chance,
        config: GroupConfig,
        observer: GroupObserver | None = None,
        confirms_responses: bool = False,
        session_clock: Clock | None = None,
        wire_clock: Clock | None = None,
        topics: ClusterTopics = NO_TOPICS,
        consumer_config_of: ConsumerConfigOf | None = None,
        share: ShareSurroundings = NO_SHARE_STATES,
        streams_config_of: StreamsConfigOf | None = None,
    ) -> None:
        """`observer` is told of every decision (console.md 2.2). `confirms_responses`: others may coordinate the same
        groups, so nobody is told stable offsets before the log has shown that they are the latest (cluster.md
        6.10). Members are waited for on `session_clock`, and requests wait on `wire_clock`; by default both are
        `clock`. Consumer groups subscribe to `topics`; the settings of each are those that
        `consumer_config_of` tells, by default those of `config`. Share groups have theirs by `share`, streams
        groups by `streams_config_of`."""
        self._clock = clock
        self._wire_clock = wire_clock or clock
        self._chance = chance
        self._config = config
        self._shards = Shards(
            logs,
            clock=clock,
            session_clock=session_clock or clock,
            config=config,
            observer=observer,
            confirms=confirms_responses,
            topics=topics,
            consumer_config_of=consumer_config_of,
            share=share,
            streams_config_of=streams_config_of,
        )
        self._expiry: Timer | None = None
        self._loads: dict[asyncio.Task[None], None] = {}
        """The loads under way, which nobody waits for."""
        self.offsets = OffsetRequests(
            shards=self._shards, verifier=verifier, clock=wire_clock or clock, config=config, observer=observer
        )
        self.streams = StreamsRequests(shards=self._shards, config=config, config_of=streams_config_of)
        self.share = ShareRequests(shards=self._shards, surroundings=share, clock=wire_clock or clock, config=config)

    @property
    def stats(self) -> GroupStats:
        """Counts of what the groups of this broker have done."""
        return self._shards.stats

    # Life

    async def load(self) -> None:
        """Read the log of every partition. Requests may come in meanwhile: they are told to wait."""
        self._schedule_expiry()
        await self._shards.load()

    def elect(self, partition: int, topics: Callable[[], Iterable[str]]) -> None:
        """Become the coordinator of a partition at its present leader epoch: what was known of an older one is dropped
        now, and the log is read in the background (cluster.md 6.3). Offsets of topics that are not among `topics` when
        it has been read are deleted."""
        shard = self._shards.elect(partition)
        if shard is not None:
            task = asyncio.get_running_loop().create_task(self._load(shard, topics))
            self._loads[task] = None
            task.add_done_callback(self._loads.pop)

    async def _load(self, shard: Shard, topics: Callable[[], Iterable[str]]) -> None:
        begun_ms = self._clock.elapsed_ms()
        await next_turn()  # this broker may have been elected for many
        await shard.load()
        if shard.is_active:
            took_ms = self._clock.elapsed_ms() - begun_ms
            _LOG.info(
                "__consumer_offsets-%d is loaded: %d groups in %d ms", shard.partition, len(shard.groups), took_ms
            )
        shard.keep_topics(topics())

    def resign(self, partition: int) -> None:
        """Stop being the coordinator of a partition: forget it, and answer its requests with NOT_COORDINATOR."""
        self._shards.resign(partition)

    async def stop(self) -> None:
        """Answer waiting requests with NOT_COORDINATOR, and stop every timer."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._shards.close()
        loads = list(self._loads)
        for task in loads:
            task.cancel()
        await asyncio.gather(*loads, return_exceptions=True)

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that coordinates a group."""
        return self._shards.partition_for(group_id)

    def topic_deleted(self, topic: str) -> None:
        """Delete the topic's offsets in all groups, committed and pending, in the background."""
        for shard in self._shards:
            shard.forget_topics((topic,))

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Delete the offsets of all other topics: to be called after `load`, because a crash may have come between the
        deletion of a topic and the tombstones of its offsets."""
        known = frozenset(topics)
        for shard in self._shards:
            shard.keep_topics(known)

    async def write_markers(self, partition: int, marker: Marker) -> ErrorCode:
        """Write a transaction's marker into a partition of `__consumer_offsets`.

        Done when the marker is durable and the transaction's offsets are visible, or forgotten: only then may the next
        transaction of the producer begin (transactions.md 5.4). NOT_LEADER_OR_FOLLOWER asks for another try.
        """
        shard = self._shards.of_partition(partition)
        if isinstance(shard, ErrorCode):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        write = PendingWrite()
        shard.commits.complete(marker, write)
        return await write.wait()

    # Membership

    async def join(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        protocol_type: str,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        client_id: str,
        client_host: str,
        api_version: int,
    ) -> JoinResult:
        """JoinGroup: enter a group, or stay in it when it rebalances. Waits until the join phase ends."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return JoinResult(shard, member_id)
        refusal = self._refuse_join(shard, group_id, member_id, session_timeout_ms, protocols)
        if refusal is not ErrorCode.NONE:
            return JoinResult(refusal, member_id)
        event = Join(
            request_id=NO_REQUEST,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=protocols,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            client_id=client_id,
            client_host=client_host,
            fresh_member_id="" if member_id else self._new_member_id(instance_id or client_id),
            needs_known_id=api_version >= 4,
            can_skip_assignment=api_version >= 9,
        )
        group = shard.consumer.current(group_id)
        if group is not None and group.members:
            joined = await classic_requests.join(shard.consumer, group_id, event)
            classic = shard.groups.get(group_id)
            if joined.error is not ErrorCode.NONE or classic is None or _is_in(classic, joined):
                return joined
            # The group has become a classic one, with this member, and rebalances.
            event = replace(event, member_id=joined.member_id)
        elif group is not None or group_id in shard.streams:
            refusal = self._make_classic(shard, group_id)
        elif group_id not in shard.groups:
            shard.create_group(group_id)
        if refusal is not ErrorCode.NONE:
            return JoinResult(refusal, member_id)
        request_id, answer = shard.runner.new_request(group_id)
        shard.runner.happen(group_id, replace(event, request_id=request_id))
        result = await answer
        assert isinstance(result, JoinResult)
        return result

    def _make_classic(self, shard: Shard, group_id: str) -> ErrorCode:
        """Make a classic group of a consumer or streams group that has no members (consumer-groups.md 1)."""
        if shard.consumer.is_going(group_id) or shard.streams.is_going(group_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return of_group_record(shard.become_classic(group_id))

    def _refuse_join(
        self, shard: Shard, group_id: str, member_id: str, session_timeout_ms: int, protocols: Protocols
    ) -> ErrorCode:
        config = self._config
        if not config.group_min_session_timeout_ms <= session_timeout_ms <= config.group_max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if protocol_bytes(protocols) > config.eosin_group_member_metadata_max_bytes:
            return ErrorCode.INVALID_REQUEST
        streams = shard.streams.current(group_id)
        if group_id in shard.share or (streams is not None and streams.members):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group_id in shard.groups or group_id in shard.consumer or streams is not None:
            return ErrorCode.NONE
        if member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self._shards.group_count >= config.eosin_group_max_groups:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(bytes=self._chance.uuid())}"

    async def sync(
        self,
        group_id: str,
        *,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: tuple[tuple[str, bytes], ...],
        api_version: int,
    ) -> SyncResult:
        """SyncGroup: fetch one's assignment; the leader brings everybody's. Waits for the leader."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            # SyncGroup has no error for loading that clients know. At a rebalance they join, and JoinGroup has one.
            loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if loading else shard)
        if api_version >= 5 and (protocol_type is None or protocol_name is None):
            return SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        event = Sync(
            request_id=NO_REQUEST,
            member_id=member_id,
            instance_id=instance_id,
            generation_id=generation_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments,
        )
        if group_id in shard.consumer:
            return await classic_requests.sync(shard.consumer, group_id, event)
        if group_id not in shard.groups:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        request_id, answer = shard.runner.new_request(group_id)
        shard.runner.happen(group_id, replace(event, request_id=request_id))
        result = await answer
        assert isinstance(result, SyncResult)
        return result

    def heartbeat(
        self, group_id: str, *, generation_id: int, member_id: str, instance_id: str | None = None
    ) -> ErrorCode:
        """Heartbeat: the member is alive; the answer tells it of a rebalance."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            # A member is not to lose its place because its coordinator has just started.
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        if group_id in shard.consumer:
            request = ClassicHeartbeat(member_id, generation_id, instance_id)
            return classic_requests.heartbeat(shard.consumer, group_id, request)
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = checks.heartbeat(group, member_id=member_id, instance_id=instance_id, generation_id=generation_id)
        if error in checks.ALIVE:
            shard.runner.restart_session(group, member_id)
        return error

    def leave(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        """LeaveGroup of a classic group: members go, or an administrator removes static ones."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return LeaveResult(shard)
        if group_id not in shard.groups:
            return LeaveResult(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(members))
        request_id, answer = shard.runner.new_request(group_id)
        shard.runner.happen(group_id, Leave(request_id, tuple(members)))
        result = answer.result()  # leaving never waits
        assert isinstance(result, LeaveResult)
        return result

    # Consumer groups (KIP-848)

    async def consumer_heartbeat(
        self,
        group_id: str,
        request: ConsumerHeartbeat,
        *,
        makes_member_id: bool = True,
        may_describe: MayDescribe = may_describe_all,
    ) -> HeartbeatResult:
        """ConsumerGroupHeartbeat: join a consumer group, stay, leave. `makes_member_id`: clients of the request's
        version make their own ids; `may_describe` is the right of the member's client. Waits until what is answered is
        durable."""
        config = self._config.consumer
        refused = validation.refusal(group_id, request, config=config, makes_member_id=makes_member_id)
        if refused is not None:
            return refused
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return HeartbeatResult(shard)
        if not request.member_id:
            request = replace(request, member_id=uuid_text(self._chance.uuid()))
        refused = self._refuse_heartbeat(shard, group_id, request) or shard.consumer.regex_refusal(group_id, request)
        if refused is not None:
            return refused
        classic = shard.groups.get(group_id)
        event = Upgrade(classic, request) if classic is not None and classic.members else request
        happened = shard.consumer.happen(group_id, event, replaced=classic)
        if classic is not None and group_id in shard.consumer:
            shard.conversions.leave(group_id)
        shard.consumer.search_topics(group_id, may_describe)
        error = happened.written.error if happened.written.is_done else await happened.written.wait()
        assert isinstance(happened.answer, HeartbeatResult)
        return happened.answer if error is ErrorCode.NONE else HeartbeatResult(error)

    def _refuse_heartbeat(self, shard: Shard, group_id: str, request: ConsumerHeartbeat) -> HeartbeatResult | None:
        """The answer where there is no consumer group, and none comes into being."""
        if group_id in shard.consumer:
            going = shard.consumer.is_going(group_id)
            return HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE) if going else None
        if group_id in shard.share:
            text = f"Group {group_id} is not a consumer group: it is a share group."
            return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if group_id in shard.streams:
            text = f"Group {group_id} is not a consumer group: it is a streams group."
            return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, text)
        classic = shard.groups.get(group_id)
        if classic is None:
            if request.member_epoch > 0:
                # To a member 69 is fatal, and with 25 it joins again; it did so if its group was deleted as well.
                text = f"Group {group_id} not found: member {request.member_id} is to join again."
                return HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID, text)
            if request.member_epoch < 0:
                return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            if self._shards.group_count >= self._config.eosin_group_max_groups:
                return HeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "The broker has as many groups as it may.")
            return None
        if classic.state is GroupState.DEAD:
            return HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if shard.consumer.becomes_classic(group_id):
            return HeartbeatResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if request.member_epoch == 0:
            return None
        text = f"Group {group_id} is not a consumer group: its members use group.protocol=classic."
        return HeartbeatResult(ErrorCode.GROUP_ID_NOT_FOUND, text)

    async def remove_members(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        """LeaveGroup of a group of any kind; waits until it is durable that members of a consumer group are gone. Very
        many go in parts, of a consumer group each with an epoch of its own."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return LeaveResult(shard)
        if group_id in shard.consumer:
            return await departures.of_consumer_group(shard, group_id, members)
        return await departures.of_classic_group(shard, group_id, members, partial(self.leave, group_id))

    def describe_consumer(self, group_id: str) -> ConsumerGroup | ErrorCode:
        """ConsumerGroupDescribe: the group as it is durable; GROUP_ID_NOT_FOUND when there is none of this kind."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.consumer.durable(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def consumer_groups_with_members(self, most: int) -> list[str]:
        """The names of consumer groups that have members, so many at most."""
        ids = ((shard, group_id) for shard in self._shards for group_id in shard.consumer.ids())
        held = (name for shard, name in ids if (group := shard.consumer.current(name)) is not None and group.members)
        return list(islice(held, most))

    # Administration

    def rebalance(self, group_id: str) -> ErrorCode:
        """Begin a rebalance that no member has asked for: GROUP_ID_NOT_FOUND when there is no such group."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if group_id not in shard.groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        shard.runner.happen(group_id, Rebalance())
        return ErrorCode.NONE

    def end_session(self, group_id: str, member_id: str) -> ErrorCode:
        """End a member's session at once, as if it had been silent: UNKNOWN_MEMBER_ID where none runs."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return ErrorCode.NONE if shard.end_session(group_id, member_id) else ErrorCode.UNKNOWN_MEMBER_ID

    def describe(self, group_id: str) -> Group | ErrorCode:
        """DescribeGroups: the classic group as it is; GROUP_ID_NOT_FOUND when there is none."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.groups.get(group_id, ErrorCode.GROUP_ID_NOT_FOUND)

    def holds_group(self, group_id: str) -> bool:
        """True if this broker coordinates a group of that name, of any kind."""
        shard = self._shards.of_group(group_id)
        return not isinstance(shard, ErrorCode) and shard.holds_group(group_id)

    def pending_offsets(self, group_id: str) -> Mapping[TopicPartition, int]:
        """The offsets of a group that open transactions hold; none while its log is being loaded, or is not here."""
        shard = self._shards.of_group(group_id)
        return {} if isinstance(shard, ErrorCode) else shard.commits.offsets.pending_offsets(group_id)

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member was heard of, in ms; None while it waits in a join, or where there is none."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return None
        return shard.silent_ms(group_id, member_id)

    @property
    def group_count(self) -> int:
        """Number of groups in all, dead ones included."""
        return self._shards.group_count

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> tuple[ErrorCode, Iterator[GroupListing | None]]:
        """ListGroups: every group, or those in one of `states` and of one of `types` (neither is case-sensitive). While
        partitions are being loaded the list is what is known so far, with COORDINATOR_LOAD_IN_PROGRESS. There may be a
        million: each is as it is when it is taken, and one that is left out is None."""
        wanted, kinds = {state.lower() for state in states}, {each.lower() for each in types}
        listed: Iterator[GroupListing | None] = iter(())
        if not types or CLASSIC in kinds:
            listed = self._listed(wanted)
        if not types or CONSUMER in kinds:
            listed = chain(listed, self._listed_consumer_groups(wanted))
        if not types or SHARE in kinds:
            listed = chain(listed, self.share.listed(wanted))
        if not types or STREAMS in kinds:
            listed = chain(listed, self.streams.listed(wanted))
        return self._shards.refusal, listed

    def _listed(self, states: Collection[str]) -> Iterator[GroupListing | None]:
        for groups in [tuple(shard.groups.values()) for shard in self._shards]:
            for group in groups:
                state = group.state
                is_wanted = state is not GroupState.DEAD and (not states or state.value.lower() in states)
                yield GroupListing(group.group_id, group.protocol_type or "", state.value) if is_wanted else None

    def _listed_consumer_groups(self, states: Collection[str]) -> Iterator[GroupListing | None]:
        for shard in self._shards:
            for group_id in shard.consumer.ids():
                group = shard.consumer.durable(group_id)
                is_wanted = group is not None and (not states or group.state.value.lower() in states)
                yield GroupListing(group_id, CONSUMER, group.state.value, CONSUMER) if group and is_wanted else None

    def live_consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Every consumer group (KIP-848) as it is durable when it is taken: there may be very many, and others may run
        in between."""
        found = (shard.consumer.durable(group_id) for shard in self._shards for group_id in shard.consumer.ids())
        return (group for group in found if group is not None)

    def live_groups(self) -> Iterator[Group]:
        """Every classic group that is not dead; others may run in between."""
        found = (group for shard in self._shards for group in tuple(shard.groups.values()))
        return (group for group in found if group.state is not GroupState.DEAD)

    def committed_offsets(self) -> Iterator[tuple[str, Mapping[TopicPartition, CommittedOffset]]]:
        """Each group with what it has committed, of the groups that there are now; others may run in between."""
        for shard in list(self._shards):
            offsets = shard.commits.offsets
            for group_id in offsets.group_ids():
                yield group_id, offsets.committed(group_id)

    def last_commit_ms(self, group_id: str) -> int:
        """The time of the last commit of any offset of a group, as its client or this broker gave it; -1 if it has
        none."""
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return -1
        committed = shard.commits.offsets.committed(group_id)
        return max((each.commit_timestamp_ms for each in committed.values()), default=-1)

    async def delete_groups(self, group_ids: Sequence[str]) -> list[ErrorCode]:
        """DeleteGroups: delete empty groups with all their offsets; one answer per group, when it is durable."""
        writes = [self._start_delete(group_id) for group_id in group_ids]
        timeout_ms = self._config.offsets_commit_timeout_ms
        return [of_offsets(await each.wait_at_most(timeout_ms, self._wire_clock)) for each in writes]

    def _start_delete(self, group_id: str) -> PendingWrite:
        write = PendingWrite()
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            write(shard, -1)
        else:
            shard.delete_group(group_id, write)
        return write

    # Expiry

    def _schedule_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiry = self._clock.call_later(interval_ms, self._expire, periodic=True)

    def _expire(self) -> None:
        self._expire_some(chain.from_iterable(shard.expire() for shard in self._shards))

    def _expire_some(self, steps: "Iterator[asyncio.Future[Any] | None]") -> None:
        """One step per turn of the loop, so that many groups and offsets do not hold up everybody else."""
        if self._expiry is None:
            return  # it was stopped
        for waited in steps:
            if waited is None:
                self._expiry = self._clock.call_later(0, partial(self._expire_some, steps))
            else:
                waited.add_done_callback(lambda _: self._expire_some(steps))
            return
        self._schedule_expiry()


def _is_in(group: Group, joined: JoinResult) -> bool:
    """True if the group is in the generation that its member was told."""
    return group.state is GroupState.STABLE and group.generation_id == joined.generation_id
