"""`ShareWindow`: the records of one share partition that are under way, and every decision about them (KIP-932;
share-partitions.md 2, 3).

The window holds the offsets from `start` (Kafka's SPSO) up to `end`, which is not in it: everything before is done,
everything from `end` on was never fetched. Pure: times and limits come with each call, writes leave as values, and
their outcomes come back as calls.

Always true:
- Acknowledged and archived are final.
- A run that a write decides about is neither handed out nor acknowledged until its outcome is known.
- What was released, or whose lock ran out, is available at once; that write may fail, since a state that was never
  stored means a record that is delivered again.
- Of a record at the limit of deliveries no other delivery begins.
- In a group with dead letters (KIP-1191) what is rejected, or given up at the limit, is archiving, and named in
  `dead`, until `archive` says that its dead letter is durable. It holds the start back as long.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.runs import NOT_WRITTEN, TERMINAL, Run, Runs
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.protocol.errors import ErrorCode

_AVAILABLE: Final = DeliveryState.AVAILABLE
_ACQUIRED: Final = DeliveryState.ACQUIRED
_ARCHIVING: Final = DeliveryState.ARCHIVING
_ARCHIVED: Final = DeliveryState.ARCHIVED
NO_LIMIT: Final = 1 << 31
"""More deliveries than a record can have."""
_OVER: Final = 0.0
"""A lock that has ended, whatever the time."""


class AcknowledgeType(IntEnum):
    """The fate of a record, as its consumer tells it (KIP-932, KIP-1222)."""

    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """It is still at work."""


_TARGETS: Final = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: DeliveryState.AVAILABLE,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}


class Acknowledgement(NamedTuple):
    """Offsets from `first` up to `end`, which is not in it, of one type."""

    first: int
    end: int
    type: AcknowledgeType


class DeadRecords(NamedTuple):
    """Offsets from `first` up to `end`, which is not in it, whose dead letters are to be written."""

    first: int
    end: int
    delivery_count: int
    is_rejected: bool
    """True if a consumer has rejected them; else their deliveries are used up."""


class AcquireLimits(NamedTuple):
    """The bounds of one acquisition."""

    max_records: int
    batch_size: int
    """Ranges that are handed out end at about so many records."""
    is_exact: bool
    """True if `max_records` may cut a stored batch; else the batch in which it lies comes whole (KIP-1206)."""
    max_in_flight: int
    """Offsets from `start` to `end`."""
    delivery_limit: int
    """Deliveries of one record."""
    has_dead_letters: bool = False


class AcquiredRange(NamedTuple):
    """Offsets from `first` to `last`, both in it, that a member was given."""

    first: int
    last: int
    delivery_count: int


class Acquisition(NamedTuple):
    """The outcome of an acquisition."""

    ranges: list[AcquiredRange]
    has_archived: bool
    """True if offsets were found that nobody is to have."""


class Transition(NamedTuple):
    """Acknowledgements that count once they are written."""

    write: int
    ranges: tuple[tuple[int, int], ...]
    """First offset and end of each."""
    batches: tuple[StateBatch, ...]
    """The part to write; empty if locks were renewed alone."""
    archived_at_limit: int
    """Number of records that are given up with it."""
    dead: tuple[DeadRecords, ...] = ()
    """The records of which it makes dead letters."""


class ShareWindow:
    """The window of one share partition."""

    def __init__(self, start: int) -> None:
        self._runs = Runs(start)
        self._writes = NOT_WRITTEN
        self.archived_at_limit = 0
        """Records that nobody accepted in as many deliveries as they may have."""
        self.dead: list[DeadRecords] = []
        """The dead letters that are to be written, and that nobody has taken yet."""

    @classmethod
    def loaded(
        cls, start: int, batches: Sequence[StateBatch], *, log_end: int, delivery_limit: int = NO_LIMIT
    ) -> "ShareWindow":
        """The window that a stored state tells of. What lies between its batches was fetched and never acknowledged: it
        is delivered again. What lies behind the log end is gone (an election that was not clean). Of what was archiving
        the dead letters may be written or not, so they are written: nobody has stored why, and the count must tell.
        Raises ValueError for batches that overlap, or lie before the start."""
        window = cls(start)
        runs = window._runs
        for batch in batches:
            if batch.first < runs.end or batch.last < batch.first:
                raise ValueError(f"the stored state has a batch from {batch.first} to {batch.last} behind {runs.end}")
            if batch.first > runs.end:
                runs.add(Run(runs.end, batch.first, _AVAILABLE))
            state = batch.state
            count = batch.delivery_count if state in (_AVAILABLE, _ARCHIVING) else 0
            runs.add(Run(batch.first, batch.last + 1, state, count=count))
        window.move_end(log_end)
        window.dead += [_dead(run, is_rejected=run.count < delivery_limit) for run in runs if run.state is _ARCHIVING]
        runs.drop_terminal_prefix()
        runs.merge(runs.start, runs.end)
        return window

    @property
    def start(self) -> int:
        """The first offset that is not done."""
        return self._runs.start

    @property
    def end(self) -> int:
        """The first offset that was never fetched."""
        return self._runs.end

    @property
    def acquired(self) -> int:
        """Number of offsets that members have."""
        return self._runs.acquired

    @property
    def available(self) -> int:
        """Number of offsets that were fetched and may be delivered."""
        return self._runs.available

    @property
    def done(self) -> int:
        """Number of offsets of the window that are terminal."""
        runs = self._runs
        return runs.end - runs.start - runs.acquired - runs.available - runs.archiving

    @property
    def archiving(self) -> int:
        """Number of offsets whose dead letters are not known to be durable."""
        return self._runs.archiving

    @property
    def runs(self) -> Iterable[Run]:
        """The runs, in order. Not to be changed by readers."""
        return self._runs

    @property
    def run_count(self) -> int:
        """Number of runs: what the window costs."""
        return len(self._runs)

    # Delivery -------------------------------------------------------------------------------------------------------

    def next_offset(self, max_in_flight: int) -> int | None:
        """The offset to fetch from; None while the window is full and all of it is under way."""
        if self._runs.available:
            for run in self._runs:
                if run.is_free:
                    return run.first
        return self.end if self.end - self.start < max_in_flight else None

    def acquire(
        self, member: str, fetched: Sequence[ReadBatch], *, offset: int, limits: AcquireLimits, due_ms: float
    ) -> Acquisition:
        """Hand out what a read from `offset`, a `next_offset`, has brought. Offsets that the log has skipped, markers
        and records of aborted transactions are archived, in memory: whoever fetches them again finds them again."""
        return _Acquiring(self._runs, member, limits, due_ms, self).acquire(fetched, offset)

    # Acknowledgements -----------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[Acknowledgement],
        *,
        delivery_limit: int,
        due_ms: float,
        may_renew: bool,
        has_dead_letters: bool = False,
    ) -> Transition | ErrorCode:
        """Begin to acknowledge, all or nothing (share-partitions.md 3): INVALID_RECORD_STATE for what the member does
        not have, INVALID_REQUEST beyond what was ever acquired. What is before the start is done, and left out."""
        error = self._refusal(member, acknowledgements, may_renew=may_renew)
        if error:
            return error
        runs = self._runs
        self._writes += 1
        ranges, batches, dead, given_up = [], [], [], 0
        for first, end, kind in acknowledgements:
            for run in runs.within(first, end):
                if kind is AcknowledgeType.RENEW:
                    run.due_ms = due_ms
                    continue
                run.write = self._writes
                run.target = _TARGETS[kind]
                if run.target is _AVAILABLE and run.count >= delivery_limit:
                    run.target = _ARCHIVED
                    given_up += run.end - run.first
                if has_dead_letters and run.target is _ARCHIVED and kind is not AcknowledgeType.GAP:
                    run.target = _ARCHIVING
                    dead.append(_dead(run, is_rejected=kind is AcknowledgeType.REJECT))
                batches.append(_batch(run, run.target))
            if kind is not AcknowledgeType.RENEW:
                ranges.append((first, end))
            runs.merge(first, end)
        return Transition(self._writes, tuple(ranges), tuple(_joined(batches)), given_up, tuple(dead))

    def _refusal(
        self, member: str, acknowledgements: Sequence[Acknowledgement], *, may_renew: bool
    ) -> ErrorCode | None:
        start, end = self.start, self.end
        reached = -1
        for first, after, kind in acknowledgements:
            if first < reached or (kind is AcknowledgeType.RENEW and not may_renew):
                return ErrorCode.INVALID_RECORD_STATE
            reached = after
            if after <= start:
                continue
            if start == end:
                return ErrorCode.INVALID_RECORD_STATE
            if after > end:
                return ErrorCode.INVALID_REQUEST
            for run in self._runs.overlapping(max(first, start), after):
                if run.state is not _ACQUIRED or run.member != member or run.write:
                    return ErrorCode.INVALID_RECORD_STATE
        return None

    def written(self, transition: Transition) -> None:
        """It is durable."""
        self.archived_at_limit += transition.archived_at_limit
        self.dead += transition.dead
        for first, end in transition.ranges:
            for run in list(self._runs.overlapping(first, end)):
                if run.write == transition.write:
                    self._runs.change(run, run.target)
            self._runs.merge(first, end)
        self._runs.drop_terminal_prefix()

    def archive(self, first: int, end: int) -> list[StateBatch]:
        """The dead letters of these offsets are durable, or there will be none. Returns what there is to write."""
        batches = []
        for run in self._runs.within(first, end):
            if run.state is _ARCHIVING:
                batches.append(_batch(run, _ARCHIVED))
                self._runs.change(run, _ARCHIVED)
        self._runs.merge(first, end)
        self._runs.drop_terminal_prefix()
        return _joined(batches)

    def not_written(
        self, transition: Transition, *, now_ms: float, delivery_limit: int, has_dead_letters: bool = False
    ) -> list[StateBatch]:
        """The write has failed: its members have what they had, under the old locks; what they would have lost
        meanwhile they lose now. Returns what there is to write of that."""
        batches: list[StateBatch] = []
        for first, end in transition.ranges:
            for run in list(self._runs.overlapping(first, end)):
                if run.write == transition.write:
                    run.write, run.target = NOT_WRITTEN, run.state
                    if run.due_ms <= now_ms:
                        batches.append(self._let_go(run, delivery_limit, has_dead_letters))
            self._runs.merge(first, end)
        self._runs.drop_terminal_prefix()
        return _joined(batches)

    # Ends of acquisitions -------------------------------------------------------------------------------------------

    def release(self, member: str, *, delivery_limit: int, has_dead_letters: bool = False) -> list[StateBatch]:
        """A member is gone: what it has goes to others. Returns what there is to write."""
        return self._end_locks(lambda run: run.member == member, delivery_limit, has_dead_letters)

    def expire(self, now_ms: float, *, delivery_limit: int, has_dead_letters: bool = False) -> list[StateBatch]:
        """End the locks that have run out. Returns what there is to write."""
        return self._end_locks(lambda run: run.due_ms <= now_ms and not run.write, delivery_limit, has_dead_letters)

    def next_due_ms(self) -> float | None:
        """The end of the lock that ends first, those aside about which a write decides."""
        return min((run.due_ms for run in self._runs if run.state is _ACQUIRED and not run.write), default=None)

    def _end_locks(self, ends: Callable[[Run], bool], delivery_limit: int, has_dead_letters: bool) -> list[StateBatch]:
        if not self._runs.acquired:
            return []
        batches: list[StateBatch] = []
        for run in self._runs:
            if run.state is _ACQUIRED and ends(run):
                if run.write:
                    run.due_ms = _OVER
                else:
                    batches.append(self._let_go(run, delivery_limit, has_dead_letters))
        if batches:
            self._runs.merge(batches[0].first, batches[-1].last + 1)
            self._runs.drop_terminal_prefix()
        return _joined(batches)

    def _let_go(self, run: Run, delivery_limit: int, has_dead_letters: bool) -> StateBatch:
        state = _AVAILABLE if run.count < delivery_limit else self._given_up(run, has_dead_letters)
        batch = _batch(run, state)
        self._runs.change(run, state)
        return batch

    def _given_up(self, run: Run, has_dead_letters: bool) -> DeliveryState:
        """The state of a run whose deliveries are used up."""
        self.archived_at_limit += run.end - run.first
        if not has_dead_letters:
            return _ARCHIVED
        self.dead.append(_dead(run, is_rejected=False))
        return _ARCHIVING

    # The log --------------------------------------------------------------------------------------------------------

    def move_start(self, log_start: int) -> bool:
        """The log begins at `log_start` now: what was before it is gone, also for those who have it. Returns whether
        that moves the start."""
        if log_start <= self.start:
            return False
        self._runs.drop_before(log_start)
        self._runs.drop_terminal_prefix()
        return True

    def move_end(self, log_end: int) -> bool:
        """The log ends at `log_end` now, and what was behind it is gone (an election that was not clean). Returns
        whether that moves the window."""
        if log_end >= self.end:
            return False
        self._runs.drop_from(log_end)
        return True


class _Acquiring:
    """One acquisition under way."""

    def __init__(self, runs: Runs, member: str, limits: AcquireLimits, due_ms: float, window: ShareWindow) -> None:
        self._runs = runs
        self._member = member
        self._limits = limits
        self._due_ms = due_ms
        self._window = window
        self._left = limits.max_records
        self._ranges: list[list[int]] = []
        """First and last offset, and the delivery count."""
        self._is_over = False
        """True if nothing may be taken after what was taken."""
        self._has_archived = False

    def acquire(self, fetched: Sequence[ReadBatch], offset: int) -> Acquisition:
        at, index = offset, 0
        while index < len(fetched):
            first, end, is_delivered, _ = fetched[index]
            index += 1
            if end <= at:
                continue
            if self._is_over or self._left <= 0:
                break
            if first > at:
                self._archive(at, first)
                at = first
            (self._acquire_batch if is_delivered else self._archive)(at, end)
            at = end
            if self._ranges and self._ranges[-1][1] + 1 == at == self._runs.end and self._ranges[-1][2] == 1:
                index = self._acquire_following(fetched, index)
                at = self._runs.end
        self._runs.merge(offset, at)
        return Acquisition([AcquiredRange(*each) for each in self._ranges], self._has_archived)

    def _acquire_following(self, fetched: Sequence[ReadBatch], index: int) -> int:
        """Take the stored batches from `index` on that are as new as the one that was taken last and lie right behind
        it, as far as they fit in whole: of small batches there are thousands. Returns the index of the first other
        one."""
        ranges, limits, at = self._ranges, self._limits, self._runs.end
        last, left, room = ranges[-1], self._left, self._room
        if limits.is_exact:
            room = min(room, left)
        while index < len(fetched) and left > 0:
            first, end, is_delivered, _ = fetched[index]
            size = end - at
            if first != at or size > room or not is_delivered:
                break
            if at - last[0] >= limits.batch_size:
                last[1] = at - 1
                last = [at, at, 1]
                ranges.append(last)
            at, left, room, index = end, left - size, room - size, index + 1
        last[1] = at - 1
        self._left = left
        if at > self._runs.end:
            self._runs.extend(at)
        return index

    def _acquire_batch(self, first: int, end: int) -> None:
        """Take what is free of one stored batch, or its last part."""
        is_new_range, at = True, first
        if first < self._runs.end:
            for run in [run for run in self._runs.overlapping(first, end) if run.is_free]:
                if self._is_over or self._is_full:
                    return
                for part in self._runs.within(max(first, run.first), min(end, run.end)):
                    self._acquire_run(part, is_new_range)
                    is_new_range = False
            at = self._runs.end
            if end <= at or self._is_over or self._is_full:
                return
        size = min(end - at, self._room)
        if self._limits.is_exact and size > self._left:
            size = self._left
        if size > 0:
            self._acquire_new(at, at + size, is_new_range)
        if at + size < end:
            self._is_over = True

    @property
    def _is_full(self) -> bool:
        """True if not even the rest of a batch that has begun may be taken."""
        return self._limits.is_exact and self._left <= 0

    @property
    def _room(self) -> int:
        return self._limits.max_in_flight - (self._runs.end - self._runs.start)

    def _acquire_run(self, run: Run, is_new_range: bool) -> None:
        """Take a run that was delivered before, or its first part."""
        limits, runs = self._limits, self._runs
        if run.count >= limits.delivery_limit:
            state = self._window._given_up(run, limits.has_dead_letters)  # the limit was lowered
            self._runs.change(run, state)
            self._has_archived = True
            runs.drop_terminal_prefix()
            return
        size = run.end - run.first
        portion = min(size, self._left) if limits.is_exact else size
        threshold = max(2, (limits.delivery_limit + 1) // 2)
        if run.count >= threshold:
            # Records that failed so often may be what makes their consumers fail: they come apart from all others,
            # fewer and fewer at once, so that the good ones among them get away.
            if self._ranges:
                self._is_over = True
                return
            is_last = run.count == limits.delivery_limit - 1
            portion = 1 if is_last else max(1, min(portion, self._left) >> run.count - threshold + 1)
            self._is_over = True
        if portion < size:
            run = runs.within(run.first, run.first + portion)[0]
        self._hand_out(run, is_new_range)

    def _acquire_new(self, first: int, end: int, is_new_range: bool) -> None:
        """Take offsets behind the window."""
        last = self._ranges[-1] if self._ranges else None
        if last is not None and last[1] + 1 == first and last[2] == 1:
            self._runs.extend(end)  # of the run that was taken last
            self._left -= end - first
            if is_new_range and first - last[0] >= self._limits.batch_size:
                self._ranges.append([first, end - 1, 1])
            else:
                last[1] = end - 1
            return
        self._runs.add(run := Run(first, end, _AVAILABLE))
        self._hand_out(run, is_new_range)

    def _hand_out(self, run: Run, is_new_range: bool) -> None:
        self._runs.change(run, _ACQUIRED)
        run.count += 1
        run.member, run.due_ms = self._member, self._due_ms
        self._left -= run.end - run.first
        self._note_range(run.first, run.end, run.count, is_new_range)

    def _note_range(self, first: int, end: int, count: int, is_new_range: bool) -> None:
        ranges = self._ranges
        if ranges:
            last = ranges[-1]
            is_short = last[1] - last[0] + 1 < self._limits.batch_size
            if last[1] + 1 == first and last[2] == count and (is_short or not is_new_range):
                last[1] = end - 1
                return
        ranges.append([first, end - 1, count])

    def _archive(self, first: int, end: int) -> None:
        """Nobody is to have these offsets: archive what is free of them."""
        runs = self._runs
        for run in [run for run in runs.overlapping(first, end) if run.is_free]:
            for part in runs.within(max(first, run.first), min(end, run.end)):
                runs.change(part, _ARCHIVED)
                self._has_archived = True
        runs.drop_terminal_prefix()
        if end > runs.end:
            at = max(first, runs.end)
            self._has_archived = True
            if runs.start == runs.end:
                runs.restart(end)
                return
            size = min(end - at, self._room)
            if size > 0:
                runs.add(Run(at, at + size, _ARCHIVED))
            if at + size < end:
                self._is_over = True


def done_after(window: ShareWindow, writes: Collection[int]) -> int:
    """Number of offsets of the window that are terminal once these writes have succeeded."""
    done = window.done
    for run in window.runs:
        if run.write in writes and run.write and run.target in TERMINAL:
            done += run.end - run.first
    return done


def _batch(run: Run, state: DeliveryState) -> StateBatch:
    return StateBatch(run.first, run.end - 1, state, run.count)


def _dead(run: Run, *, is_rejected: bool) -> DeadRecords:
    return DeadRecords(run.first, run.end, run.count, is_rejected)


def _joined(batches: list[StateBatch]) -> list[StateBatch]:
    """The same with neighbours that are alike as one."""
    joined: list[StateBatch] = []
    for batch in batches:
        last = joined[-1] if joined else None
        if last is not None and last.last + 1 == batch.first and last[2:] == batch[2:]:
            joined[-1] = last._replace(last=batch.last)
        else:
            joined.append(batch)
    return joined
