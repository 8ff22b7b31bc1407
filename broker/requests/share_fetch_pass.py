"""`ShareFetchPass`: one ShareFetch over the partitions of its session: look at each, wait, read, hand out
(share-partitions.md 1.8, 1.9).

Always true: records are acquired in the step in which their bytes are in hand, so a client that is slow, or gone, has
nothing to itself while they are read; a partition that is being read for a member is let go in any case. Stored batches
go out whole, as the log holds them: which of their records a member has stands beside them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.broker.fetching.long_poll import PolledPartition
from eosin.broker.sharing.config import isolation_of
from eosin.broker.sharing.led_share_partition import LedSharePartition
from eosin.broker.sharing.rules.fetched import ReadBatch, fetched_batches
from eosin.broker.sharing.rules.waiters import NEVER_LOOKED
from eosin.broker.sharing.rules.window import AcquiredRange
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, TopicPartition
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.turns import in_turns, next_turn
from eosin.security.session import EVERYBODY_MAY
from eosin.storage.results.log_results import NO_RECORDS, ReadResult

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.broker.sharing.share_sessions import ShareSession
    from eosin.network.api import RequestContext
    from eosin.protocol.schemas.share_fetch import ShareFetchRequest

RECORD_LIMIT: Final = 1
"""The mode in which max_records is exact (KIP-1206)."""
LOOKS_PER_TURN: Final = 500
"""Each takes a few microseconds."""
FIRST_LOOK: Final = 10
"""As many looks as the first one, which may find a share partition that is to be loaded, counts for; and as a read."""
FULL_MESSAGE: Final = "This broker serves as many share partitions as eosin.share.max.partitions allows."
WAITING_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that are told when the wait for the other partitions is over: who asks again at once would spin."""


class ShareFetchPartition:
    """One partition of a session, as the pass found it."""

    __slots__ = ("acquired", "error", "index", "known_changes", "message", "name", "partition", "records", "topic_id")

    def __init__(self, wanted: TopicIdPartition) -> None:
        self.topic_id, self.index = wanted
        self.name = TopicPartition("", self.index)
        """With the topic's name, where it was found."""
        self.partition: LedSharePartition | None = None
        """The share partition that was found last."""
        self.known_changes = NEVER_LOOKED
        """The changes of it that this pass has seen."""
        self.error = ErrorCode.NONE
        self.message: str | None = None
        self.records: bytes | memoryview = NO_RECORDS
        self.acquired: Sequence[AcquiredRange] = ()


class ShareFetchPass:
    """One ShareFetch."""

    def __init__(
        self, session: "ShareSession", request: "ShareFetchRequest", context: "RequestContext", services: "Services"
    ) -> None:
        sharing = services.sharing
        self._services = services
        self._sharing = sharing
        self._context = context
        self._session = session
        self._key = session.key
        self._request = request
        self._isolation = isolation_of(sharing.partitions.config_of(session.key.group_id))
        self._left_records = max(1, request.max_records)
        self._left_bytes = max(0, min(request.max_bytes, services.config.fetch_max_bytes))
        self._memory_left = services.response_memory.response_bytes()
        self._is_first = True
        """True while nothing was read: the first batch comes in any case."""
        self._makes_way = False
        """True if another request of the connection waits behind this one."""
        self._is_woken = False
        """True if there is something to look at since it began to wait."""
        self._end_poll: Callable[[], None] | None = None
        """Ends the wait, once it has begun to wait everywhere."""
        self.is_denied = False
        """True if the client may read the group no more: a right that is taken away counts for fetches that wait."""
        self._wanted = session.in_turn()
        self.partitions: list[ShareFetchPartition] = []

    async def run(self) -> None:
        """Find what there is, or wait for it for as long as the client says."""
        clock = self._services.wire_clock
        until_ms = clock.elapsed_ms() + max(0, self._request.max_wait_ms)
        if self._context.connection is not None:
            self._context.connection.fetch_waits(self._make_way)  # one may come while this pass looks
        try:
            await in_turns(self._wanted, self._begin_one, clock, per_turn=LOOKS_PER_TURN)
            await self._run(until_ms)
        finally:
            await self._at_each(_pass_on)

    def _begin_one(self, wanted: TopicIdPartition) -> None:
        self.partitions.append(ShareFetchPartition(wanted))

    async def _at_each(self, do: Callable[[ShareFetchPartition], None]) -> None:
        """Do something at each partition, some in each turn of the event loop; at all that are left, now, if this pass
        is given up meanwhile: others wait for it."""
        left = iter(self.partitions)
        try:
            await in_turns(left, do, self._services.wire_clock, per_turn=LOOKS_PER_TURN)
        finally:
            for each in left:
                do(each)

    async def _run(self, until_ms: int) -> None:
        clock = self._services.wire_clock
        while not self._session.has_ended:
            peer = self._context.session
            if peer.authorizer is not EVERYBODY_MAY and not peer.may(
                Operation.READ, ResourceType.GROUP, self._key.group_id
            ):
                self.is_denied = True
                return
            available = await self._check()
            left_ms = until_ms - clock.elapsed_ms()
            is_last = left_ms <= 0 or self._makes_way or self._sharing.is_stopping or self._is_settled
            reads = available > 0 < self._left_bytes and (is_last or available >= self._request.min_bytes)
            moved = reads and await self._read()
            if is_last or not self._is_first or self._is_settled:
                return
            if not moved:
                await self._wait(until_ms, is_sated=reads or self._left_bytes <= 0)

    # Look -----------------------------------------------------------------------------------------------------------

    @property
    def _is_settled(self) -> bool:
        """True if there is something to say that cannot wait, or nothing to wait for."""
        errors = [each.error for each in self.partitions]
        return all(errors) or any(each and each not in WAITING_ERRORS for each in errors)

    async def _check(self) -> int:
        """Find each partition, and count the bytes that could be read, up to as many as the client wants."""
        wanted, available, left = max(1, self._request.min_bytes), 0, LOOKS_PER_TURN
        for each in self.partitions:
            left -= 1 if each.partition is not None else FIRST_LOOK
            if left <= 0:
                left = LOOKS_PER_TURN
                await next_turn()
                if self._session.has_ended:
                    break  # nobody would end a share partition that begins now
            each.error = self._find(each)
            partition = each.partition
            if each.error or partition is None:
                continue
            each.known_changes = partition.known_changes
            if available >= wanted:
                continue
            offset = partition.offset_to_fetch()
            if offset is not None:
                available += partition.log.bytes_available(offset, isolation=self._isolation, limit=wanted)
        return available

    def _find(self, wanted: ShareFetchPartition) -> ErrorCode:
        services = self._services
        if wanted.partition is not None and wanted.partition.error:
            return wanted.partition.error  # and no other one in this request: the client comes again
        topic = services.cluster.topic_by_id(wanted.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not wanted.name.topic:
            wanted.name = TopicPartition(topic.name, wanted.index)
        session = self._context.session
        if session.authorizer is not EVERYBODY_MAY and not session.may(Operation.READ, ResourceType.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        log = services.partitions.get(wanted.name)
        if isinstance(log, ErrorCode):
            return log
        found = self._sharing.partitions.get(self._key.group_id, wanted.topic_id, wanted.name, log)
        if found is None:
            wanted.message = FULL_MESSAGE
            return ErrorCode.UNKNOWN_SERVER_ERROR
        wanted.partition = found
        return found.error

    # Read -----------------------------------------------------------------------------------------------------------

    async def _read(self) -> bool:
        """Read and hand out, partition by partition, within the limits. Returns whether anything has changed."""
        moved, left = False, LOOKS_PER_TURN
        for each in self.partitions:
            partition = each.partition
            if each.error or partition is None:
                continue
            left -= 1
            if left <= 0:
                left = LOOKS_PER_TURN
                await next_turn()
            if self._session.has_ended:
                break
            if self._left_records <= 0 or (not self._is_first and min(self._left_bytes, self._memory_left) <= 0):
                break
            offset = partition.begin_fetch()
            if offset is None:
                each.known_changes = partition.known_changes
                continue
            try:
                if offset < partition.log.visible_end(self._isolation):
                    moved |= await self._read_one(each, partition, offset)
                    left -= FIRST_LOOK
            finally:
                partition.end_fetch()
        return moved

    async def _read_one(self, each: ShareFetchPartition, partition: LedSharePartition, offset: int) -> bool:
        limit = min(self._left_bytes, self._memory_left) if not self._is_first else self._left_bytes
        hint = partition.read_bytes(self._left_records)
        result = await self._result(partition, offset, min(limit, hint), is_any=False)
        if not result.error and not len(result.records) and (self._is_first or hint < limit):
            result = await self._result(partition, offset, limit, is_any=self._is_first)
        if self._session.has_ended:
            return False  # while the disk was read: what is acquired now would be nobody's
        if result.error:
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return partition.follow_log_start()  # retention was faster
            each.error = result.error
            return True
        records = result.records
        assert isinstance(records, bytes | memoryview), "all of it was to be read"
        if not len(records):
            return False
        aborted = [(each.first_offset, each.producer_id) for each in result.aborted or ()]
        try:
            fetched = fetched_batches(records, aborted)
        except CorruptRecords:
            each.error = ErrorCode.CORRUPT_MESSAGE
            return True
        before = partition.progress
        each.acquired = partition.acquire(
            self._key.member_id,
            fetched,
            len(records),
            offset=offset,
            max_records=self._left_records,
            batch_size=self._request.batch_size,
            is_exact=self._request.share_acquire_mode == RECORD_LIMIT,
        )
        if each.acquired:
            each.records = _slice(records, fetched, each.acquired)
            self._left_records -= sum(last - first + 1 for first, last, _ in each.acquired)
            self._left_bytes -= len(each.records)
            self._memory_left -= len(each.records)
            self._is_first = False
        return partition.progress != before

    async def _result(self, partition: LedSharePartition, offset: int, max_bytes: int, *, is_any: bool) -> ReadResult:
        result = partition.log.read(offset, max_bytes=max_bytes, isolation=self._isolation, min_one_batch=is_any)
        return result if isinstance(result, ReadResult) else await result

    # Wait -----------------------------------------------------------------------------------------------------------

    async def _wait(self, until_ms: int, *, is_sated: bool) -> None:
        """Wait until more can be read, or a share partition has changed. `is_sated`: there was enough to read, and none
        of it is for this member now: that the log has it is no news, and only what comes counts.

        It begins to wait at some partitions in each turn: at each with the changes that it has seen there, so one that
        came since wakes it; and the poll does not begin if anything has."""
        watches: dict[object, PolledPartition] = {}
        is_patient = self._request.min_bytes > 1
        self._is_woken = False

        def begin(each: ShareFetchPartition) -> None:
            partition = each.partition
            if partition is None or each.error:
                return
            partition.wait(self._wake, each.known_changes, is_patient=is_patient)
            if partition.error:  # lost since it was looked at
                self._wake()
            offset = partition.offset_to_fetch() if is_patient else None
            if offset is not None:
                if is_sated:
                    offset = max(offset, partition.log.visible_end(self._isolation))
                watches[partition.log] = PolledPartition(partition.log, offset=offset, limit=self._left_bytes)
            partition.pass_on()

        def end(each: ShareFetchPartition) -> None:
            if each.partition is not None:
                each.partition.stop_waiting(self._wake)

        try:
            await self._at_each(begin)
            if self._is_woken or self._session.has_ended or self._sharing.is_stopping:
                return
            await self._services.partitions.long_polls.wait(
                list(watches.values()),
                isolation=self._isolation,
                min_bytes=max(1, self._request.min_bytes),
                max_wait_ms=max(0, until_ms - self._services.wire_clock.elapsed_ms()),
                waits=self._poll_begins,
            )
        finally:
            self._end_poll = None
            await self._at_each(end)

    def _poll_begins(self, end_poll: Callable[[], None]) -> None:
        self._end_poll = end_poll

    def _wake(self) -> None:
        self._is_woken = True
        if self._end_poll is not None:
            self._end_poll()

    def _make_way(self) -> None:
        self._makes_way = True
        self._wake()


def _pass_on(each: ShareFetchPartition) -> None:
    """Let the next one have what this pass has left."""
    if each.partition is not None:
        each.partition.pass_on()


def _slice(
    records: bytes | memoryview, fetched: Sequence[ReadBatch], acquired: Sequence[AcquiredRange]
) -> bytes | memoryview:
    """The bytes from the first batch with acquired records to the last one."""
    first, last = acquired[0].first, acquired[-1].last
    begin = next(each.position for each in fetched if each.end > first)
    end = next((each.position for each in fetched if each.first > last), len(records))
    return memoryview(records)[begin:end]
