"""`BrokerHistory`: what the broker has done in the last quarter of an hour, in pieces of five seconds (console.md 5.2).

Always true: a look reads counters that are kept anyway, a slice of topics in a turn of the event loop; `KEPT`
samples are kept, whoever watches; how long a sample is goes by a clock that nobody sets, so a broker that was paused
has a long sample, and no false peak.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from eosin.broker.partitions import Partitions
from eosin.broker.traffic_stats import TopicTraffic, TrafficStats
from eosin.network.request_stats import LATENCIES_MS, RequestStats, bucket_quantile
from eosin.observe.console.tables import Table
from eosin.observe.metrics.work_stats import FlushStats
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.recorder.stats import DURATIONS_MS
from eosin.observe.survey.slices import LOG, in_slices
from eosin.runtime.clock import NS_PER_MS, Clock, thread_cpu_ns
from eosin.storage.disk.interfaces import FreeBytes

EVERY_MS: Final = 5000
KEPT: Final = 180
"""A quarter of an hour."""
RECENT: Final = 12
"""Samples that the figures of flushes are of: a minute."""
SLOW: Final = 0.99
COMMITTED: Final = "commit"


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counts of a piece of time."""

    key: int
    """Counts up from the start of the broker."""
    at_ms: int
    """The time at which it ended, by the broker's clock."""
    took_ms: int
    """The length of the piece."""
    commits: int = 0
    ended_otherwise: int = 0
    """Transactions that were aborted, timed out or fenced, whoever ended them."""
    commit_ms: float = 0.0
    """From the request to commit to the last marker: 99 of 100 took no longer. By the bounds of buckets."""
    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    flush_ms: float = 0.0
    """99 of 100 flushes took no longer, by the bounds of buckets."""
    flushes: int = 0
    busy: float = 0.0
    """The share of the time that the event loop's thread has worked."""


class DiskFigures(NamedTuple):
    """Of the disk, as far as it is known; the last fields of a broker's row."""

    free_bytes: int = -1
    total_bytes: int = -1
    flushes: int = 0
    """Of the last minute."""
    flush_ms: float = 0.0
    """Half of them took no longer."""
    flush_slow_ms: float = 0.0
    """99 of 100 took no longer."""


class _BrokerTotals(NamedTuple):
    """Everything that was ever counted, at one moment."""

    elapsed_ms: int
    worked_ns: int
    commits: int
    ended_otherwise: int
    records_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    commit_buckets: tuple[int, ...]
    flush_buckets: tuple[int, ...]


class BrokerHistory:
    """Of one broker."""

    def __init__(
        self,
        partitions: Partitions,
        recorder: FlightRecorder | None,
        clock: Clock,
        *,
        requests: RequestStats,
        traffic: TrafficStats,
        flushes: FlushStats,
        worked_ns: Callable[[], int] = thread_cpu_ns,
    ) -> None:
        """`worked_ns` is what the event loop's thread has worked."""
        self._partitions = partitions
        self._recorder = recorder
        self._clock = clock
        self._requests = requests
        self._traffic = traffic
        self._flushes = flushes
        self._worked_ns = worked_ns
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self._recent: deque[tuple[int, ...]] = deque(maxlen=RECENT)
        """The buckets of flushes at the beginning of each of the last samples."""
        self._before = _BrokerTotals(clock.elapsed_ms(), worked_ns(), *(0,) * 6, (), tuple(flushes.latencies.counts))
        self._number = 0
        self._number_sent = 0
        """The last sample that a table was given."""
        self._room: FreeBytes | None = None
        self.disk = DiskFigures()

    async def sample(self) -> None:
        """Add a sample."""
        before, now = self._before, await self._count()
        self._before = now
        took_ms = now.elapsed_ms - before.elapsed_ms
        self._number += 1
        self.samples.append(
            Sample(
                self._number,
                self._clock.now_ms(),
                max(1, took_ms),
                now.commits - before.commits,
                now.ended_otherwise - before.ended_otherwise,
                bucket_quantile(DURATIONS_MS, grown(now.commit_buckets, before.commit_buckets), SLOW),
                now.records_in - before.records_in,
                now.bytes_in - before.bytes_in,
                now.bytes_out - before.bytes_out,
                now.requests - before.requests,
                bucket_quantile(LATENCIES_MS, grown(now.flush_buckets, before.flush_buckets), SLOW),
                sum(now.flush_buckets) - sum(before.flush_buckets),
                min(1.0, (now.worked_ns - before.worked_ns) / NS_PER_MS / max(1, took_ms)),
            )
        )
        self._recent.append(before.flush_buckets)
        self._figures()

    async def measure_disk(self) -> None:
        """See how much room there is. Raises OSError."""
        try:
            self._room = await self._partitions.free_bytes()
        except OSError:
            self._room = None
            raise
        finally:
            self._figures()

    def update(self, table: Table[int], version: int) -> None:
        """Bring a table up to now."""
        if self._number_sent == self._number:
            return
        new = min(self._number - self._number_sent, len(self.samples))
        for sample in list(self.samples)[-new:]:
            table.put(sample.key, sample, version)
        self._number_sent = self._number
        oldest = self.samples[0].key
        for key in [each for each in table.keys() if each < oldest]:  # noqa: SIM118 - not a dict
            table.remove(key, version)

    def _figures(self) -> None:
        room = self._room
        flushed = grown(self._before.flush_buckets, self._recent[0]) if self._recent else ()
        self.disk = DiskFigures(
            -1 if room is None else room.free,
            -1 if room is None else room.total,
            sum(flushed),
            bucket_quantile(LATENCIES_MS, flushed, 0.5),
            bucket_quantile(LATENCIES_MS, flushed, SLOW),
        )

    async def _count(self) -> _BrokerTotals:
        traffic = TopicTraffic()
        traffic.add(self._traffic.deleted)
        async for some in in_slices(list(self._traffic.topics.values()), LOG):
            for topic in some:
                traffic.add(topic)
        commits = others = 0
        buckets: tuple[int, ...] = ()
        if self._recorder is not None:
            stats = self._recorder.stats
            buckets = tuple(stats.commit_ms.counts)
            for (outcome, _), count in stats.outcomes.items():
                if outcome == COMMITTED:
                    commits += count
                else:
                    others += count
        return _BrokerTotals(
            self._clock.elapsed_ms(),
            self._worked_ns(),
            commits,
            others,
            traffic.messages_in,
            traffic.bytes_in,
            traffic.bytes_out,
            sum(self._requests.versions.values()),
            buckets,
            tuple(self._flushes.latencies.counts),
        )


def grown(now: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
    """The growth of each bucket since `before`; all of its count if there were none before."""
    return tuple(one - other for one, other in zip(now, before, strict=True)) if before else now
