"""The paths of the console that read logs: `/api/v1/partitions/NAME/batches` and `.../records` (console.md 5.2, 5.3).

Always true: whatever is asked, an answer or a sentence comes; work that is too much for now is refused, and not queued.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eosin.broker.services import Services
from eosin.observe.console.log_pieces import Offline
from eosin.observe.console.log_view import MOST_BATCHES, LogView
from eosin.observe.console.record_access import Hidden, RecordAccess
from eosin.observe.console.record_questions import (
    BadQuestion,
    ShownRecords,
    records_question,
    requested_number,
    requested_offset,
)
from eosin.observe.console.records_view import RecordsView
from eosin.observe.console.rounds import Rounds
from eosin.observe.console.worker_threads import Busy, WorkerThreads
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel as LogIsolation
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import CorruptRecords
from eosin.protocol.records.budget import Budget, BudgetSpent
from eosin.runtime.thread_rest import ThreadRest
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.timestamp_search import SEARCH_WORK

JSON: Final = "application/json"

_EYES: Final = {
    ShownRecords.COMMITTED: LogIsolation.READ_COMMITTED,
    ShownRecords.UNCOMMITTED: LogIsolation.READ_UNCOMMITTED,
    ShownRecords.EVERYTHING: None,
}

Look = Callable[[Request, TopicPartition, PartitionLog], Awaitable[msgspec.Struct]]


class LogRoutes:
    """The routes of one broker's console about logs and records."""

    def __init__(self, services: Services, rounds: Rounds, work: WorkerThreads) -> None:
        self._services = services
        self._work = work
        self._view = LogView(services, rounds, work)
        self._records_view = RecordsView(services, rounds, work)
        self._access = RecordAccess(services)

    def routes(self) -> list[Route]:
        """They must stand before the path of a partition's facts, which takes every name."""
        return [
            Route("/api/v1/partitions/{name}/batches", self._of_a_log(self._batches)),
            Route("/api/v1/partitions/{name}/records", self._of_a_log(self._records)),
        ]

    async def _batches(self, request: Request, partition: TopicPartition, log: PartitionLog) -> msgspec.Struct:
        first, end = requested_offset(request.query_params, "from"), requested_offset(request.query_params, "to")
        limit = requested_number(request.query_params, "limit", MOST_BATCHES, most=MOST_BATCHES)
        return await self._view.read(partition, log, first, end, limit)

    async def _records(self, request: Request, partition: TopicPartition, log: PartitionLog) -> msgspec.Struct:
        shown = self._access.to(partition.topic, "?" if request.client is None else request.client.host)
        question = records_question(request.query_params, shown)
        if question.time_ms is not None:
            question = question._replace(first=await _offset_at(log, question.time_ms, question.isolation))
        return await self._records_view.read(partition, log, question, shown)

    def _of_a_log(self, look: Look) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            name = request.path_params["name"]
            partition = partition_named(name)
            log = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else self._log(partition)
            if partition is None or isinstance(log, ErrorCode):
                return refused(404, f"this broker has no log of {name[:300]!r}")
            try:
                found = await self._work.job(look(request, partition, log))
            except Hidden as error:
                return refused(403, str(error))
            except BadQuestion as error:
                return refused(400, str(error))
            except Busy:
                return refused(503, "others are reading logs just now: ask again in a second", retry=True)
            except BudgetSpent:
                return refused(503, f"the log of {name} takes too long to search: give an offset instead of a time")
            except (Offline, OSError, CorruptRecords) as error:
                return refused(503, f"the log of {name} cannot be read: {error}")
            return Response(msgspec.json.encode(found) + b"\n", media_type=JSON)

        return respond

    def _log(self, partition: TopicPartition) -> PartitionLog | ErrorCode:
        return self._services.partitions.replica(partition)


async def _offset_at(log: PartitionLog, at_ms: int, isolation: ShownRecords) -> int:
    """The offset of the first record at or after a time; the end of the visible part if there is none. Raises
    OSError, CorruptRecords, BudgetSpent."""
    eyes = _EYES[isolation]
    rest = ThreadRest()
    try:
        found = await log.offset_for_timestamp(at_ms, isolation=eyes, budget=Budget(SEARCH_WORK, rest.rest))
    finally:
        rest.give_up()
    return log.visible_end(eyes) if found is None else found.offset


def partition_named(name: str) -> TopicPartition | None:
    """The partition of a name as in `orders-0`."""
    topic, _, index = name.rpartition("-")
    is_one = topic and len(name) <= 300 and index.isascii() and index.isdecimal() and len(index) < 10
    return TopicPartition(topic, int(index)) if is_one else None


def refused(status: int, why: str, *, retry: bool = False) -> Response:
    """An answer that says why there is none."""
    headers = {"retry-after": "1"} if retry else {}
    return Response(msgspec.json.encode({"error": why}) + b"\n", status, headers=headers, media_type=JSON)
