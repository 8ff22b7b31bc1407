"""`Collector`: reads every counter of a broker into the families of prometheus_client (console.md 4.2 and 4.3).

It runs in the event loop and copies numbers, a family or a piece of a long list in a turn.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from eosin.broker.services import Services
from eosin.broker.traffic_stats import TrafficStats
from eosin.network.request_stats import RequestStats
from eosin.observe.metrics.broker_metrics import BrokerMetrics, Connected
from eosin.observe.metrics.families import Family
from eosin.observe.metrics.group_metrics import GroupMetrics
from eosin.observe.metrics.loop_timer import LoopTimer
from eosin.observe.metrics.partition_metrics import PartitionMetrics
from eosin.observe.metrics.share_metrics import ShareMetrics
from eosin.observe.metrics.share_state_metrics import ShareStateMetrics
from eosin.observe.metrics.transaction_metrics import TransactionMetrics
from eosin.observe.metrics.work_stats import FlushStats, StartStats, VerificationStats
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.survey.survey import Survey
from eosin.runtime.loop_watch import LoopWatch
from eosin.runtime.turns import next_turn

if TYPE_CHECKING:
    from eosin.observe.tracing.span_queue import SpanQueue


class Collector:
    """Reads one broker."""

    def __init__(
        self,
        services: Services,
        survey: Survey,
        recorder: FlightRecorder | None,
        *,
        requests: RequestStats,
        traffic: TrafficStats,
        loop: LoopTimer,
        watch: LoopWatch,
        flushes: FlushStats,
        verifications: VerificationStats,
        start: StartStats,
        connections: Callable[[], Iterable[Connected]],
        spans: "SpanQueue | None" = None,
    ) -> None:
        self._parts = (
            TransactionMetrics(survey, services.clock, recorder, spans),
            PartitionMetrics(services, survey, traffic),
            GroupMetrics(services, survey),
            ShareMetrics(services),
            ShareStateMetrics(services),
            BrokerMetrics(
                services,
                requests=requests,
                loop=loop.stats,
                watch=watch,
                flushes=flushes,
                verifications=verifications,
                durable_waits=traffic.durable_waits,
                start=start,
                connections=connections,
            ),
        )

    async def families(self) -> list[Family]:
        """Every family, as the numbers are now; others get their turns in between."""
        found = []
        for part in self._parts:
            async for family in part.families():
                found.append(family)
                await next_turn()
        return found
