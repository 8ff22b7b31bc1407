"""Random histories of one partition against a plain model: offsets, duplicates, last stable offset, aborted list.

The model keeps every batch as a tuple and computes everything from scratch. Segments are tiny, so that transactions,
indexes and snapshots cross many of them; restarts, clean and not, come at any point.
"""

import asyncio
import random
from dataclasses import dataclass, field

from batches import NOW_MS, data, marker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import Logs, read_now
from manual_flusher import ManualFlusher

from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import batches
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, Refused

TINY = LogConfig(internal_segment_bytes=420, index_interval_bytes=150)
PIDS = st.integers(1, 3)

STEPS = st.one_of(
    st.tuples(st.just("data"), PIDS, st.integers(1, 3)),
    st.tuples(st.just("plain"), st.just(0), st.integers(1, 3)),
    st.tuples(st.just("retry"), PIDS, st.integers(1, 5)),
    st.tuples(st.just("commit"), PIDS, st.just(0)),
    st.tuples(st.just("abort"), PIDS, st.just(0)),
    st.tuples(st.just("flush"), st.just(0), st.just(0)),
    st.tuples(st.just("checkpoint"), st.just(0), st.just(0)),
    st.tuples(st.just("trim"), st.just(0), st.integers(0, 9)),
)


@dataclass
class Producer:
    epoch: int = 0
    sequence: int = 0
    first_offset: int | None = None
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, count, base offset) of this epoch."""


@dataclass
class Model:
    end: int = 0
    start: int = 0
    synced: int = 0
    producers: dict[int, Producer] = field(default_factory=dict)
    transactions: list[tuple[int, int, int | None, bool]] = field(default_factory=list)
    """(pid, first offset, marker offset or None, committed)."""

    def cut(self, end: int) -> None:
        """The log has lost everything from `end` on."""
        self.transactions = [
            (pid, first, marker if marker is not None and marker < end else None, committed)
            for pid, first, marker, committed in self.transactions
            if first < end
        ]
        self.end = self.synced = end

    def last_stable(self, high_watermark: int) -> int:
        unstable = [
            first
            for _, first, end, _ in self.transactions
            if first < high_watermark and (end is None or end >= high_watermark)
        ]
        return max(self.start, min([*unstable, high_watermark]))

    def aborted(self, first: int, end: int) -> set[tuple[int, int]]:
        """What a reader of [first, end) must be told."""
        return {
            (pid, begun)
            for pid, begun, ended, committed in self.transactions
            if ended is not None and not committed and ended >= first and begun < end
        }


class History:
    """A log and its model, side by side."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.model = Model()
        self.log: PartitionLog

    async def open(self) -> None:
        self.log = await self.logs.open()

    async def step(self, kind: str, pid: int, number: int) -> None:
        model, log = self.model, self.log
        producer = model.producers.setdefault(pid, Producer())
        if kind == "plain":
            self.expect(self.logs.append(log, data(number)), model.end)
            model.end += number
        elif kind == "data":
            batch = data(number, pid=pid, epoch=producer.epoch, seq=producer.sequence, txn=True)
            self.expect(self.logs.append(log, batch), model.end)
            producer.sent.append((producer.sequence, number, model.end))
            if producer.first_offset is None:
                producer.first_offset = model.end
                model.transactions.append((pid, model.end, None, False))
            producer.sequence += number
            model.end += number
        elif kind == "retry" and len(producer.sent) >= number:
            sequence, count, base = producer.sent[-number]
            batch = data(count, pid=pid, epoch=producer.epoch, seq=sequence, txn=True)
            result = self.logs.append(log, batch)
            assert result == Appended(base, base + count - 1, log_start_offset=log.log_start_offset, duplicate=True)
        elif kind in ("commit", "abort"):
            self.end_transaction(pid, producer, commit=kind == "commit")
        elif kind == "flush":
            if isinstance(self.logs.flusher, ManualFlusher):
                self.logs.flusher.flush()
            model.synced = model.end
        elif kind == "checkpoint":
            await self.logs.manager.checkpoint(force=True)
        elif kind == "trim":
            offset = min(log.high_watermark, model.start + number)
            assert await log.delete_records_before(offset) == 0
            model.start = max(model.start, offset)
            await self.logs.manager.apply_retention(NOW_MS)

    def forget_deleted_batches(self) -> None:
        """After a restart only a producer's last batch is known of those that retention has deleted."""
        for producer in self.model.producers.values():
            oldest = self.log.segments.bases[0] if len(self.log.segments) else 0
            producer.sent = [sent for sent in producer.sent if sent[2] >= oldest or sent is producer.sent[-1]]

    def end_transaction(self, pid: int, producer: Producer, *, commit: bool) -> None:
        model = self.model
        result = self.log.append_marker(marker(pid, producer.epoch + 1, commit=commit, version=2), now_ms=NOW_MS)
        self.expect(result, model.end)
        if producer.first_offset is not None:
            at = model.transactions.index((pid, producer.first_offset, None, False))
            model.transactions[at] = (pid, producer.first_offset, model.end, commit)
        model.producers[pid] = Producer(epoch=producer.epoch + 1)
        model.end += 1

    @staticmethod
    def expect(result: object, base: int) -> None:
        assert isinstance(result, Appended), result
        assert result.base_offset == base
        assert not result.duplicate

    def check(self) -> None:
        """The log says what the model says."""
        model, log = self.model, self.log
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.high_watermark == (model.synced if log.context.flusher.defers else model.end)
        assert log.last_stable_offset == model.last_stable(log.high_watermark)
        for isolation in (None, IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            for max_bytes in (1, 250, 1 << 20):
                self.read_through(isolation, max_bytes)

    def read_through(self, isolation: IsolationLevel | None, max_bytes: int) -> None:
        log, offset = self.log, self.model.start
        end = log.visible_end(isolation)
        while offset < end:
            result = read_now(log, offset, max_bytes=max_bytes, isolation=isolation)
            available = log.bytes_available(offset, isolation=isolation, limit=1 << 30)
            headers = [header for _, header in batches(result.records)]
            assert headers, (offset, end)
            assert sum(header.size for header in headers) == len(result.records) <= available
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            if isolation is IsolationLevel.READ_COMMITTED:
                self.check_aborted(result.aborted, offset, headers[-1].next_offset)
            offset = headers[-1].next_offset
        assert offset == end or end <= self.model.start

    def check_aborted(self, aborted: object, first: int, end: int) -> None:
        assert isinstance(aborted, tuple)
        told = [(item.producer_id, item.first_offset) for item in aborted]
        assert told == sorted(told, key=lambda item: item[1])
        assert set(told) >= self.model.aborted(first, end), (first, end)
        assert set(told) <= self.model.aborted(0, 1 << 60)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(STEPS, max_size=25), min_size=1, max_size=4),
    st.sampled_from([Durability.OS, Durability.FSYNC]),
    st.booleans(),
)
def test_a_log_agrees_with_its_model_through_any_history_and_restarts(
    lives: list[list[tuple[str, int, int]]], durability: Durability, is_clean: bool
) -> None:
    async def run() -> None:
        history = History(Logs(config=TINY, durability=durability))
        await history.open()
        for number, steps in enumerate(lives):
            for step in steps:
                await history.step(*step)
            history.check()
            if is_clean or number % 2:
                history.log = await history.logs.reopen()
            else:
                history.log = await history.logs.start_again(history.logs.fake.killed())
            history.model.synced = history.model.end
            history.forget_deleted_batches()
            history.check()

    asyncio.run(run())


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40), st.integers(0, 2**32))
def test_acknowledged_records_survive_a_power_loss(steps: list[tuple[str, int, int]], seed: int) -> None:
    async def run() -> None:
        logs = Logs(config=TINY, durability=Durability.FSYNC)
        history = History(logs)
        await history.open()
        for step in steps:
            await history.step(*step)
        acknowledged, start = history.log.high_watermark, history.log.log_start_offset
        before = [(header.base_offset, header.crc) for header in _headers(history.log)]
        log = await logs.start_again(logs.fake.power_loss(random.Random(seed)))
        assert acknowledged <= log.log_end_offset <= history.model.end
        assert log.log_start_offset == start
        after = [(header.base_offset, header.crc) for header in _headers(log)]
        assert after == before[: len(after)]
        history.log = log
        history.model.cut(log.log_end_offset)
        history.check()
        result = log.append(data(), now_ms=NOW_MS)
        assert not isinstance(result, Refused)

    asyncio.run(run())


def _headers(log: PartitionLog) -> list:  # type: ignore[type-arg]
    return [header for batch in log.batches() for _, header in batches(batch)]
