"""`Shard`: everything that one partition of `__consumer_offsets` coordinates.

A group and its offsets live and die together here: loading, deleting, expiring and unloading go through both parts.
"""

import logging
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from eosin.coordinator.groups.clearing import readable
from eosin.coordinator.groups.consumer.consumer_groups import ConsumerGroups, HeldConsumerGroup
from eosin.coordinator.groups.consumer.held_groups import DROPPED_PER_TURN, GroupSurroundings
from eosin.coordinator.groups.consumer.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.consumer.log.replay import Replayed, replayed_in_steps
from eosin.coordinator.groups.consumer.ports import ClusterTopics, NoTopics
from eosin.coordinator.groups.consumer.rules.expiry import expired_of_consumer_group
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState
from eosin.coordinator.groups.consumer.rules.records import all_records, end_records
from eosin.coordinator.groups.conversions import Conversions
from eosin.coordinator.groups.effect_runner import GroupEffectRunner
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.confirmations import OffsetConfirmations
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.log.writer import LogWriter, PendingWrite, Settled
from eosin.coordinator.groups.offset_commits import Commits, Key
from eosin.coordinator.groups.offset_deletions import OffsetDeletions
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules.config import ConsumerConfigOf, GroupConfig, StreamsConfigOf
from eosin.coordinator.groups.rules.events import BecameClassic, DeleteFailed, Deleting, Event, GroupLoaded
from eosin.coordinator.groups.rules.expiry import Subscribed, expired_offsets, may_vanish
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.groups.share.loading import SHARE_KIND_KEYS, LoadedShareGroups
from eosin.coordinator.groups.share.log.records import encoded as encoded_of_share_group
from eosin.coordinator.groups.share.ports import NO_SHARE_STATES, ShareSurroundings
from eosin.coordinator.groups.share.rules.records import all_records as all_of_share_group
from eosin.coordinator.groups.share.share_groups import ShareGroups
from eosin.coordinator.groups.share.state_work import StateWork
from eosin.coordinator.groups.streams.loading import STREAMS_KIND_KEYS, LoadedStreamsGroups
from eosin.coordinator.groups.streams.log.records import encoded as encoded_of_streams_group
from eosin.coordinator.groups.streams.rules.records import all_records as all_of_streams_group
from eosin.coordinator.groups.streams.rules.records import end_records as end_of_streams_group
from eosin.coordinator.groups.streams.streams_groups import StreamsGroups
from eosin.coordinator.groups.subscriptions import KnownSubscription, Subscriptions
from eosin.coordinator.letting_go import dropped
from eosin.coordinator.ports import CoordinatorLog
from eosin.coordinator.replay import until_committed
from eosin.coordinator.steps import InSteps
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import CorruptRecords, NewRecord
from eosin.protocol.types import DecodeError
from eosin.runtime.clock import Clock
from eosin.runtime.steady_time import SteadyTime
from eosin.runtime.turns import SharedTurns, TurnQueue, outcome_in_turns

_LOG: Final = logging.getLogger("eosin.coordinator.groups")


class ShardState(Enum):
    """A shard's state: only an active one can answer."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read; it stays so until a restart, because guessing would lose offsets."""
    CLOSED = "closed"


_REFUSALS: Final = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
    ShardState.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}


NO_TOPICS: Final = NoTopics()
BEGUN_PER_TURN: Final = 200
"""Classic groups whose sessions begin after a load, or that go with their partition, in one turn of the event loop:
each takes about 10 us."""

EXPIRED_AT_ONCE: Final = 200
"""Offsets, and groups, that one step of an expiry looks at and deletes: one takes 5 to 15 us."""
GONE_WEIGHT: Final = 10
"""A group that goes counts as so many: its tombstones are made."""

_Vanish = Callable[[str, Sequence[TopicPartition], Settled], None] | None


class _Loaded(NamedTuple):
    """The content of a shard's log, ready to be put in place at once."""

    consumer_groups: Replayed
    held: dict[str, HeldConsumerGroup]
    """The consumer groups that have kept their names."""
    first_events: dict[str, Event]
    """Of classic groups with members."""
    left_over: list[NewRecord]
    """Records that clear away what belongs to no group."""


class Shard:
    """One partition's groups and offsets."""

    def __init__(
        self,
        partition: int,
        log: CoordinatorLog,
        *,
        clock: Clock,
        config: GroupConfig,
        observer: GroupObserver | None = None,
        session_clock: Clock | None = None,
        topics: ClusterTopics = NO_TOPICS,
        consumer_config_of: ConsumerConfigOf | None = None,
        share: ShareSurroundings = NO_SHARE_STATES,
        streams_config_of: StreamsConfigOf | None = None,
        stats: GroupStats | None = None,
        turns: SharedTurns | None = None,
    ) -> None:
        """`observer` is told of every decision. Members are waited for on `session_clock`, by default `clock`. What is
        done in turns of the event loop shares them with other shards if they are `turns`. Consumer groups subscribe to
        `topics`, and have the settings of `consumer_config_of`; share groups have theirs and the states of their
        partitions by `share`, streams groups theirs by `streams_config_of`."""
        self.partition = partition
        self.state = ShardState.LOADING
        self.log = log
        self._clock = clock
        self._expiry_time = SteadyTime(clock, window_ms=config.offsets_retention_ms)
        self._config = config
        writer, session = LogWriter(log), session_clock or clock
        self._turns = turns = turns or SharedTurns(clock)
        self._writer = writer
        self._confirmations = OffsetConfirmations(writer=self._writer, clock=clock, config=config)
        self.commits = Commits(writer=self._writer, clock=clock, config=config, group_appears=self._group_appears)
        self.runner = GroupEffectRunner(
            writer=writer, clock=session, config=config, turns=turns, holds_offsets=self.commits.holds
        )
        self.runner.observer = self.commits.observer = observer
        self.conversions = Conversions(self.runner, is_active=lambda: self.state is ShardState.ACTIVE)
        around = GroupSurroundings(writer, clock, session, config, topics, turns)
        self.consumer = ConsumerGroups(around, classic=self.conversions, config_of=consumer_config_of)
        self.share = ShareGroups(around, config_of=share.config_of)
        self.streams = StreamsGroups(around, classic=self.conversions, config_of=streams_config_of)
        self.state_work = StateWork(self.share, share.states, clock=clock)
        self.stats = self.runner.stats = self.commits.stats = self.consumer.stats = stats or GroupStats()
        self.share.stats = self.streams.stats = self.stats
        self.consumer.observer = self.share.observer = self.streams.observer = observer
        self.deletions = OffsetDeletions(
            self.commits,
            clock=clock,
            config=config,
            turns=turns,
            is_active=lambda: self.state is ShardState.ACTIVE,
            settled=partial(_report, "delete the offsets of a deleted topic"),
        )
        self.commits.before_commit = self.deletions.before_commit
        self.commits.let_go = self._let_go
        self.subscriptions = Subscriptions()
        self._deleted_topics: dict[str, None] = {}
        self._loaded_topics: frozenset[str] = frozenset()
        """The topics that had offsets in the log, until it is known which of them there are."""

    @property
    def refusal(self) -> ErrorCode:
        """The reason why the shard cannot answer; NONE when it can."""
        return _REFUSALS[self.state]

    @property
    def groups(self) -> dict[str, Group]:
        """The classic groups by id."""
        return self.runner.groups

    @property
    def group_count(self) -> int:
        """Number of groups of all kinds."""
        return len(self.groups) + len(self.consumer) + len(self.share) + len(self.streams)

    def end_session(self, group_id: str, member_id: str) -> bool:
        """End the session of a member of a group of any kind; False where none runs."""
        for held in (self.consumer, self.share, self.streams):
            if group_id in held:
                return held.end_session(group_id, member_id)
        return self.runner.end_session(group_id, member_id)

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member of a group of any kind was heard; None where no session runs."""
        for held in (self.consumer, self.share, self.streams):
            if group_id in held:
                return held.silent_ms(group_id, member_id)
        return self.runner.silent_ms(group_id, member_id)

    # Life

    @property
    def is_active(self) -> bool:
        """True if its groups are served."""
        return self.state is ShardState.ACTIVE

    async def load(self) -> None:
        """Read the log, then start to answer."""
        loader = Loader(self.commits.offsets, KIND_KEYS | SHARE_KIND_KEYS | STREAMS_KIND_KEYS)
        share, streams = LoadedShareGroups(loader), LoadedStreamsGroups(loader)
        try:
            await until_committed(self.log, self._clock, name=f"__consumer_offsets-{self.partition}")
            loaded = await self._read(loader, share, streams)
        except (CorruptRecords, DecodeError, OSError):
            _LOG.exception("__consumer_offsets-%d could not be read: its groups are unavailable", self.partition)
            if self.state is ShardState.LOADING:
                self.state = ShardState.FAILED
            return
        read = (*loader.read, loaded.consumer_groups.groups, share.found, streams.found)
        if self.state is not ShardState.LOADING:  # closed meanwhile, so nobody was given anything
            unused = (loaded.held, share.held, streams.held, loader.groups, loaded.first_events)
            gone = dropped(chain(unused, read, self.commits.close()))
            self._in_turns(gone, steps_per_turn=DROPPED_PER_TURN)
            return
        self._loaded_topics = frozenset(loader.topics)
        self.runner.groups, self.runner.first_events = loader.groups, loaded.first_events
        self.state = ShardState.ACTIVE
        self.consumer.broken = frozenset(loaded.consumer_groups.broken)
        self.consumer.load(loaded.held)
        share.give(self.share)
        streams.give(self.streams)
        if loaded.left_over:
            self.consumer.write(readable(loaded.left_over, partial(self._records_of, loader)), PendingWrite())
        self._in_turns(self.runner.begin(), steps_per_turn=BEGUN_PER_TURN)
        self.deletions.resume(loader.doomed)
        if self._deleted_topics:
            self.forget_topics(self._deleted_topics)
        self._in_turns(dropped(read), steps_per_turn=DROPPED_PER_TURN)

    async def _read(self, loader: Loader, share: LoadedShareGroups, streams: LoadedStreamsGroups) -> "_Loaded":
        """Read the log, and put its groups together beside the shard, so that nobody sees some of them only. There may
        be very many, and of many members, so that is done in turns."""
        loaded: list[_Loaded] = []

        def put_together() -> InSteps[None]:
            for before in loaded:  # the log has grown since
                yield from dropped((before.held, before.first_events, before.consumer_groups.groups))
            loaded.clear()
            loaded.append((yield from self._put_together(loader, share, streams)))

        await loader.load(self.log, put_together, lambda steps: outcome_in_turns(steps, self._clock))
        return loaded[-1]

    def _put_together(
        self, loader: Loader, share: LoadedShareGroups, streams: LoadedStreamsGroups
    ) -> "InSteps[_Loaded]":
        records = yield from loader.records_of(KIND_KEYS)
        found = yield from replayed_in_steps(records, loader.group_times)
        yield from share.read()
        yield from streams.read()
        left_over = yield from streams.settle_names(found, share)
        left_over += yield from share.settle_names(found)
        left_over += yield from self._settle_names(loader, found)
        held: dict[str, HeldConsumerGroup] = {}
        for group_id, each in found.groups.items():
            if group_id not in loader.groups and group_id not in share and group_id not in streams:
                held[group_id] = HeldConsumerGroup(each, each)
            yield
        yield from share.hold()
        yield from streams.hold(self.streams.first_endpoint_epoch())
        first_events: dict[str, Event] = {}
        for group in loader.groups.values():
            if group.members:
                # One that a consumer group has become, and that has not begun a generation since, has members missing.
                ended = found.ended.get(group.group_id)
                is_new = ended is not None and loader.group_offsets.get(group.group_id) == ended + 1
                first_events[group.group_id] = BecameClassic(rebalances=True) if is_new else GroupLoaded()
            yield
        return _Loaded(found, held, first_events, left_over)

    def _settle_names(self, loader: Loader, consumer_groups: Replayed) -> InSteps[list[NewRecord]]:
        """Leave each name to one kind of group: the one whose record is the last (consumer-groups.md 12.3). Returns the
        records that clear away what belongs to no group."""
        clearing: list[NewRecord] = []
        for group_id, records in consumer_groups.left_over.items():
            clearing += encoded(group_id, records)
        for group_id, group in consumer_groups.groups.items():
            yield
            classic_offset = loader.group_offsets.get(group_id, -1)
            if classic_offset > consumer_groups.offsets[group_id]:
                _LOG.warning("the group %.256r was a consumer group before, whose records are deleted", group_id)
                clearing += encoded(group_id, end_records(group))
                continue
            if classic_offset >= 0:
                _LOG.warning("the group %.256r was a classic group before, whose record is deleted", group_id)
                clearing.append(group_records.group_tombstone(group_id))
            loader.groups.pop(group_id, None)
        return clearing

    def _records_of(self, loader: Loader, group_id: str) -> list[NewRecord]:
        """Everything that the log is to say of a group that was loaded; nothing of one that only holds offsets."""
        if (group := self.consumer.current(group_id)) is not None:
            return encoded(group_id, all_records(group))
        if (share := self.share.current(group_id)) is not None:
            return encoded_of_share_group(group_id, all_of_share_group(share))
        if (streams := self.streams.current(group_id)) is not None:
            return encoded_of_streams_group(group_id, all_of_streams_group(streams))
        is_stored = group_id in self.groups and group_id in loader.group_offsets
        return [group_records.group_record(self.groups[group_id])] if is_stored else []

    def holds_group(self, group_id: str) -> bool:
        """True if a group of any kind has the name."""
        return any(group_id in kind for kind in (self.groups, self.consumer, self.share, self.streams))

    def has_broken(self, group_id: str) -> bool:
        """True if records of the group cannot be read."""
        return any(group_id in kind.broken for kind in (self.consumer, self.share, self.streams))

    def start_empty(self) -> None:
        """Answer at once: the log is empty."""
        assert self.log.log_end_offset == 0
        self.state = ShardState.ACTIVE

    def after_writes(self, settled: Settled) -> None:
        """Settle when everything that was written so far has."""
        self._writer.after_writes(settled)

    def confirm(self, settled: Settled) -> None:
        """The same, and be certain that nobody else coordinates the partition."""
        self._confirmations.confirm(settled)

    def close(self) -> None:
        """Stop: waiting requests are answered with NOT_COORDINATOR."""
        was_active, self.state = self.is_active, ShardState.CLOSED
        self._confirmations.close(ErrorCode.NOT_COORDINATOR)
        self._in_turns(self.runner.close(), steps_per_turn=BEGUN_PER_TURN)
        self.subscriptions.close()
        self._writer.close(ErrorCode.NOT_COORDINATOR)
        self.consumer.close()
        self.state_work.close()
        self.share.close()
        self.streams.close()
        if was_active:  # else a loader still has them in its hands
            self._in_turns(dropped(self.commits.close()), steps_per_turn=DROPPED_PER_TURN)

    def _let_go(self, offsets: dict[Any, Any]) -> None:
        """Let go of the offsets of a group that is deleted."""
        if len(offsets) > DROPPED_PER_TURN:
            self._in_turns(dropped((offsets,)), steps_per_turn=DROPPED_PER_TURN)

    def _in_turns(self, work: Iterator[None], *, steps_per_turn: int) -> None:
        """Do work in the background, so many steps of it in a turn of the event loop at most."""
        TurnQueue(self._clock, steps_per_turn=steps_per_turn, turns=self._turns).add(work)

    # Groups

    def create_group(self, group_id: str) -> None:
        """Create a group without members."""
        self.groups[group_id] = Group(group_id, state_timestamp_ms=self._clock.now_ms())

    def become_classic(self, group_id: str) -> ErrorCode:
        """Put an empty classic group in the place of an empty consumer or streams group, whose offsets stay. Returns
        the log's error."""
        streams, consumer_group = self.streams.current(group_id), self.consumer.current(group_id)
        records: list[NewRecord] = []
        if streams is not None:
            records = encoded_of_streams_group(group_id, end_of_streams_group(streams))
        elif consumer_group is not None:
            records = encoded(group_id, end_records(consumer_group))
        written = PendingWrite()
        self.consumer.write(records, written)
        if written.error is not ErrorCode.NONE:
            return written.error  # the log still has the group, and so it stays
        if streams is not None:
            self.streams.forget(group_id)
        else:
            self.consumer.remove(group_id)
        self.create_group(group_id)
        return ErrorCode.NONE

    def _group_appears(self, group_id: str) -> None:
        """Offsets of a group have become durable: at the latest now it exists."""
        kinds = (self.groups, self.consumer, self.share, self.streams)
        if not any(group_id in kind for kind in kinds) and self.state is ShardState.ACTIVE:
            self.create_group(group_id)

    def delete_group(self, group_id: str, settled: Settled) -> None:
        """Delete an empty group with all its offsets, the pending ones of open transactions included."""
        group = self.groups.get(group_id)
        if group is None and (consumer_group := self.consumer.current(group_id)) is not None:
            self._delete_consumer_group(consumer_group, settled)
        elif group is None and group_id in self.share:
            self.state_work.delete_group(group_id, settled)
        elif group is None and group_id in self.streams:
            self._delete_streams_group(group_id, settled)
        elif group is None or group.state is GroupState.DEAD:
            settled(ErrorCode.GROUP_ID_NOT_FOUND, -1)
        elif group.state is not GroupState.EMPTY:
            settled(ErrorCode.NON_EMPTY_GROUP, -1)
        else:
            self._delete_with_offsets(group_id, list(self.commits.partitions(group_id)), settled)

    def _delete_with_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], settled: Settled | None = None
    ) -> None:
        def on_settled(error: ErrorCode, base_offset: int) -> None:
            if error is not ErrorCode.NONE:
                self.runner.happen(group_id, DeleteFailed())
            elif group_id in self.groups:
                del self.groups[group_id]
            if settled is not None:
                settled(error, base_offset)

        self.runner.happen(group_id, Deleting())
        self.deletions.delete_group(group_id, partitions, [group_records.group_tombstone(group_id)], on_settled)

    def _delete_consumer_group(self, group: ConsumerGroup, settled: Settled) -> None:
        group_id = group.group_id
        if self.consumer.is_going(group_id):
            settled(ErrorCode.GROUP_ID_NOT_FOUND, -1)
        elif group.state is not ConsumerGroupState.EMPTY:
            settled(ErrorCode.NON_EMPTY_GROUP, -1)
        else:
            self._end_consumer_group(group_id, list(self.commits.partitions(group_id)), settled)

    def _end_consumer_group(self, group_id: str, partitions: Sequence[TopicPartition], settled: Settled) -> None:
        def on_settled(error: ErrorCode, base_offset: int) -> None:
            self.consumer.end(group_id, error)
            settled(error, base_offset)

        tombstones = encoded(group_id, end_records(self.consumer.begin_end(group_id)))
        self.deletions.delete_group(group_id, partitions, tombstones, on_settled)

    def _delete_streams_group(self, group_id: str, settled: Settled) -> None:
        group = self.streams.durable(group_id)
        current = self.streams.current(group_id)
        if group is None or current is None:
            settled(ErrorCode.GROUP_ID_NOT_FOUND, -1)
        elif current.members:
            settled(ErrorCode.NON_EMPTY_GROUP, -1)
        else:
            self._end_streams_group(group_id, list(self.commits.partitions(group_id)), settled)

    def _end_streams_group(self, group_id: str, partitions: Sequence[TopicPartition], settled: Settled) -> None:
        def on_settled(error: ErrorCode, base_offset: int) -> None:
            self.streams.end(group_id, error)
            settled(error, base_offset)

        tombstones = encoded_of_streams_group(group_id, end_of_streams_group(self.streams.begin_end(group_id)))
        self.deletions.delete_group(group_id, partitions, tombstones, on_settled)

    def committed(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The committed offset of a partition; None where there is none, or where it was committed for a topic that had
        the name before (groups.md 9)."""
        value = self.commits.offsets.get(group_id, partition)
        if value is None or self.deletions.dooms(group_id, partition):
            return None
        topic = self.consumer.topics.get(partition.topic)
        return value if topic is None or value.may_be_of(topic.topic_id) else None

    # Offsets that go away by themselves

    def expire(self) -> "Iterator[Future[Any] | None]":
        """Delete offsets that have outlived their retention, and groups of which nothing is left: some in each step,
        for each of which one turn of the event loop has time. Anything may happen between two of them, and the next one
        waits for the future, if there is any."""
        left = EXPIRED_AT_ONCE
        for group_id in (*self.groups, *self.consumer.ids(), *self.streams.ids()):
            if self.commits.is_being_written(group_id) or self.has_broken(group_id):
                continue  # looked at again in the next pass; of one that cannot be read nobody knows who needs what
            partitions = list(self.commits.offsets.committed(group_id))
            for start in range(0, len(partitions) or 1, EXPIRED_AT_ONCE):
                if left <= 0:
                    yield None
                    left = EXPIRED_AT_ONCE
                some = partitions[start : start + EXPIRED_AT_ONCE]
                left -= len(some) + 1
                known = KnownSubscription()
                group = self.groups.get(group_id) if self.state is ShardState.ACTIVE else None
                if group is not None and known.lacks(group) and self._may_have_expired(group, some):
                    yield (read := self.subscriptions.read(group, some))
                    known.learn(group, read)
                if self.state is not ShardState.ACTIVE:
                    return
                if self._expire_some(group_id, some, known):
                    left -= GONE_WEIGHT
        if left < EXPIRED_AT_ONCE:
            yield None

    def _may_have_expired(self, group: Group, partitions: Sequence[TopicPartition]) -> bool:
        """True if offsets have expired, unless a member is subscribed to their topics."""
        return bool(self._expired_of(group, partitions, lambda _: frozenset()))

    def _expire_some(self, group_id: str, partitions: Sequence[TopicPartition], known: KnownSubscription) -> bool:
        """Delete those of a group's offsets that have expired, and the group with them if nothing of it would be
        left. True if it goes."""
        expired, vanish = self._expired(group_id, partitions, known)
        expired = [each for each in expired if not self.commits.is_being_written(group_id, each)]
        self.stats.expirations += len(expired)
        if vanish is not None and self.commits.holds_only(group_id, len(expired)):
            vanish(group_id, expired, partial(_report, "expire a group"))
            return True
        if expired:
            self.commits.delete([Key(group_id, each) for each in expired], partial(_report, "expire offsets"))
        return False

    def _expired(
        self, group_id: str, partitions: Sequence[TopicPartition], known: KnownSubscription
    ) -> tuple[list[TopicPartition], _Vanish]:
        """The partitions of a group whose offsets have expired, and the way to delete it; None while it may not
        vanish."""
        group = self.groups.get(group_id)
        if group is not None and group.state is not GroupState.DEAD:
            expired = self._expired_of(group, partitions, known.topics)
            return expired, self._delete_with_offsets if may_vanish(group) else None
        for kind, end in ((self.consumer, self._end_consumer_group), (self.streams, self._end_streams_group)):
            held = kind.current(group_id) if group is None and not kind.is_going(group_id) else None
            if isinstance(held, ConsumerGroup) and not held.knows_its_topics:
                return [], None
            if held is not None:
                expired = expired_of_consumer_group(
                    held,
                    self.commits.offsets,
                    partitions,
                    now_ms=self._expiry_time.now_ms(),
                    retention_ms=self._config.offsets_retention_ms,
                )
                return expired, None if held.members else end
        return [], None

    def _expired_of(
        self, group: Group, partitions: Sequence[TopicPartition], subscribed: Subscribed
    ) -> list[TopicPartition]:
        return expired_offsets(
            group,
            self.commits.offsets,
            partitions,
            subscribed,
            now_ms=self._expiry_time.now_ms(),
            retention_ms=self._config.offsets_retention_ms,
        )

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Delete every offset of some topics, in all groups: a topic that comes back under its name starts anew."""
        gone = frozenset(topics)
        if self.state is ShardState.ACTIVE:
            self.deletions.forget(gone)
            self.share.forget_topics(gone)
        elif self.state is ShardState.LOADING:
            self._deleted_topics.update(dict.fromkeys(gone))
            self.deletions.end_topics(gone)  # a crash may come before the load has ended

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Delete every offset that was loaded of other topics than these: nobody commits one for a topic that is not
        there."""
        if self.state is ShardState.ACTIVE:
            self.share.forget_topics()
            gone, self._loaded_topics = self._loaded_topics.difference(topics), frozenset()
            if gone:
                self.deletions.forget(gone)


def _report(what: str, error: ErrorCode, _: int) -> None:
    """Tell of a failure; the next coordinator does what this one is not to do any more."""
    if error not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        _LOG.warning("could not %s: %s", what, error.name)
