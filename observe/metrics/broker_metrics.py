"""Metrics of the broker as a process: requests, connections, the event loop, the disk, the build (console.md 4.3)."""

import platform
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Protocol

from eosin.broker.services import Services
from eosin.network.request_stats import LATENCIES_MS, Latencies, RequestStats
from eosin.observe.metrics.families import Distribution, Family, Row, counter, gauge, histogram, single
from eosin.observe.metrics.loop_stats import LoopStats
from eosin.observe.metrics.work_stats import SIZES, FlushStats, StartStats, VerificationStats
from eosin.observe.recorder.stats import api_name
from eosin.observe.survey.slices import in_slices
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.runtime.loop_watch import LoopWatch
from eosin.runtime.version import VERSION, is_compiled

QUANTILES = (0.5, 0.95, 0.99)


class Connected(Protocol):
    """A connection, as far as metrics go."""

    listener: str
    software: tuple[str, str]


class BrokerMetrics:
    """Reads one broker."""

    def __init__(
        self,
        services: Services,
        *,
        requests: RequestStats,
        loop: LoopStats,
        watch: LoopWatch,
        flushes: FlushStats,
        verifications: VerificationStats,
        durable_waits: Latencies,
        start: StartStats,
        connections: Callable[[], Iterable[Connected]],
    ) -> None:
        self._services = services
        self._requests = requests
        self._loop = loop
        self._watch = watch
        self._flushes = flushes
        self._verifications = verifications
        self._durable_waits = durable_waits
        self._start = start
        self._connections = connections

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        for family in self._requests_served():
            yield family
        async for family in self._connected():
            yield family
        for part in (self._busy, self._worked, self._cluster):
            for family in part():
                yield family
        yield single(
            "eosin_flush_backlog_bytes",
            "Bytes that are written and not durable yet.",
            self._services.partitions.unflushed_bytes,
        )
        yield single(
            "eosin_disk_full",
            "1 while records are refused for want of space on the disk; reads go on.",
            float(self._services.partitions.is_disk_full),
        )

    def _requests_served(self) -> Iterator[Family]:
        stats = self._requests
        versions: list[Row] = [
            ((_api(both >> 16), str(both & 0xFFFF)), count) for both, count in sorted(stats.versions.items())
        ]
        prefix = "kafka_network_requestmetrics_"
        yield counter(f"{prefix}requests_total", "Requests answered.", versions, "request", "version")
        by_key = sorted(stats.latencies.items())
        times: list[Row] = [
            ((_api(key), str(quantile)), latencies.quantile_ms(quantile))
            for key, latencies in by_key
            for quantile in QUANTILES
        ]
        yield gauge(f"{prefix}totaltimems", "From frame to response, by our buckets.", times, "request", "quantile")
        counts: list[Row] = [((_api(key),), latencies.count) for key, latencies in by_key]
        yield gauge(f"{prefix}totaltimems_count", "Requests answered.", counts, "request")
        bounds = [bound / 1000 for bound in LATENCIES_MS]
        yield histogram(
            "eosin_request_seconds",
            "From frame to response.",
            [
                Distribution((_api(key),), bounds, tuple(latencies.counts), latencies.total_ns / 1e9)
                for key, latencies in by_key
            ],
            "request",
        )

    async def _connected(self) -> AsyncIterator[Family]:
        listeners = Counter(dict.fromkeys(self._listeners(), 0))
        software: Counter[tuple[str, str, str]] = Counter()
        async for some in in_slices(list(self._connections())):
            for connection in some:
                listeners[connection.listener] += 1
                name, version = connection.software
                software[name or "unknown", version or "unknown", connection.listener] += 1
        prefix = "kafka_server_socket_server_metrics_"
        yield gauge(
            f"{prefix}connection_count",
            "Connections.",
            [((name, "0"), count) for name, count in listeners.items()],
            "listener",
            "networkProcessor",
        )
        yield gauge(
            f"{prefix}connections_software",
            "Connections by client library.",
            software.most_common(MOST_SOFTWARE),
            "clientSoftwareName",
            "clientSoftwareVersion",
            "listener",
        )

    def _listeners(self) -> Iterator[str]:
        return (listener.name for listener in self._services.config.bound_listeners)

    def _busy(self) -> Iterator[Family]:
        loop = self._loop
        idle = 1 - loop.busy_ratio
        yield single("eosin_loop_busy_ratio", "Share of time that the event loop's thread works.", loop.busy_ratio)
        yield single("kafka_network_socketserver_networkprocessoravgidle_percent", "1 - loop busy.", idle)
        yield single("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "1 - loop busy.", idle)
        yield _seconds("eosin_loop_delay_seconds", "How late the event loop calls what is due.", loop.delays)
        stalls: list[Row] = [((cause,), count) for cause, count in self._watch.counts.items()]
        yield counter("eosin_loop_stalls_total", "Times in which the event loop stood still.", stalls, "cause")
        longest = self._watch.longest
        text = "The longest of them, pauses of the process left out."
        yield single("eosin_loop_stall_longest_seconds", text, 0.0 if longest is None else longest.ms / 1000)

    def _worked(self) -> Iterator[Family]:
        flushes = self._flushes
        yield _seconds("eosin_flush_seconds", "Flushes of logs and of the journal.", flushes.latencies)
        flushed = Distribution((), SIZES, tuple(flushes.sizes), flushes.total_bytes)
        yield histogram("eosin_flush_bytes", "What a flush has made durable.", [flushed])
        text = "Produce requests, from their last append until all of it was as durable as they ask for."
        yield _seconds("eosin_durable_wait_seconds", text, self._durable_waits)
        phases: list[Row] = [((phase,), seconds) for phase, seconds in self._start.seconds.items()]
        yield gauge("eosin_start_seconds", "How long the parts of this start took.", phases, "phase")
        asked = self._verifications
        results: list[Row] = [((name,), count) for name, count in ({ErrorCode.NONE.name: 0} | asked.results).items()]
        text = "What transaction coordinators answered to partitions with the first batch of a transaction."
        yield counter("eosin_verification_total", text, results, "result")
        yield _seconds("eosin_verification_seconds", "Until they had answered.", asked.latencies)
        done = self._services.partitions.compacted
        yield counter("eosin_compaction_total", "Logs compacted.", [((), done.times)])
        yield counter("eosin_compaction_failures_total", "Logs that could not be compacted.", [((), done.failed)])
        yield counter("eosin_compaction_seconds_total", "Time spent on it.", [((), done.took_ms / 1000)])
        sizes: list[Row] = [(("before",), done.bytes_before), (("after",), done.bytes_after)]
        yield counter("eosin_compaction_bytes_total", "Bytes of these logs, before and after it.", sizes, "when")

    def _cluster(self) -> Iterator[Family]:
        services = self._services
        listener = next(self._listeners(), "")
        brokers = services.cluster.brokers(listener)
        yield single("kafka_brokers", "Live brokers of the cluster.", len(brokers))
        addresses: list[Row] = [((f"{each.host}:{each.port}", str(each.node_id)), 1) for each in brokers]
        yield gauge("kafka_broker_info", "1 for each live broker.", addresses, "address", "id")
        build = (VERSION, platform.python_version(), str(is_compiled()).lower(), services.config.durability)
        labels = ("version", "python", "compiled", "durability")
        yield gauge("eosin_build_info", "What runs here.", [(build, 1)], *labels)


MOST_SOFTWARE = 100
"""Libraries and versions that have a series: clients choose their names."""


def _seconds(name: str, text: str, latencies: Latencies) -> Family:
    bounds = [bound / 1000 for bound in LATENCIES_MS]
    return histogram(name, text, [Distribution((), bounds, tuple(latencies.counts), latencies.total_ns / 1e9)])


def _api(key: int) -> str:
    return api_name(ApiKey(key))
