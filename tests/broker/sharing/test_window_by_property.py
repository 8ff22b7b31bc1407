"""The window of a share partition against a model with one entry for each offset (share-partitions.md 6): deliveries,
acknowledgements whose writes succeed, fail or are lost, locks that run out, members that go, logs that move, and
leaders that change."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.window import (
    Acknowledgement,
    AcknowledgeType,
    AcquireLimits,
    ShareWindow,
    Transition,
    done_after,
)
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.protocol.errors import ErrorCode

MEMBERS = ("a", "b", "c")
LIMIT = 3
WINDOW = 12
LOCK_MS = 100.0


def merged(stored: dict[int, tuple[int, DeliveryState]], batches: Sequence[StateBatch], start: int) -> None:
    """What the share coordinator makes of a write (share-state.md 3.4)."""
    for batch in batches:
        for offset in range(batch.first, batch.last + 1):
            new = (batch.delivery_count, batch.state)
            stored[offset] = max(stored.get(offset, (-1, DeliveryState.AVAILABLE)), new)
    for offset in [each for each in stored if each < start]:
        del stored[offset]


class Partition:
    """A share partition, its log, its share coordinator, and members that keep what they were given."""

    def __init__(self, seed: int, *, has_letters: bool = False) -> None:
        self.chosen = random.Random(seed)
        self.has_letters = has_letters
        self.promised: set[int] = set()
        """Offsets whose members were told that their rejection counts: each has a dead letter in the end."""
        self.letters: set[int] = set()
        """Offsets with durable dead letters."""
        self.window = ShareWindow(0)
        self.now_ms = 0.0
        self.log: list[ReadBatch] = []
        self.log_start = 0
        self.stored: dict[int, tuple[int, DeliveryState]] = {}
        self.stored_start = 0
        self.accepted: set[int] = set()
        """Offsets whose members were told that their acknowledgement, which ends them, counts."""
        self.ended: set[int] = set()
        """Offsets that some write has ended, whether its member heard so or not."""
        self.delivered: dict[int, int] = {}
        self.writing: list[tuple[Transition, list[Acknowledgement], int]] = []

    # The log

    def grows(self, batches: list[tuple[int, bool]]) -> None:
        for size, is_delivered in batches:
            end = self.log_end
            self.log.append(ReadBatch(end, end + size, is_delivered, 0))

    def is_compacted(self, which: int) -> None:
        if len(self.log) > 1:
            del self.log[which % (len(self.log) - 1)]

    def loses_its_start(self, by: int) -> None:
        self.log_start = min(self.log_start + by, self.log_end)
        while self.log and self.log[0].end <= self.log_start:
            del self.log[0]
        self.window.move_start(self.log_start)

    @property
    def log_end(self) -> int:
        return self.log[-1].end if self.log else self.log_start

    # Members

    def member_fetches(self, member: str, most: int, batch_size: int, is_exact: bool, reads: int) -> None:
        offset = self.window.next_offset(WINDOW)
        if offset is None or offset >= self.log_end:
            return
        fetched = [each for each in self.log if each.end > offset][:reads]
        limits = AcquireLimits(most, batch_size, is_exact, WINDOW, LIMIT, self.has_letters)
        before = {offset: run for run in self.window.runs for offset in range(run.first, run.end)}
        free = {offset for offset, run in before.items() if run.is_free}
        end = self.window.end
        ranges, _ = self.window.acquire(member, fetched, offset=offset, limits=limits, due_ms=self.now_ms + LOCK_MS)
        taken = [each for first, last, _ in ranges for each in range(first, last + 1)]
        assert len(set(taken)) == len(taken)
        exists = {each for batch in self.log if batch.is_delivered for each in range(batch.first, batch.end)}
        for first, last, count in ranges:
            assert 1 <= count <= LIMIT
            for each in range(first, last + 1):
                assert each in free or each >= end, "it was somebody's"
                assert each not in self.accepted, "it was accepted, and the member was told so"
                assert each in exists, "a marker, or nothing at all, was handed out"
                self.delivered[each] = count
        if is_exact:
            assert len(taken) <= most

    def member_acknowledges(self, member: str, kinds: list[AcknowledgeType], skip: int) -> None:
        mine = [
            each
            for run in self.window.runs
            for each in range(run.first, run.end)
            if run.member == member and not run.write
        ]
        wanted = [Acknowledgement(each, each + 1, kind) for each, kind in zip(mine[skip:], kinds, strict=False)]
        if wanted:
            begun = self._acknowledge(member, wanted)
            assert isinstance(begun, Transition)

    def member_acknowledges_what_it_likes(self, member: str, first: int, size: int) -> None:
        before = self._states()
        begun = self._acknowledge(member, [Acknowledgement(first, first + size, AcknowledgeType.ACCEPT)])
        if isinstance(begun, ErrorCode):
            assert self._states() == before, "a refused acknowledgement changes nothing"
            return
        for each in range(max(first, self.window.start), first + size):
            assert before[each][:2] == (DeliveryState.ACQUIRED, member)

    def _acknowledge(self, member: str, wanted: list[Acknowledgement]) -> Transition | ErrorCode:
        begun = self.window.acknowledge(
            member,
            wanted,
            delivery_limit=LIMIT,
            due_ms=self.now_ms + LOCK_MS,
            may_renew=True,
            has_dead_letters=self.has_letters,
        )
        if isinstance(begun, Transition) and begun.batches:
            self.writing.append((begun, wanted, self.window.start))
        return begun

    def member_goes(self, member: str, is_written: bool) -> None:
        states = self.window.release(member, delivery_limit=LIMIT, has_dead_letters=self.has_letters)
        self._write_states(states, is_written)
        assert all(run.write for run in self.window.runs if run.member == member)

    # Time and writes

    def time_passes(self, passed_ms: float, is_written: bool) -> None:
        self.now_ms += passed_ms
        states = self.window.expire(self.now_ms, delivery_limit=LIMIT, has_dead_letters=self.has_letters)
        self._write_states(states, is_written)
        due_ms = self.window.next_due_ms()
        assert due_ms is None or due_ms > self.now_ms

    def write_succeeds(self) -> None:
        transition, wanted, start = self.writing.pop(0)
        assert done_after(self.window, {transition.write}) >= self.window.done
        self._store(transition.batches, start)
        self.window.written(transition)
        for first, end, kind in wanted:
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.GAP):
                self.accepted.update(range(first, end))
            if kind is AcknowledgeType.REJECT and self.has_letters:
                self.promised.update(each for each in range(first, end) if each >= self.window.start)

    def write_fails(self, reached: bool, is_written: bool) -> None:
        """Perhaps it has reached the share coordinator all the same, and only its answer was lost."""
        transition, _, start = self.writing.pop(0)
        if reached:
            self._store(transition.batches, start)
        states = self.window.not_written(
            transition, now_ms=self.now_ms, delivery_limit=LIMIT, has_dead_letters=self.has_letters
        )
        self._write_states(states, is_written)

    # Dead letters

    def letters_are_written(self, is_written: bool) -> None:
        """All that there are to write; their archiving may be stored or not."""
        dead, self.window.dead = self.window.dead, []
        for each in dead:
            self.letters.update(range(each.first, each.end))
        for each in dead:
            self._write_states(self.window.archive(each.first, each.end), is_written)
        assert not self.window.archiving

    def promised_letters_come_before_the_end(self) -> None:
        states = self._states()
        for offset in self.promised - self.letters:
            is_under_way = offset in states and states[offset][0] is DeliveryState.ARCHIVING
            assert offset < self.log_start or is_under_way, "a rejected record is done and has no dead letter"

    def _write_states(self, batches: Sequence[StateBatch], is_written: bool) -> None:
        assert all(batch.state is not DeliveryState.ACQUIRED for batch in batches)
        if is_written and batches:
            self._store(batches, self.window.start)

    def _store(self, batches: Sequence[StateBatch], start: int) -> None:
        self.stored_start = max(self.stored_start, start)
        for batch in batches:
            if batch.state > DeliveryState.ACQUIRED:
                self.ended.update(range(batch.first, batch.last + 1))
        merged(self.stored, batches, self.stored_start)

    def leader_changes(self) -> None:
        """Writes of the old one are refused from now on; what it was about to tell its members it tells nobody."""
        self.writing.clear()
        batches = [StateBatch(offset, offset, state, count) for offset, (count, state) in sorted(self.stored.items())]
        self.window = ShareWindow.loaded(self.stored_start, batches, log_end=self.log_end, delivery_limit=LIMIT)
        self.window.move_start(self.log_start)

    # Always

    def _states(self) -> dict[int, tuple[Any, ...]]:
        return {
            offset: (run.state, run.member, run.count, run.write, run.due_ms)
            for run in self.window.runs
            for offset in range(run.first, run.end)
        }

    def runs_are_the_window(self) -> None:
        window, at = self.window, self.window.start
        sums = dict.fromkeys(DeliveryState, 0)
        for run in window.runs:
            assert run.first == at < run.end
            at = run.end
            sums[run.state] += run.end - run.first
            assert run.count <= LIMIT
            assert bool(run.member) == (run.state is DeliveryState.ACQUIRED)
            assert not run.write or run.state is DeliveryState.ACQUIRED
        assert at == window.end
        assert window.acquired == sums[DeliveryState.ACQUIRED]
        assert window.available == sums[DeliveryState.AVAILABLE]
        assert window.archiving == sums[DeliveryState.ARCHIVING]
        done = window.end - window.start - window.acquired - window.available - window.archiving
        assert window.done == done
        assert not any(run.is_terminal for run in list(window.runs)[:1]), "a start that is done"

    def window_is_no_larger_than_it_may_be(self) -> None:
        assert self.window.end - self.window.start <= WINDOW

    def accepted_offsets_stay_done(self) -> None:
        states = self._states()
        for offset in self.accepted:
            if offset >= self.window.end:
                continue
            assert offset < self.window.start or states[offset][0] > DeliveryState.ACQUIRED

    def finish(self) -> None:
        """Whatever was left over is delivered in the end: members take all that they get, and accept it."""
        expected = self.undelivered()
        for transition, _, start in self.writing:
            self._store(transition.batches, start)
            self.window.written(transition)
        for member in MEMBERS:
            self.window.release(member, delivery_limit=LIMIT, has_dead_letters=self.has_letters)
        limits = AcquireLimits(4, 2, False, WINDOW, LIMIT)
        for _ in range(400):
            self.letters_are_written(True)
            offset = self.window.next_offset(WINDOW)
            assert offset is not None
            if offset >= self.log_end:
                break
            fetched = [each for each in self.log if each.end > offset][:3]
            ranges, _ = self.window.acquire("z", fetched, offset=offset, limits=limits, due_ms=self.now_ms)
            expected -= {each for first, last, _ in ranges for each in range(first, last + 1)}
            mine = [Acknowledgement(r.first, r.end, AcknowledgeType.ACCEPT) for r in self.window.runs if r.member]
            begun = self.window.acknowledge("z", mine, delivery_limit=LIMIT, due_ms=0, may_renew=False)
            assert isinstance(begun, Transition)
            self.window.written(begun)
        assert self.window.start == self.window.end >= self.log_end
        assert not expected, "lost: it was neither acknowledged nor given up, and nobody gets it"
        assert not {each for each in self.promised - self.letters if each >= self.log_start}

    def undelivered(self) -> set[int]:
        """Offsets that somebody has to get: all in the log, but for those that are done, or have been delivered as
        often as they may be."""
        for transition, _, start in self.writing:
            self._store(transition.batches, start)
            self.window.written(transition)
        self.writing.clear()
        exists = {each for batch in self.log if batch.is_delivered for each in range(batch.first, batch.end)}
        at_limit = {each for each, count in self.delivered.items() if count >= LIMIT}
        return exists - self.ended - at_limit - set(range(self.log_start))

    # Chance

    def step(self) -> None:
        """One event, and all that is always true."""
        chosen = self.chosen
        member, is_written = chosen.choice(MEMBERS), chosen.random() < 0.7
        if self.has_letters and chosen.random() < 0.1:
            self.letters_are_written(is_written)
        match chosen.choices(range(10), WEIGHTS)[0]:
            case 0:
                sizes = [(chosen.randint(1, 5), chosen.random() < 0.8) for _ in range(chosen.randint(1, 3))]
                self.grows(sizes)
            case 1:
                self.member_fetches(
                    member,
                    most=chosen.randint(1, 8),
                    batch_size=chosen.randint(1, 4),
                    is_exact=chosen.random() < 0.5,
                    reads=chosen.randint(1, 3),
                )
            case 2:
                kinds = chosen.choices(list(AcknowledgeType), k=chosen.randint(1, 6))
                self.member_acknowledges(member, kinds, chosen.choice((0, 0, 1, 3)))
            case 3:
                self.member_acknowledges_what_it_likes(
                    member, max(0, self.window.start + chosen.randint(-3, WINDOW)), chosen.randint(1, 9)
                )
            case 4:
                if self.writing:
                    self.write_succeeds()
            case 5:
                if self.writing:
                    self.write_fails(chosen.random() < 0.5, is_written)
            case 6:
                self.time_passes(chosen.choice((10.0, 60.0, 200.0)), is_written)
            case 7:
                self.member_goes(member, is_written)
            case 8:
                self.leader_changes()
            case 9 if chosen.random() < 0.5:
                self.is_compacted(chosen.randint(0, 20))
            case _:
                self.loses_its_start(chosen.randint(1, 4))
        self.runs_are_the_window()
        self.window_is_no_larger_than_it_may_be()
        self.accepted_offsets_stay_done()
        self.promised_letters_come_before_the_end()


WEIGHTS = (12, 25, 20, 4, 14, 4, 6, 3, 2, 2)


@pytest.mark.parametrize("seed", range(60))
def test_the_window_keeps_its_promises_whatever_happens(seed: int) -> None:
    partition = Partition(seed)
    for _ in range(300):
        partition.step()
    assert partition.accepted
    assert max(partition.delivered.values()) > 1
    partition.finish()


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_a_rejected_record_ends_with_a_dead_letter(seed: int) -> None:
    partition = Partition(seed, has_letters=True)
    for _ in range(300):
        partition.step()
    partition.finish()
    assert partition.letters
