"""Random histories of a compacted partition against a plain model: what a consumer sees, offsets, the last stable
offset, duplicates, through compactions at any moment, jumps of the clock and restarts.

The model keeps every record that was ever written. Segments are tiny, so that transactions cross many of them.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

from batches import marker
from compaction import COMPACT, DELETE_RETENTION_MS, Consumer, Seen, compact, compacted_logs, keyed, stored, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import DATA_DIR, Logs

from eosin.protocol.records.batch import Compression, batches, iter_records
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import Segment
from eosin.storage.results.log_results import Appended, Refused

PIDS = st.integers(1, 3)
KEYS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("data"), PIDS, KEYS),
    st.tuples(st.just("data"), PIDS, KEYS),
    st.tuples(st.just("plain"), st.just(9), KEYS),
    st.tuples(st.just("commit"), PIDS, st.booleans()),
    st.tuples(st.just("abort"), PIDS, st.booleans()),
    st.tuples(st.just("clean"), st.just(0), st.just(0)),
    st.tuples(st.just("clean"), st.just(0), st.just(0)),
    st.tuples(st.just("jump"), st.just(0), st.sampled_from([1000, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS])),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    st.tuples(st.just("kill"), st.just(0), st.just(0)),
    st.tuples(st.just("forget"), st.just(0), st.just(0)),
)


@dataclass
class Producer:
    epoch: int = 0
    sequence: int = 0
    first_offset: int | None = None
    pending: list[Seen] = field(default_factory=list)
    sent: list[tuple[bytes, int, int]] = field(default_factory=list)
    """(batch, base offset, last offset) of this epoch."""


class History:
    """A compacted log and what must be true of it."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.log: PartitionLog
        self.end = 0
        self.producers: dict[int, Producer] = {}
        self.written: dict[int, Seen] = {}
        self.decided: list[Seen] = []
        """Committed and plain records, in the order of their offsets once sorted."""

    async def open(self) -> None:
        self.log = await self.logs.open()

    async def step(self, kind: str, pid: int, what: object) -> None:
        match kind, what:
            case (("data" | "plain"), list()):
                self.write(pid, what, transactional=kind == "data")
            case (("commit" | "abort"), bool()):
                self.end_transaction(pid, commit=kind == "commit", bump=what)
            case "clean", _:
                await compact(self.logs)
            case "jump", int():
                self.logs.clock.advance(what)
            case "reopen", _:
                self.log = await self.logs.reopen()
            case "kill", _:
                self.log = await self.logs.start_again(self.logs.fake.killed())
            case "forget", _:
                await self.start_without_snapshots()

    async def start_without_snapshots(self) -> None:
        """Everything that is known of producers has to be found in what compaction has left."""
        disk = self.logs.fake.killed()
        disk.write_atomic(f"{DATA_DIR}/recovery-point-offset-checkpoint", b"0\n0\n")
        home = f"{DATA_DIR}/orders-0"
        names = disk.list(home) if disk.is_directory(home) else []
        for name in names:
            if name.endswith(".snapshot"):
                disk.unlink(f"{home}/{name}")
        self.log = await self.logs.start_again(disk)

    def write(self, pid: int, keys: list[tuple[str, bool]], *, transactional: bool) -> None:
        producer = self.producers.setdefault(pid, Producer())
        batch = keyed(
            *[(key, None if gone else f"{self.end + at}") for at, (key, gone) in enumerate(keys)],
            pid=pid,
            epoch=producer.epoch,
            seq=producer.sequence,
            txn=transactional,
            at=self.logs.clock.now_ms(),
            compression=Compression.LZ4 if self.end % 3 == 0 else Compression.NONE,
        )
        result = self.logs.append(self.log, batch)
        assert isinstance(result, Appended), result
        assert (result.base_offset, result.duplicate) == (self.end, False)
        records = [
            Seen(self.end + at, key.encode(), None if gone else b"%d" % (self.end + at), self.logs.clock.now_ms() + at)
            for at, (key, gone) in enumerate(keys)
        ]
        self.written |= {each.offset: each for each in records}
        if transactional:
            producer.pending += records
            producer.first_offset = self.end if producer.first_offset is None else producer.first_offset
        else:
            self.decided += records
        producer.sent.append((batch, self.end, self.end + len(keys) - 1))
        producer.sequence += len(keys)
        self.end += len(keys)

    def end_transaction(self, pid: int, *, commit: bool, bump: bool) -> None:
        producer = self.producers.setdefault(pid, Producer())
        epoch = producer.epoch + bump
        result = self.log.append_marker(
            marker(pid, epoch, commit=commit, version=2 if bump else 0), now_ms=self.logs.clock.now_ms()
        )
        assert isinstance(result, Appended), result
        if commit:
            self.decided += producer.pending
        producer.pending = []
        producer.first_offset = None
        if bump:
            self.producers[pid] = Producer(epoch=epoch)
        self.end += 1

    def check(self) -> None:
        log = self.log
        unstable = [each.first_offset for each in self.producers.values() if each.first_offset is not None]
        assert log.log_end_offset == self.end
        assert log.last_stable_offset == min([*unstable, self.end])
        assert all(seen == self.written[seen.offset] for seen in stored(log))
        decided = sorted(seen for seen in self.decided if seen.offset < log.last_stable_offset)
        for max_bytes in (1, 300, 1 << 20):
            consumed = Consumer().read_all(log, max_bytes=max_bytes)
            assert consumed.seen == sorted(set(consumed.seen) & set(decided)), "only what was committed, in order"
            assert table(consumed.seen) == table(decided)
        self.check_segments()
        self.check_duplicates()

    def check_segments(self) -> None:
        for segment, following in pairwise(self.log.segments):
            assert segment.end_offset == following.base_offset, "no gap"
        for segment in self.log.segments:
            self.check_indexes(segment)

    def check_indexes(self, segment: Segment) -> None:
        """What Apache Kafka's own tool checks (storage.md 21)."""
        data = segment.file.read(0, segment.size)
        starts = {header.last_offset: at for at, header in batches(data)}
        latest = {
            header.last_offset: max((record.timestamp for record in iter_records(data[at:])), default=-1)
            for at, header in batches(data)
        }
        for relative, position in segment.offset_index.rows():
            assert starts[segment.base_offset + relative] == position
        for timestamp, relative in segment.time_index.rows():
            assert latest[segment.base_offset + relative] == timestamp

    def check_duplicates(self) -> None:
        for pid, producer in self.producers.items():
            if producer.epoch:
                late = self.logs.append(self.log, keyed(("a", "late"), pid=pid, epoch=producer.epoch - 1, seq=0))
                assert isinstance(late, Refused), "a fenced epoch stays fenced"
            for batch, base, last in producer.sent[-5:]:
                again = self.logs.append(self.log, batch)
                assert again == Appended(base, last, duplicate=True), again


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(STEPS, max_size=20), min_size=1, max_size=4))
def test_a_compacted_log_agrees_with_its_model_through_any_history(lives: list[list[tuple[str, int, object]]]) -> None:
    async def run() -> None:
        history = History(compacted_logs(COMPACT))
        await history.open()
        for steps in lives:
            for step in steps:
                await history.step(*step)
            await compact(history.logs)
            history.check()
        history.log = await history.logs.reopen()
        history.check()

    asyncio.run(run())
