"""`LedSharePartition`: one partition as one share group reads it, at its leader (KIP-932; share-partitions.md 2, 3).

`ShareWindow` decides; this class loads and writes its state, and keeps the time of its locks. Always true:
- One write is under way at a time; what comes meanwhile goes with the next one. An acknowledgement is answered after
  its write.
- Locks are measured in the time for which this process runs, and one that ran out ends after the sockets were read: a
  broker that was paused holds that against no consumer (`Clock.start_deadline`). One timer for all of them fires when
  the first one ends.
- Nobody else reads for it between `begin_fetch` and `end_fetch`.
- A record is archived when its dead letter is durable, or when there can be none (`LetterQueue`). Until then its state
  is ARCHIVING, and whoever leads the share partition next writes the letter.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.broker.sharing.config import first_offset, isolation_of
from eosin.broker.sharing.dead_letters import DeadLetters, LetterQueue, LetterSource
from eosin.broker.sharing.lock_timer import LockTimer
from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.state_errors import LOST, PASSING, client_error
from eosin.broker.sharing.rules.stored_end import kept_of, stored_end
from eosin.broker.sharing.rules.waiters import NEVER_LOOKED, ShareWaiters, Wake
from eosin.broker.sharing.rules.window import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRange,
    AcquireLimits,
    DeadRecords,
    ShareWindow,
    Transition,
    done_after,
)
from eosin.broker.sharing.state_checks import StateChecks
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import (
    UNKNOWN_OFFSET,
    DeliveryState,
    SharePartition,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.clock import Clock, Timer

if TYPE_CHECKING:
    from eosin.broker.sharing.counts import ShareCounts
    from eosin.coordinator.share_states import ShareStateStore
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 5000
"""A state that could not be read is read again after so long: each time twice as long, up to this."""
START_WRITE_MS: Final = 5000
"""A start that has moved, and that no write has told of for so long, is written by itself: others look at it."""
FIRST_READ_BYTES: Final = 65_536
"""Of a partition of which nobody knows yet how large its records are."""
_TIMER_TOLERANCE_MS: Final = 1.0


class LedSharePartition:
    """One share partition. Made when a member first fetches from it; `load` follows."""

    __slots__ = (
        "_before",
        "_checks",
        "_clock",
        "_config_of",
        "_counts",
        "_letters",
        "_lost",
        "_queue",
        "_record_bytes",
        "_start_write",
        "_states",
        "_store",
        "_timer",
        "_transitions",
        "_unwritten",
        "_waiters",
        "_writing",
        "error",
        "is_fetching",
        "is_retired",
        "key",
        "leader_epoch",
        "log",
        "moved_ms",
        "name",
        "state_epoch",
        "window",
        "written_start",
    )

    def __init__(
        self,
        key: SharePartition,
        name: TopicPartition,
        log: "PartitionLog",
        *,
        store: "ShareStateStore",
        config_of: Callable[[], ShareGroupConfig],
        clock: Clock,
        counts: "ShareCounts",
        letters: DeadLetters,
        lost: Callable[["LedSharePartition"], None],
    ) -> None:
        """`lost` is called when it can be one no longer."""
        self.key = key
        self.name = name
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.window: ShareWindow | None = None
        """None until it is loaded."""
        self.state_epoch = 0
        self.error = ErrorCode.NONE
        """The reason why it is one no longer."""
        self.is_fetching = False
        self.is_retired = False
        """True if another one may take its place."""
        self.written_start = UNKNOWN_OFFSET
        """The start as it is stored."""
        self.moved_ms = clock.elapsed_ms()
        """Since then its start has not moved, or nothing was under way."""
        self._before: ShareStateSummary | None = None
        """Its state before it was first read in this leader epoch."""
        self._checks = StateChecks(clock)
        self._store = store
        self._config_of = config_of
        self._clock = clock
        self._counts = counts
        self._letters = letters
        self._queue = LetterQueue(LetterSource(key.group_id, name, log, config_of), letters, self._letters_written)
        self._lost = lost
        self._timer = LockTimer(clock, self._locks_end)
        self._start_write: Timer | None = None
        self._record_bytes = 0.0
        self._transitions: list[tuple[Transition, asyncio.Future[ErrorCode]]] = []
        self._states: list[StateBatch] = []
        self._unwritten: list[StateBatch] = []
        """The final states, and those ARCHIVING, of a write that failed, for the next one: dead letters wait for that,
        or would be written twice."""
        self._writing: asyncio.Task[None] | None = None
        self._waiters = ShareWaiters()

    # Load -----------------------------------------------------------------------------------------------------------

    async def load(self, predecessor: "LedSharePartition | None") -> None:
        """Read its state, again and again until that works or it is lost. What `predecessor` still writes comes
        first: it was acknowledged, though nobody may have heard so."""
        if predecessor is not None:
            await predecessor.settled()
        delay_ms = RETRY_MS
        while not self.error and not await self._loaded():
            await self._clock.sleep(delay_ms)
            delay_ms = min(2 * delay_ms, LONGEST_RETRY_MS)
        self.changed()

    async def _loaded(self) -> bool:
        """True if that is settled, one way or the other."""
        known = self._before or await self._store.summary(self.key)
        if not isinstance(known, ShareStateSummary):
            return bool(self.error) or self._refused(known, "read")
        self._before = known
        state = await self._store.read(self.key, leader_epoch=self.leader_epoch)
        if self.error:
            return True
        if not isinstance(state, ShareState):
            return self._refused(state, "read")
        start = state.start_offset
        if start == UNKNOWN_OFFSET and state.batches:
            start = state.batches[0].first
        elif start == UNKNOWN_OFFSET:
            try:
                start = await first_offset(self.log, self._config_of(), self._clock.now_ms())
            except (OSError, CorruptRecords) as error:
                _LOG.error("share group %r: %s cannot be searched: %s", self.key.group_id, self.name, error)
                return False
            # Written before anything is delivered: another leader would else begin elsewhere, and skip records.
            error_code = await self._store_state((), state.state_epoch, start, done=0)
            if self.error:
                return True
            if error_code:
                return self._refused(error_code, "write")
            state = state._replace(start_offset=start)
        reached = state.batches[-1].last + 1 if state.batches else start
        try:
            if max(start, reached) > (log_end := stored_end(known, state, self.log)):
                return await self._adopt_cut(state, start, log_end)
            self._adopt(state, start)
        except ValueError as error:
            _LOG.error("share group %r: %s cannot be served: %s", self.key.group_id, self.name, error)
            self.lose(ErrorCode.UNKNOWN_SERVER_ERROR)
        return True

    async def _adopt_cut(self, state: ShareState, start: int, log_end: int) -> bool:
        """The log was cut at `log_end` behind the group's back. What is stored of the lost offsets would count for the
        records in their place, so the state begins anew."""
        kept, done = kept_of(state, start, log_end)
        error = await self._store.initialize(self.key, state_epoch=kept.state_epoch, start_offset=kept.start_offset)
        while not error and kept.batches and not self.error:
            refused = await self._store_state(kept.batches, kept.state_epoch, kept.start_offset, done=done)
            if not refused or self._refused(refused, "write"):
                break
            await self._clock.sleep(RETRY_MS)  # what is stored has them no more: a new look would forget them
        if self.error or error:
            return bool(self.error) or self._refused(error, "write")
        self._counts.log_cuts += 1
        text = "share group %r was behind offset %d of %s, where the log was cut: it goes on there"
        _LOG.warning(text, self.key.group_id, log_end, self.name)
        self._adopt(kept, kept.start_offset)
        return True

    def _adopt(self, state: ShareState, start: int) -> None:
        """Go on with a state. Raises ValueError for one that makes no sense."""
        self.state_epoch, self.written_start = state.state_epoch, state.start_offset
        limit = self._config_of().delivery_count_limit
        self.window = ShareWindow.loaded(start, state.batches, log_end=self.log.log_end_offset, delivery_limit=limit)
        self.follow_log_start()
        self._send_letters()

    def _refused(self, error: ErrorCode, what: str) -> bool:
        """The share coordinator refuses. Returns whether it always will."""
        if error in LOST:
            self.lose(LOST[error])
            return True
        if error not in PASSING:
            _LOG.warning("share group %r: cannot %s the state of %s: %s", self.key.group_id, what, self.name, error)
        return False

    async def check_epoch(self) -> None:
        """Look if the state was begun anew since it was read: a write is told so, but where all is done there is none,
        and somebody who has vanished may keep this share partition in memory. The epochs of a group that was deleted
        begin again; its start gives it away then, which never goes back in one state."""
        if not await self._checks.turn() or self.window is None or self.is_retired:
            return
        start, found = self.written_start, await self._store.summary(self.key)
        if isinstance(found, ErrorCode):
            return
        if found.state_epoch != self.state_epoch or found.start_offset < start:
            self.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lose(self, error: ErrorCode) -> None:
        """It is none any more: `error` says why. Whoever waits for it is woken."""
        if self.error:
            return
        self.error = error
        self.end_letters()
        self._lost(self)
        self.wake()

    def retire(self) -> None:
        """It is used no more: its locks end with it, and what is to be written still is. Dead letters that cannot be
        written now are left to the next one."""
        self.is_retired = True
        self._queue.end_waiting()
        if self._start_write is not None:
            self._start_write.cancel()
        self._timer.stop()

    async def settled(self) -> None:
        """Wait until nothing is being written."""
        while some := [each for each in (self._writing, self._queue.sending) if each is not None]:
            await asyncio.wait(some)

    @property
    def is_writing(self) -> bool:
        """True while a write is under way, of states or of dead letters."""
        return self._writing is not None or self._queue.sending is not None

    def end_letters(self) -> None:
        """Begin no more dead letters: the next leader writes them."""
        self._queue.end()

    # Waits ----------------------------------------------------------------------------------------------------------

    @property
    def known_changes(self) -> int:
        """The changes that whoever looks now has seen: none while somebody fetches, and may leave something."""
        return NEVER_LOOKED if self.is_fetching else self._waiters.change_count

    def wait(self, wake: Wake, known_changes: int, *, is_patient: bool = False) -> None:
        """Have `wake` called when it is this fetch's turn to look again, which it has done after `known_changes`; when
        it has looked, it calls `pass_on`. One that `is_patient` waits for more than what is there: it is called at each
        change of what may be acquired, and when it can look if it could not. Until `stop_waiting`."""
        self._waiters.wait(wake, known_changes, is_patient=is_patient)

    def stop_waiting(self, wake: Wake) -> None:
        """Harmless for one that does not wait."""
        self._waiters.leave(wake)

    def wake(self) -> None:
        """Have all who wait look again."""
        self._waiters.all()

    def changed(self) -> None:
        """There may be something to acquire that was not there before."""
        if self.error:
            self.wake()
            return
        self._waiters.all_patient()
        self.grown()

    def grown(self) -> None:
        """The same; the log has more that may be read, and patient ones count that for themselves."""
        self._waiters.change_count += 1
        if self.log.unusable is not None:
            self.wake()
        self.pass_on()

    def pass_on(self) -> None:
        """Wake the next one that waits, if there is anything for it."""
        if self.is_fetching:
            return
        self._waiters.next_unlooked()
        if len(self._waiters):
            offset = self.offset_to_fetch()
            if offset is not None and offset < self.log.visible_end(isolation_of(self._config_of())):
                self._waiters.next()

    # Fetches --------------------------------------------------------------------------------------------------------

    def offset_to_fetch(self) -> int | None:
        """The offset to fetch from; None if somebody fetches, or nothing may be acquired now."""
        if self.is_fetching or self.is_retired or self.window is None:
            return None
        self.follow_log_start()
        return self.window.next_offset(self._config_of().partition_max_record_locks)

    def begin_fetch(self) -> int | None:
        """The same, if it is for the caller to fetch now: `end_fetch` must follow."""
        offset = self.offset_to_fetch()
        if offset is not None:
            self.is_fetching = True
        return offset

    def end_fetch(self) -> None:
        """Let others fetch what is left."""
        self.is_fetching = False
        self.pass_on()

    @property
    def progress(self) -> tuple[int, int, int] | None:
        """A value that changes when something is acquired or found to be done."""
        window = self.window
        return None if window is None else (window.start, window.end, window.available)

    def read_bytes(self, records: int) -> int:
        """Bytes to read for so many records, by what the last read has shown."""
        return FIRST_READ_BYTES if not self._record_bytes else int(1.25 * records * self._record_bytes) + 4096

    def acquire(
        self, member: str, fetched: Sequence[ReadBatch], size: int, *, offset: int, max_records: int,
        batch_size: int, is_exact: bool,
    ) -> list[AcquiredRange]:  # fmt: skip
        """Hand out to a member what a read from `offset`, of `size` bytes, has brought."""
        window, config = self.window, self._config_of()
        if self.is_retired or window is None or not fetched or offset > window.end:
            return []
        self._record_bytes = size / max(1, fetched[-1].end - fetched[0].first)
        due_ms = self._clock.running_ms() + config.record_lock_duration_ms
        start, was_empty = window.start, window.start == window.end
        given_up = window.archived_at_limit
        ranges, has_archived = window.acquire(
            member,
            fetched,
            offset=offset,
            limits=AcquireLimits(
                max_records=max_records,
                batch_size=max(1, batch_size),
                is_exact=is_exact,
                max_in_flight=config.partition_max_record_locks,
                delivery_limit=config.delivery_count_limit,
                has_dead_letters=self._letters.has(config),
            ),
            due_ms=due_ms,
        )
        self._counts.acquired(ranges)
        self._counts.archived_at_limit += window.archived_at_limit - given_up
        if was_empty or window.start != start:
            self.moved_ms = self._clock.elapsed_ms()
        if ranges:
            self._timer.start(due_ms)
        if window.dead:
            self._write()
        elif not ranges and has_archived and not window.acquired and window.start != self.written_start:
            self._write()  # no acknowledgement follows that would tell that the group has come so far
        return ranges

    def follow_log_start(self) -> bool:
        """Records that the log has deleted are done. Returns whether there were any."""
        if self.window is None or not self.window.move_start(self.log.log_start_offset):
            return False
        self.moved_ms = self._clock.elapsed_ms()
        self._write_start_later()  # nobody may acknowledge anything after that
        return True

    # Acknowledgements -----------------------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement]
    ) -> "asyncio.Future[ErrorCode] | ErrorCode":
        """Acknowledge for a member, all or nothing; a future where that is to be written."""
        if self.is_retired:
            return self.error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.window is None:
            return ErrorCode.INVALID_RECORD_STATE  # nothing was delivered
        config = self._config_of()
        due_ms = self._clock.running_ms() + config.record_lock_duration_ms
        transition = self.window.acknowledge(
            member,
            acknowledgements,
            delivery_limit=config.delivery_count_limit,
            due_ms=due_ms,
            may_renew=config.renew_acknowledge_enable,
            has_dead_letters=self._letters.has(config),
        )
        if isinstance(transition, ErrorCode):
            return transition
        if any(each.type is AcknowledgeType.RENEW for each in acknowledgements):
            self._timer.start(due_ms)
        if not transition.batches:
            return ErrorCode.NONE
        future = asyncio.get_running_loop().create_future()
        self._transitions.append((transition, future))
        self._write()
        return future

    def release(self, member: str) -> None:
        """A member is gone: what it has goes to others at once."""
        if self.window is not None and not self.is_retired:
            config = self._config_of()
            limit, has_letters = config.delivery_count_limit, self._letters.has(config)
            self._end_locks(self.window.release(member, delivery_limit=limit, has_dead_letters=has_letters))

    def _end_locks(self, batches: list[StateBatch]) -> None:
        if batches:
            self._states += batches
            self._write()
            self.changed()

    def _locks_end(self) -> None:
        window = self.window
        assert window is not None, "locks are those of a window"
        now_ms = self._clock.running_ms() + _TIMER_TOLERANCE_MS
        given_up, config = window.archived_at_limit, self._config_of()
        has_letters = self._letters.has(config)
        batches = window.expire(now_ms, delivery_limit=config.delivery_count_limit, has_dead_letters=has_letters)
        self._counts.lock_timeouts += sum(each.last - each.first + 1 for each in batches)
        self._counts.archived_at_limit += window.archived_at_limit - given_up
        self._end_locks(batches)
        due_ms = window.next_due_ms()
        if due_ms is not None:
            self._timer.start(due_ms)

    # Writes ---------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            is_first = True
            while is_first or self._transitions or self._states:
                is_first = False
                await self._write_once()
        finally:
            self._writing = None

    async def _write_once(self) -> None:
        """Write what has gathered."""
        window = self.window
        assert window is not None
        transitions, self._transitions = self._transitions, []
        kept = [each for each in self._unwritten if each.last >= window.start]  # the start tells of all others
        states, self._states, self._unwritten = kept + self._states, [], []
        dead, window.dead = window.dead, []  # of these states; what ends meanwhile goes with the next write
        batches = list(states)
        for transition, _ in transitions:
            batches += transition.batches
        start = window.start
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            done = done_after(window, {each.write for each, _ in transitions})
            error = self.error or await self._store_state(batches, self.state_epoch, start, done=done)
        finally:
            if error:
                self._unwritten += [each for each in states if each.state is not DeliveryState.AVAILABLE]
            self._settle(window, transitions, dead, error)
        if not error:
            self.written_start = start
        if window.start != self.written_start or self._unwritten or window.dead:
            self._write_start_later()

    async def _store_state(self, batches: Sequence[StateBatch], epoch: int, start: int, *, done: int) -> ErrorCode:
        return await self._store.write(
            self.key,
            batches,
            state_epoch=epoch,
            leader_epoch=self.leader_epoch,
            start_offset=start,
            delivery_complete_count=done,
        )

    def _write_start_later(self) -> None:
        if self._start_write is None and not self.is_retired:
            self._start_write = self._clock.call_later(START_WRITE_MS, self._write_start)

    def _write_start(self) -> None:
        self._start_write = None
        self.write_start()

    def write_start(self) -> None:
        """Tell the share coordinator how far the group has come, unless it knows."""
        window = self.window
        if window is None or self.error:
            return
        if window.start != self.written_start or self._unwritten or window.dead:
            self._write()

    def _settle(
        self,
        window: ShareWindow,
        transitions: Sequence[tuple[Transition, "asyncio.Future[ErrorCode]"]],
        dead: list[DeadRecords],
        error: ErrorCode,
    ) -> None:
        """Carry out what a write has decided; `dead` are the dead letters that waited for it."""
        config, now_ms = self._config_of(), self._clock.running_ms()
        limit, given_up = config.delivery_count_limit, window.archived_at_limit
        start, before = window.start, window.next_offset(config.partition_max_record_locks)
        later, window.dead = window.dead, dead
        for transition, future in transitions:
            if error:
                has_letters = self._letters.has(config)
                self._states += window.not_written(
                    transition, now_ms=now_ms, delivery_limit=limit, has_dead_letters=has_letters
                )
            else:
                window.written(transition)
            if not future.done():
                future.set_result(client_error(error))
        self._counts.archived_at_limit += window.archived_at_limit - given_up
        if window.start != start:
            self.moved_ms = self._clock.elapsed_ms()
        if error in LOST:
            self.lose(LOST[error])
        elif error and window.acquired:
            due_ms = window.next_due_ms()
            if due_ms is not None:
                self._timer.start(due_ms)
        if not error:
            self._send_letters()
        window.dead += later
        self._changed_since(before)

    def _changed_since(self, before: int | None) -> None:
        """Wake a fetch if there is something to acquire before the `next_offset` of before."""
        assert self.window is not None
        after = self.window.next_offset(self._config_of().partition_max_record_locks)
        if after is not None and (before is None or after < before):
            self.changed()

    # Dead letters ---------------------------------------------------------------------------------------------------

    def _send_letters(self) -> None:
        """Have the dead letters written that there are to write, now that their records' states are."""
        window = self.window
        assert window is not None
        if not window.dead or self.error:
            return
        dead, window.dead = window.dead, []
        self._queue.add(dead)

    def _letters_written(self, done: Sequence[DeadRecords]) -> None:
        """Records have dead letters, or get none: they are archived."""
        window = self.window
        assert window is not None
        if self.error:
            return
        start, before = window.start, window.next_offset(self._config_of().partition_max_record_locks)
        for each in done:
            self._states += window.archive(each.first, each.end)
        if window.start != start:
            self.moved_ms = self._clock.elapsed_ms()
        self._write()
        self._changed_since(before)
