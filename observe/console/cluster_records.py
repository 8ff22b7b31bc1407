"""`ClusterRecords`: records of a partition of any Kafka cluster, over Kafka's protocol (console.md 5.2).

Always true: it reads with the rights of the command's user, and takes no response of more than `MOST_RESPONSE` bytes;
one question fetches no more than about `MOST_FETCHED` bytes. What became of a record behind the last stable offset is
told by the markers that lie in what was fetched.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import BadData, BrokerError, ClientError, ResponseTooLarge
from eosin.client.offsets import list_offsets
from eosin.client.partition_offsets import OffsetAdmin, PartitionOffsets
from eosin.observe.console.log_rows import ABORTED, COMMITTED, CONTROL, OPEN
from eosin.observe.console.page_routes import json_body, refused
from eosin.observe.console.record_access import Shown
from eosin.observe.console.record_picker import (
    LARGEST_BATCH,
    MOST_EXAMINED,
    MOST_SHOWN,
    RecordPicker,
    is_given,
    shown_bytes,
)
from eosin.observe.console.record_questions import BadQuestion, RecordsQuestion, ShownRecords, records_question
from eosin.observe.console.record_rows import RecordsAnswer, RecordSeen
from eosin.observe.console.worker_threads import Busy, WorkerThreads
from eosin.observe.explain.subjects import partition_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import CorruptRecords, batches, read_control_record, verify_crc
from eosin.protocol.schemas.fetch import AbortedTransaction, PartitionData
from eosin.runtime.clock import Clock

FETCHED_AT_ONCE: Final = 1024 * 1024
MOST_FETCHED: Final = 8 * 1024 * 1024
"""Bytes for one question, but for a batch that is larger."""
MOST_RESPONSE: Final = LARGEST_BATCH + FETCHED_AT_ONCE


class _Fetched(NamedTuple):
    """The records of one response."""

    found: list[RecordSeen]
    looked_at: int
    next_offset: int


class ClusterRecords:
    """Reads the records of one cluster."""

    def __init__(self, client: Client, owner: Callable[[int], str | None], clock: Clock) -> None:
        """`owner`: the transactional id of a producer id, where it is known."""
        self._client = client.beside(max_response_bytes=MOST_RESPONSE)
        self._owner = owner
        self._clock = clock
        self._work = WorkerThreads()

    async def respond(self, request: Request) -> Response:
        """Answer `/api/v1/partitions/NAME/records`."""
        name = request.path_params["name"]
        partition = partition_of(name)
        if partition is None:
            return refused(f"{name[:300]!r} names no partition: give it as orders-0", status=404)
        try:
            question = records_question(request.query_params, Shown.ALL)
            return json_body(await self._work.job(self.read(partition, question)))
        except BadQuestion as error:
            return refused(str(error), status=400)
        except Busy:
            return refused("others are reading records just now: ask again in a second", status=503)
        except ClientError as error:
            return refused(_sentence(partition, error), status=_STATUS.get(getattr(error, "code", None), 502))

    async def stop(self) -> None:
        """Read no more."""
        self._work.stop()
        await self._client.close()

    async def read(self, partition: TopicPartition, question: RecordsQuestion) -> RecordsAnswer:
        """The records that were asked for. Raises ClientError."""
        (await self._client.metadata(partition.topic)).leader(partition)  # one without a leader is told of at once
        at = await OffsetAdmin(self._client).of(partition)
        is_committed = question.isolation is ShownRecords.COMMITTED
        end = at.last_stable if is_committed else at.high_watermark
        first = await self._first(partition, question, at, end)
        found: list[RecordSeen] = []
        offset, looked_at, room, budget = first, 0, MOST_SHOWN, MOST_FETCHED
        while offset < end and len(found) < question.limit and looked_at < MOST_EXAMINED and min(room, budget) > 0:
            # Up to the last stable offset the broker tells which transactions were aborted, and behind it of none.
            is_stable = offset < at.last_stable
            until = min(end, at.last_stable) if is_stable else end
            try:
                data = await self._fetch(partition, offset, is_stable=is_stable)
            except BadData:
                if found:  # they are shown; who goes on is told
                    break
                raise
            budget -= len(data.records or b"")
            picker = RecordPicker(
                partition.topic,
                offset,
                until,
                most=question.limit,
                room=room,
                left=MOST_EXAMINED - looked_at,
                question=question,
                with_value=True,
            )
            part = await self._work.beside(_picked, picker, data, offset, until, is_stable=is_stable)
            looked_at += part.looked_at
            offset = max(part.next_offset, offset + 1)
            for seen in part.found:
                seen.is_visible = seen.offset < at.last_stable and seen.outcome not in (ABORTED, OPEN, CONTROL)
                if not is_given(seen, question.isolation):
                    continue
                if len(found) == question.limit:
                    offset = seen.offset
                    break
                found.append(seen)
                room -= shown_bytes(seen)
        known = {each.producer_id for each in found if each.producer_id >= 0}
        return RecordsAnswer(
            str(partition),
            self._clock.now_ms(),
            at.log_start,
            at.last_stable,
            at.high_watermark,
            at.high_watermark,
            first,
            min(offset, max(end, first)),
            looked_at,
            offset >= end,
            found,
            {str(each): name for each in sorted(known) if (name := self._owner(each)) is not None},
            Shown.ALL.value,
        )

    async def _first(self, partition: TopicPartition, question: RecordsQuestion, at: PartitionOffsets, end: int) -> int:
        first = end - question.limit if question.first is None else question.first
        if question.time_ms is not None:
            is_committed = question.isolation is ShownRecords.COMMITTED
            isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
            first = (await list_offsets(self._client, {partition: question.time_ms}, isolation=isolation))[partition]
            first = end if first < 0 else first
        return min(max(first, at.log_start), at.high_watermark)

    async def _fetch(self, partition: TopicPartition, offset: int, *, is_stable: bool) -> PartitionData:
        isolation = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        consumer = Consumer(
            self._client, isolation=isolation, max_bytes=FETCHED_AT_ONCE, partition_max_bytes=FETCHED_AT_ONCE
        )
        try:
            return await consumer.fetch_from(partition, offset)
        except ResponseTooLarge as error:
            raise BadData(
                f"the batch at offset {offset} of {partition} is larger than {LARGEST_BATCH} bytes, which is the most"
                f" that is read for a page: read on from a later offset, or use `eosin consume`"
            ) from error


_STATUS: Final[dict[int | None, int]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
}


def _sentence(partition: TopicPartition, error: ClientError) -> str:
    code = error.code if isinstance(error, BrokerError) else None
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"the user of `eosin console` may not read topic {partition.topic}: it needs READ"
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"this cluster knows no {str(partition)!r}"
    if code == ErrorCode.LEADER_NOT_AVAILABLE:
        return f"{partition} has no leader: nobody reads it now"
    return str(error)


def _picked(picker: RecordPicker, data: PartitionData, offset: int, until: int, *, is_stable: bool) -> _Fetched:
    """Pick records of one response, in a thread. Raises BadData."""
    records = memoryview(data.records or b"")
    next_offset = until
    try:
        outcomes = _Outcomes(records, data.aborted_transactions or (), is_stable=is_stable)
        for position, header in batches(records):
            if header.base_offset >= until:
                break
            next_offset = header.next_offset
            if header.last_offset < offset:
                continue
            if not verify_crc(records, position, header):
                raise BadData(f"the batch at offset {header.base_offset} has a wrong checksum")
            before = len(picker.found)
            enough = picker.pick(header, records[position : position + header.size])
            for seen, is_transactional in picker.found[before:]:
                if is_transactional and seen.outcome != CONTROL:
                    seen.outcome = outcomes.of(seen.producer_id, header.base_offset)
            if enough is not None:
                next_offset = enough
                break
    except CorruptRecords as error:
        raise BadData(f"records after offset {offset} are damaged: {error}") from error
    return _Fetched([each.seen for each in picker.found], picker.looked_at, next_offset)


class _Outcomes:
    """The outcomes of the transactional batches of one response."""

    def __init__(self, records: memoryview, aborted: Iterable[AbortedTransaction], *, is_stable: bool) -> None:
        """`aborted` are those that the broker tells, `is_stable` where it does: below the last stable offset. Raises
        CorruptRecords."""
        self._undecided = COMMITTED if is_stable else OPEN
        self._markers: dict[int, tuple[list[int], list[str]]] = {}
        """By producer, the offsets of its markers here, and what they say."""
        for position, header in batches(records):
            marker = read_control_record(records[position : position + header.size]) if header.is_control else None
            if marker is not None:
                offsets, outcomes = self._markers.setdefault(header.producer_id, ([], []))
                offsets.append(header.base_offset)
                outcomes.append(COMMITTED if marker.is_commit else ABORTED)
        self._aborted: dict[int, list[int]] = {}
        for each in aborted:
            self._aborted.setdefault(each.producer_id, []).append(each.first_offset)

    def of(self, producer_id: int, offset: int) -> str:
        """The outcome of the transactional batch of a producer that begins at `offset`: its next marker tells."""
        offsets, outcomes = self._markers.get(producer_id, ([], []))
        following = bisect_right(offsets, offset)
        if following < len(offsets):
            return outcomes[following]
        begun = offsets[following - 1] if following else -1
        if any(begun < first <= offset for first in self._aborted.get(producer_id, ())):
            return ABORTED
        return self._undecided
