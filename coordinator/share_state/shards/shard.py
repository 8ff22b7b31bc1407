"""`StateShard`: one partition of `__share_group_state`, and the states that it keeps.

A decision counts for the next one at once, and its answer leaves when everything that it saw is durable: so does that
of a request which wrote nothing. Always true: records are in the log in the order of the decisions; what the log
refuses was never decided; when a sync fails, nobody is told anything of what it was to make durable, and the shard is
over: its partition is read anew.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

from eosin.coordinator.groups.log.writer import LogWriter, Settled
from eosin.coordinator.ports import CoordinatorLog
from eosin.coordinator.replay import until_committed
from eosin.coordinator.share_state.log.loader import StateLoader
from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.rules.decide import Decision, snapshot
from eosin.coordinator.share_state.rules.pruning import Pruning
from eosin.coordinator.share_state.rules.records import Change, StoredState, applied
from eosin.coordinator.share_states import SharePartition
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, Uuid
from eosin.protocol.records.batch import Compression, CorruptRecords, build_batch
from eosin.protocol.types import DecodeError
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import AppendOrigin, Refused

_LOG: Final = logging.getLogger("eosin.coordinator.share_state")

RECORDS_PER_STEP: Final = 100
"""Of states that go, or that get a snapshot because nothing else is written of them: a millisecond."""
MAX_BATCH_BYTES: Final = 256 * 1024
"""Snapshots beyond this go into another batch, so that `max.message.bytes` does not refuse them."""


class ShareStateStats:
    """Counts of what a share coordinator has done."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 0


class ShardPhase(Enum):
    """Only an active shard can answer."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read."""
    CLOSED = "closed"


_REFUSALS: Final = {
    ShardPhase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardPhase.ACTIVE: ErrorCode.NONE,
    ShardPhase.FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ShardPhase.CLOSED: ErrorCode.NOT_COORDINATOR,
}


class StateShard:
    """One partition's states."""

    def __init__(
        self,
        partition: int,
        log: CoordinatorLog,
        *,
        clock: Clock,
        config: ShareStateConfig,
        failed: Callable[["StateShard"], None],
        stats: ShareStateStats,
    ) -> None:
        """`failed` is called when the log has failed: the shard is closed then. `stats` counts what is written."""
        self.partition = partition
        self.name = f"{SHARE_GROUP_STATE_TOPIC}-{partition}"
        self.log = log
        self.state = ShardPhase.LOADING
        self.states: dict[SharePartition, StoredState] = {}
        self.broken: dict[SharePartition, int] = {}
        """Share partitions with a record that cannot be read, and the offset from which their records are kept."""
        self.failed_ms = 0
        """The time (`elapsed_ms`) at which the log could not be read."""
        self._clock = clock
        self._config = config
        self._compression = Compression(config.state_topic_compression_codec)
        self._failed = failed
        self._stats = stats
        self._writer = LogWriter(log)

    @property
    def refusal(self) -> ErrorCode:
        """The reason why the shard cannot answer; NONE when it can."""
        return _REFUSALS[self.state]

    # Life

    async def load(self) -> None:
        """Read the log, then start to answer."""
        begun_ms = self._clock.elapsed_ms()
        loader = StateLoader()
        try:
            await until_committed(self.log, self._clock, name=self.name)
            await loader.load(self.log, name=self.name)
        except (CorruptRecords, DecodeError, OSError):
            _LOG.exception("%s could not be read: the states in it are unavailable for now", self.name)
            self.failed_ms = self._clock.elapsed_ms()
            self._become(ShardPhase.FAILED)
            return
        if self.state is not ShardPhase.LOADING:
            return  # closed meanwhile
        self.states, self.broken = loader.states, loader.broken
        self._become(ShardPhase.ACTIVE)
        took_ms = self._clock.elapsed_ms() - begun_ms
        _LOG.info("%s is loaded: states of %d share partitions in %d ms", self.name, len(self.states), took_ms)

    def start_empty(self) -> None:
        """Answer at once: the log is empty."""
        assert self.log.log_end_offset == 0
        self.state = ShardPhase.ACTIVE

    def close(self) -> None:
        """Stop: whoever waits is answered with NOT_COORDINATOR."""
        self.state = ShardPhase.CLOSED
        self._writer.close(ErrorCode.NOT_COORDINATOR)

    def _become(self, state: ShardPhase) -> None:
        if self.state is ShardPhase.LOADING:
            self.state = state

    # Requests

    def carry_out(self, partition: SharePartition, decision: Decision, settled: Settled) -> None:
        """Write the records of a decision, and settle when all that it saw is durable: with the error of the decision,
        or of the log."""
        if decision.records:
            error = self._write([(partition, each) for each in decision.records])
            if error is not ErrorCode.NONE:
                settled(error, -1)
                return
        self._settle_later(settled, decision.error)

    def _settle_later(self, settled: Settled, outcome: ErrorCode) -> None:
        def on_durable(error: ErrorCode, base_offset: int) -> None:
            if error is not ErrorCode.NONE:
                self._fail(error)
                settled(ErrorCode.NOT_COORDINATOR, -1)
            else:
                settled(outcome, base_offset)

        self._writer.after_writes(on_durable)

    def _write(self, changes: Sequence[tuple[SharePartition, Change]]) -> ErrorCode:
        """Append a batch, and apply it. Returns the log's refusal: nothing has changed then."""
        now_ms = self._clock.now_ms()
        batch = build_batch([encoded(*each) for each in changes], timestamp=now_ms, compression=self._compression)
        result = self.log.append(bytes(batch), now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        if isinstance(result, Refused):
            return result.error
        self._stats.records += len(changes)
        for number, (partition, change) in enumerate(changes):
            self._apply(partition, change, result.base_offset + number)
        return ErrorCode.NONE

    def _apply(self, partition: SharePartition, change: Change, offset: int) -> None:
        after = applied(self.states.get(partition), change, offset=offset)
        if after is None:
            self.states.pop(partition, None)
            self.broken.pop(partition, None)
        else:
            self.states[partition] = after

    def _fail(self, error: ErrorCode) -> None:
        if self.state is ShardPhase.ACTIVE:
            _LOG.error("%s has failed (%s): it is read anew", self.name, error.name)
            self.state = ShardPhase.CLOSED
            self._failed(self)

    # What goes away

    def forget_topics(self, is_gone: Callable[[Uuid], bool]) -> Iterator[None]:
        """Delete the states of topics that are no more, some in each step."""
        gone = [each for each in (*self.states, *self.broken) if is_gone(each.topic_id)]
        for start in range(0, len(gone), RECORDS_PER_STEP):
            some = gone[start : start + RECORDS_PER_STEP]
            self._write_in_background([(each, None) for each in some if each in self.states or each in self.broken])
            yield

    def refresh(self, pruning: Pruning) -> Iterator[None]:
        """Write snapshots of share partitions that keep old records in the log, some in each step."""
        cold = pruning.cold
        for start in range(0, len(cold), RECORDS_PER_STEP):
            self._snapshot_some(cold[start : start + RECORDS_PER_STEP])
            yield

    def _snapshot_some(self, partitions: Iterable[SharePartition]) -> None:
        now_ms = self._clock.now_ms()
        changes: list[tuple[SharePartition, Change]] = []
        size = 0
        for partition in partitions:
            state = self.states.get(partition)
            if state is None:
                continue
            more = 100 + len(partition.group_id) + 19 * len(state.batches)
            if size + more > MAX_BATCH_BYTES:
                self._write_in_background(changes)
                changes, size = [], 0
            changes.append((partition, snapshot(state, now_ms=now_ms)))
            size += more
        self._write_in_background(changes)

    def _write_in_background(self, changes: Sequence[tuple[SharePartition, Change]]) -> None:
        if not changes or self.state is not ShardPhase.ACTIVE:
            return
        error = self._write(changes)
        if error is not ErrorCode.NONE:
            _LOG.warning("%s: %d records are not written: %s", self.name, len(changes), error.name)
            return
        self._settle_later(lambda *_: None, ErrorCode.NONE)

    def when_durable(self, settled: Settled) -> None:
        """Settle with NONE when all that is decided now is durable."""
        self._settle_later(settled, ErrorCode.NONE)
