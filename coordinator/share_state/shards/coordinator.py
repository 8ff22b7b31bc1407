"""`ShareCoordinator`: the states of share partitions in the partitions of `__share_group_state` that this broker leads
(KIP-932, share-state.md).

A partition is read when somebody first asks for a state in it, so a broker without share groups reads nothing. One
method per API. Each finds the shard, lets the pure rules decide, has the decision carried out, and answers once that is
durable.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.ports import CoordinatorLogs
from eosin.coordinator.share_state.partitions import state_partition
from eosin.coordinator.share_state.ports import Prune, ShareTopics
from eosin.coordinator.share_state.rules import decide
from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.rules.decide import Decision
from eosin.coordinator.share_state.rules.pruning import pruning_of
from eosin.coordinator.share_state.rules.records import StoredState
from eosin.coordinator.share_state.rules.write_errors import of_state
from eosin.coordinator.share_state.shards.shard import ShardPhase, ShareStateStats, StateShard
from eosin.coordinator.share_states import SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, Uuid
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.turns import TurnQueue

_LOG: Final = logging.getLogger("eosin.coordinator.share_state")

STEPS_PER_TURN: Final = 5

_Decide = Callable[[StateShard, StoredState | None], Decision]


class ShareCoordinator:
    """The shards by partition."""

    def __init__(
        self,
        *,
        logs: CoordinatorLogs,
        topics: ShareTopics,
        prune: Prune,
        clock: Clock,
        config: ShareStateConfig,
        wire_clock: Clock | None = None,
        confirms_reads: bool = False,
    ) -> None:
        """Requests wait on `wire_clock`, by default `clock`. `confirms_reads`: others may coordinate the same states,
        so each reader is told what a record shows to be the latest (cluster.md 6.10)."""
        self._logs = logs
        self._topics = topics
        self._prune = prune
        self._clock = clock
        self._wire_clock = wire_clock or clock
        self._config = config
        self._confirms_reads = confirms_reads
        self.stats = ShareStateStats()
        self._shards: dict[int, StateShard] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """Loads and prunings under way."""
        self._work = TurnQueue(clock, steps_per_turn=STEPS_PER_TURN)
        self._pruning: Timer | None = None
        self._running = True

    # Life

    def resign(self, partition: int) -> None:
        """Forget a partition: another broker leads it, or this one does so in a new leader epoch, and reads it anew."""
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.close()

    def close(self) -> None:
        """Answer whoever waits with NOT_COORDINATOR, and every request from now on with COORDINATOR_NOT_AVAILABLE."""
        self._running = False
        if self._pruning is not None:
            self._pruning.cancel()
        for partition in list(self._shards):
            self.resign(partition)

    async def stop(self) -> None:
        """Close, and wait until nothing goes on."""
        self.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def topic_deleted(self, topic_id: Uuid) -> None:
        """Delete the states of a topic's partitions, in the background. A partition that is not read yet does so when
        it is."""
        for shard in self._shards.values():
            self._work.add(shard.forget_topics(topic_id.__eq__))

    @property
    def states(self) -> int:
        """Number of states in the partitions that were read."""
        return sum(len(shard.states) for shard in self._shards.values())

    @property
    def unreadable(self) -> int:
        """Number of states in them that are not served, because a record of theirs cannot be read."""
        return sum(len(shard.broken) for shard in self._shards.values())

    def partition_for(self, partition: SharePartition) -> int:
        """The partition of `__share_group_state` that keeps a state."""
        return state_partition(partition, self._logs.partition_count)

    # Requests

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        """InitializeShareGroupState: begin a state anew."""
        now_ms = self._clock.now_ms()

        def begin(shard: StateShard, state: StoredState | None) -> Decision:
            return decide.initialize(
                state,
                state_epoch=state_epoch,
                start_offset=start_offset,
                leader_epoch=self._topics.leader_epoch(partition.topic_id, partition.partition),
                now_ms=now_ms,
                is_broken=partition in shard.broken,
            )

        found = await self._decide(partition, begin, repairs=True)
        return found if isinstance(found, ErrorCode) else ErrorCode.NONE

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        """ReadShareGroupState: the state for a leader, whose epoch is durable then."""
        confirms = self._confirms_reads
        found = await self._decide(
            partition, lambda _, state: decide.read(state, leader_epoch=leader_epoch, confirms=confirms)
        )
        if isinstance(found, ErrorCode):
            return found
        assert found is not None, "what does not exist cannot be read"
        return decide.state_of(found)

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        """WriteShareGroupState: merge batches into a state."""
        now_ms = self._clock.now_ms()

        def merge(_: StateShard, state: StoredState | None) -> Decision:
            return decide.write(
                state,
                batches,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                now_ms=now_ms,
                config=self._config,
            )

        found = await self._decide(partition, merge)
        return found if isinstance(found, ErrorCode) else ErrorCode.NONE

    async def delete(self, partition: SharePartition) -> ErrorCode:
        """DeleteShareGroupState: forget a state. The topic may be gone."""

        def forget(shard: StateShard, state: StoredState | None) -> Decision:
            return decide.delete(state, is_broken=partition in shard.broken)

        found = await self._decide(partition, forget, repairs=True, needs_topic=False)
        return found if isinstance(found, ErrorCode) else ErrorCode.NONE

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """ReadShareGroupStateSummary: a state without its batches."""
        found = await self._decide(partition, lambda *_: decide.NOTHING_TO_DO)
        return found if isinstance(found, ErrorCode) else decide.summary_of(found)

    async def _decide(
        self, partition: SharePartition, rule: _Decide, *, repairs: bool = False, needs_topic: bool = True
    ) -> StoredState | ErrorCode | None:
        """The state after a decision, once all of it is durable; or the error. A state that cannot be read is refused
        unless the decision `repairs` it."""
        if partition.topic_id == ZERO_UUID or partition.partition < 0:
            return ErrorCode.INVALID_REQUEST
        shard = self._shard_of(partition)
        if isinstance(shard, ErrorCode):
            return shard
        if partition in shard.broken and not repairs:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        decision = rule(shard, shard.states.get(partition))
        is_refused = decision.error is not ErrorCode.NONE
        if not is_refused and needs_topic and not self._topics.has_partition(partition.topic_id, partition.partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        written = PendingWrite()
        shard.carry_out(partition, decision, written)
        state = shard.states.get(partition)
        error = await written.wait_at_most(self._config.write_timeout_ms, self._wire_clock)
        return state if error is ErrorCode.NONE else of_state(error)

    # Shards

    def _shard_of(self, partition: SharePartition) -> StateShard | ErrorCode:
        """The shard that answers, or why none does. One that nobody has asked for yet begins to be read."""
        if not self._running:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        index = self.partition_for(partition)
        shard = self._shards.get(index)
        if shard is not None and shard.state is ShardPhase.FAILED:
            if self._clock.elapsed_ms() - shard.failed_ms < self._config.eosin_reload_ms:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.resign(index)
            shard = None
        found = self._open(index) if shard is None else shard
        return found if isinstance(found, ErrorCode) else found.refusal or found

    def _open(self, index: int) -> StateShard | ErrorCode:
        log = self._logs.log(index)
        if isinstance(log, ErrorCode):
            self._topics.want_state_topic()
            return log
        shard = self._shards[index] = StateShard(
            index, log, clock=self._clock, config=self._config, failed=self._shard_failed, stats=self.stats
        )
        if self._pruning is None:
            self._schedule_pruning()
        if log.log_end_offset == 0:
            shard.start_empty()
        else:
            self._begin(shard)
        return shard

    def _begin(self, shard: StateShard) -> None:
        task = asyncio.get_running_loop().create_task(self._load(shard))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, shard: StateShard) -> None:
        await shard.load()
        if shard.state is ShardPhase.ACTIVE:
            self._work.add(shard.forget_topics(lambda topic_id: not self._topics.has_partition(topic_id, 0)))

    def _shard_failed(self, shard: StateShard) -> None:
        if self._shards.get(shard.partition) is shard:
            self.resign(shard.partition)

    # Pruning

    def _schedule_pruning(self) -> None:
        interval_ms = self._config.state_topic_prune_interval_ms
        self._pruning = self._clock.call_later(interval_ms, self._prune_all, periodic=True)

    def _prune_all(self) -> None:
        active = [shard for shard in self._shards.values() if shard.state is ShardPhase.ACTIVE]
        self._work.add(chain.from_iterable(map(self._prune_one, active)))
        self._schedule_pruning()

    def _prune_one(self, shard: StateShard) -> Iterator[None]:
        """Delete what nobody needs, once what is needed instead is durable."""
        if shard.state is not ShardPhase.ACTIVE:
            return
        pruning = pruning_of(
            shard.states,
            shard.broken,
            log_end=shard.log.log_end_offset,
            now_ms=self._clock.now_ms(),
            cold_after_ms=self._config.cold_partition_snapshot_interval_ms,
        )
        yield
        shard.when_durable(partial(self._delete_before, shard, pruning.first_needed))
        yield from shard.refresh(pruning)

    def _delete_before(self, shard: StateShard, offset: int, error: ErrorCode, _: int) -> None:
        if error is ErrorCode.NONE and shard.state is ShardPhase.ACTIVE and offset > 0:
            task = asyncio.get_running_loop().create_task(self._delete(shard, offset))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _delete(self, shard: StateShard, offset: int) -> None:
        error = await self._prune(shard.partition, offset)
        if error is not ErrorCode.NONE:
            _LOG.warning("%s: records before %d are not deleted: %s", shard.name, offset, error.name)
