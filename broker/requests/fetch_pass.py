"""One pass over the partitions that a fetch wants: look at each, then read (storage.md section 15).

Looking costs no input or output: it finds the log, checks epochs and offsets, and counts what is there, so that a fetch
that has to wait has read nothing in vain. Reading follows the order of the request or session and spends the byte
limits on it. Always true: the first partition that has data gives at least one whole batch, however small the limits
are; all later ones keep to them. Large stretches of records are only located, and sent from their files later; what is
read into memory keeps to the answer's share of `ResponseMemory`, and the rest comes with the next fetch.
"""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from eosin.broker.fetching.long_poll import PolledPartition
from eosin.broker.fetching.resting import RestingPartitions
from eosin.broker.fetching.sessions import WantedPartition
from eosin.model.resources import Operation, ResourceType
from eosin.network.many_items import list_in_turns
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.header import HEADER_BYTES
from eosin.runtime.turns import in_turns, next_turn
from eosin.storage.results.file_range import as_range
from eosin.storage.results.log_results import ReadResult

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.cluster.replication.led_partitions import FollowerRequest
    from eosin.security.session import Session
    from eosin.storage.log.partition_log import PartitionLog

FIRST_RACK_VERSION: Final = 11
"""From here on a consumer can be sent to a follower, and comes back where that cannot serve it."""
FIRST_TOPIC_ID_VERSION: Final = 13
NO_REPLICA: Final = -1
FIRST_ZSTD_VERSION: Final = 10
THROTTLED_AHEAD_MS: Final = 1000
"""An answer may bring what a throttle allows in so long, and one partition more: followers fetch thousands of
partitions that have little each, and one of them in an answer would be far below any rate."""
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""There is no such partition."""
WAITING_ERRORS: Final = UNKNOWN | {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
"""Errors that a consumer is told when the wait for its other partitions is over: a client that goes on to ask for what
is gone or denied would else spin."""
READS_PER_TURN: Final = 50
"""Each takes some 20 us, of what the system has in memory."""
UNREAD_BYTES: Final = 131_072
"""More than this of one partition is sent from its file: below it a copy is cheaper than what that takes."""


class Nearest(Protocol):
    """The choice of the replica that a consumer had better read from (KIP-392)."""

    def replica(self, log: "PartitionLog", offset: int) -> int | None:
        """The broker that it is sent to; None for this one."""


class FetchLimits:
    """The parameters of a request that hold for all its partitions."""

    __slots__ = (
        "api_version",
        "follower",
        "isolation",
        "max_bytes",
        "min_bytes",
        "nearest",
        "refusal",
        "session",
        "tells_high_watermarks",
    )

    def __init__(
        self,
        *,
        api_version: int,
        isolation: IsolationLevel | None,
        refusal: ErrorCode,
        max_bytes: int,
        min_bytes: int,
        follower: "FollowerRequest | None" = None,
        nearest: Nearest | None = None,
        session: "Session | None" = None,
        tells_high_watermarks: bool = True,
    ) -> None:
        self.api_version = api_version
        self.isolation = isolation
        """None for a follower, which reads up to the log end."""
        self.refusal = refusal
        """The error of every partition, whatever is in it; NONE for a fetcher that may read."""
        self.max_bytes = max_bytes
        self.min_bytes = min_bytes
        self.follower = follower
        self.nearest = nearest
        """None for whom only this broker can serve."""
        self.session = session
        """Says what may be read; None for a follower, and where everybody may read everything."""
        self.tells_high_watermarks = tells_high_watermarks
        """False for a follower that may hear a moment later of a high watermark (`RestingPartitions`)."""

    @property
    def waking_follower(self) -> "FollowerRequest | None":
        """The follower, if any batch is enough for it."""
        return self.follower if self.min_bytes <= HEADER_BYTES else None


class PartitionFetch:
    """One wanted partition, as the pass found it."""

    __slots__ = ("diverging", "error", "is_held", "log", "preferred", "result", "wanted")

    log: "PartitionLog"
    """Only set where it was found."""

    def __init__(self, wanted: WantedPartition) -> None:
        self.wanted = wanted
        self.error = ErrorCode.NONE
        self.diverging: tuple[int, int] | None = None
        """The largest epoch not above the fetcher's, and where it ends, when that shows that the logs part."""
        self.is_held = False
        """True if a throttle keeps its records from the follower for now."""
        self.preferred = NO_REPLICA
        """The broker that the consumer is sent to, without records."""
        self.result: ReadResult | None = None
        """The result of the read; None for an error, or where there is nothing to read within the limits."""

    @property
    def is_unchanged(self) -> bool:
        """True if there is nothing to say of the partition that its fetcher has not heard (KIP-227)."""
        wanted = self.wanted
        return (
            self.result is None
            and not self.error
            and self.diverging is None
            and self.preferred == NO_REPLICA
            and self.log.high_watermark == wanted.last_sent_high_watermark
            and self.log.log_start_offset == wanted.last_sent_log_start_offset
        )


class FetchPass:
    """One look at each partition, and one read. Of what a follower has whole, and what has not changed, the look is a
    few comparisons, after which the partition rests, if the fetch has a session for that: a follower fetches thousands
    of partitions, and waits for each of them."""

    __slots__ = (
        "_at",
        "_hopeless",
        "_idle",
        "_left",
        "_limits",
        "_memory_left",
        "_resting",
        "_services",
        "available",
        "partitions",
        "settled",
    )

    def __init__(
        self,
        wanted: Sequence[WantedPartition],
        limits: FetchLimits,
        services: "Services",
        resting: RestingPartitions | None = None,
    ) -> None:
        self._limits = limits
        self._resting = resting
        self._services = services
        self._at = 0
        self._left = limits.max_bytes
        self._memory_left = services.response_memory.response_bytes()
        self.available = 0
        """Bytes that could be read; no longer counted once there are `min_bytes`."""
        self.settled = False
        """True if there is something to say that cannot wait: an error, or logs that part."""
        self._hopeless = 0
        """Partitions whose error waits with the others."""
        self._idle: list[WantedPartition] = []
        self.partitions = [self._found(each) for each in self._not_idle(wanted)]
        if self._hopeless == len(wanted) and resting is None:
            self.settled = True  # there is nothing to wait for

    @classmethod
    async def in_turns(
        cls,
        wanted: Sequence[WantedPartition],
        limits: FetchLimits,
        services: "Services",
        resting: RestingPartitions | None = None,
    ) -> "FetchPass":
        """A look at each of very many partitions."""
        found = cls((), limits, services, resting)
        found.settled = False
        found.partitions = await list_in_turns(map(found._found, found._not_idle(wanted)), services.clock)
        if found._hopeless == len(wanted) and resting is None:
            found.settled = True
        return found

    @property
    def has_hopeless(self) -> bool:
        """True if any partition does not exist, or is denied to the consumer."""
        return self._hopeless > 0

    def is_hopeless(self, some: Sequence[WantedPartition]) -> bool:
        """The same of any of `some`."""
        if not self._hopeless:
            return False
        asked = set(map(id, some))
        return any(each.error in WAITING_ERRORS and id(each.wanted) in asked for each in self.partitions)

    @property
    def has_enough(self) -> bool:
        """True if the fetch may be answered now."""
        return self.settled or self.available >= self._limits.min_bytes

    def watches(self) -> list[PolledPartition]:
        """The logs and offsets to wait for."""
        found = [
            PolledPartition(each.log, offset=each.wanted.fetch_offset, limit=each.wanted.max_bytes)
            for each in self.partitions
            if not each.is_held and not each.error
        ]
        for wanted in self._idle:
            assert wanted.known is not None
            found.append(PolledPartition(wanted.known.log, offset=wanted.fetch_offset, limit=wanted.max_bytes))
        return found

    async def watches_in_turns(self) -> list[PolledPartition]:
        """The logs and offsets to wait for, each log once: a partition that is named again and again is one."""
        if self._idle:
            return self.watches()  # a follower names each partition once
        found: dict[PartitionLog, PolledPartition] = {}

        def watch(each: PartitionFetch) -> None:
            if not each.is_held and not each.error:
                found[each.log] = PolledPartition(
                    each.log, offset=each.wanted.fetch_offset, limit=each.wanted.max_bytes
                )

        await in_turns(self.partitions, watch, self._services.clock)
        return list(found.values())

    def wait_ms(self, max_wait_ms: int) -> int:
        """Longest time to wait, in milliseconds, where the fetcher would wait for `max_wait_ms`."""
        follower = self._limits.follower
        if follower is None or not any(each.is_held for each in self.partitions):
            return max_wait_ms
        return min(max_wait_ms, follower.held_ms())

    def _not_idle(self, wanted: Sequence[WantedPartition]) -> Sequence[WantedPartition]:
        follower, resting = self._limits.follower, self._resting
        if follower is None:
            return wanted
        tells = resting is None or resting.tells
        others: list[WantedPartition] = []
        for each in wanted:
            if not follower.is_idle(each) or (tells and follower.lacks_high_watermark(each)):
                others.append(each)
            elif resting is not None:
                resting.rest(each)
            else:
                self._idle.append(each)
        return others

    def _found(self, wanted: WantedPartition) -> PartitionFetch:
        partition = PartitionFetch(wanted)
        known, follower = wanted.known, self._limits.follower
        if known is not None and follower is not None and known.is_served(follower):
            partition.log = known.log
            error = self._check_offset(partition, is_led=True)
        else:
            error = self._limits.refusal or self._find(partition) or self._check(partition)
        if error:
            partition.error = error
            if self._limits.follower is None and error in WAITING_ERRORS:
                self._hopeless += 1
            else:
                self.settled = True
        elif partition.diverging is not None or self._is_sent_away(partition):
            self.settled = True
        elif self._limits.follower is not None and self._limits.follower.is_held(partition.log):
            partition.is_held = True
        elif self.available < self._limits.min_bytes:
            self._count(partition)
        return partition

    def _is_sent_away(self, partition: PartitionFetch) -> bool:
        """True if the consumer is sent to a replica that is nearer."""
        nearest = self._limits.nearest
        if nearest is not None:
            found = nearest.replica(partition.log, partition.wanted.fetch_offset)
            if found is not None:
                partition.preferred = found
        return partition.preferred != NO_REPLICA

    def _count(self, partition: PartitionFetch) -> None:
        """Count what could be read of a partition."""
        offset, log, limits = partition.wanted.fetch_offset, partition.log, self._limits
        if offset >= log.log_end_offset or offset >= log.visible_end(limits.isolation):
            return
        if limits.min_bytes <= HEADER_BYTES:
            self.available = limits.min_bytes  # any batch is enough
        else:
            self.available += log.bytes_available(offset, isolation=limits.isolation, limit=partition.wanted.max_bytes)

    def _find(self, partition: PartitionFetch) -> ErrorCode:
        """Set the partition's log (storage.md 15.6)."""
        wanted = partition.wanted
        by_id = self._limits.api_version >= FIRST_TOPIC_ID_VERSION
        if by_id:
            topic = self._services.cluster.topic_by_id(wanted.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            if topic.name != wanted.name.topic:
                wanted.name = TopicPartition(topic.name, wanted.partition)
        session = self._limits.session
        if session is not None and not session.may(Operation.READ, ResourceType.TOPIC, wanted.name.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = self._services.partitions
        is_reader = self._limits.follower is None and self._limits.api_version >= FIRST_RACK_VERSION
        log = partitions.readable(wanted.name) if is_reader else partitions.get(wanted.name)
        if isinstance(log, ErrorCode):
            told = -1 if self._limits.follower is not None else wanted.current_leader_epoch
            return refusal_by_epoch(log, wanted.name, told, self._services)
        if by_id and log.topic_id != wanted.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        partition.log = log
        return ErrorCode.NONE

    def _check(self, partition: PartitionFetch) -> ErrorCode:
        """Check that the log can serve what is wanted: epochs first, then the offset (storage.md 15.1 and 17)."""
        wanted, log = partition.wanted, partition.log
        is_led = self._services.partitions.leads(wanted.name)
        if wanted.current_leader_epoch >= 0:
            # A followed log by itself knows the epochs of its records alone.
            epoch = log.leader_epoch if is_led else self._services.cluster.leader_epoch(wanted.name)
            error = _compare_epochs(wanted.current_leader_epoch, epoch)
            if error:
                return error
        follower = self._limits.follower
        if follower is not None:
            error = follower.refusal(log, wanted)
            if error:
                return error
        if self._limits.api_version < FIRST_ZSTD_VERSION and log.config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return self._check_offset(partition, is_led=is_led)

    def _check_offset(self, partition: PartitionFetch, *, is_led: bool) -> ErrorCode:
        wanted, log, follower = partition.wanted, partition.log, self._limits.follower
        if wanted.fetch_offset < log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if wanted.last_fetched_epoch >= 0 and is_led:  # a follower that is behind would see logs part that do not
            found = compare_histories(
                log.end_of_epoch(wanted.last_fetched_epoch),
                last_fetched_epoch=wanted.last_fetched_epoch,
                fetch_offset=wanted.fetch_offset,
            )
            if isinstance(found, ErrorCode):
                return found
            if found is not None:
                partition.diverging = found
                return ErrorCode.NONE
        if wanted.fetch_offset > log.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if follower is not None:
            follower.fetched(log, wanted)
        return ErrorCode.NONE

    async def read(self) -> None:
        """Read every partition that has something, in order, within the limits."""
        end = len(self.partitions)
        reading = self._advance(end)
        if reading is not None:
            await self._finish(reading, end)

    async def read_in_turns(self) -> None:
        """The same of very many partitions."""
        end = len(self.partitions)
        while self._at < end:
            until = min(end, self._at + READS_PER_TURN)
            await self._finish(self._advance(until), until)
            await next_turn()

    def _advance(self, end: int) -> Awaitable[ReadResult] | None:
        """Read on, up to `end` of the partitions, until a log has to fetch its bytes from the disk."""
        isolation, follower = self._limits.isolation, self._limits.follower
        while self._at < end:
            partition = self.partitions[self._at]
            self._at += 1
            if partition.error or partition.diverging is not None or partition.preferred != NO_REPLICA:
                continue
            if follower is not None and (
                partition.is_held or follower.is_held(partition.log, ahead_ms=THROTTLED_AHEAD_MS)
            ):
                continue  # the answer so far may have spent what the throttle allows
            first = self._left == self._limits.max_bytes
            limit = max(0, min(partition.wanted.max_bytes, self._left))
            if limit == 0 and not first:
                continue
            offset = partition.wanted.fetch_offset
            if offset >= partition.log.log_end_offset or offset >= partition.log.visible_end(isolation):
                continue
            memory = max(0, self._memory_left)
            if not partition.log.context.disk.open_files.is_full:
                memory = min(UNREAD_BYTES, memory)
            elif not memory and not first:
                self._at = len(self.partitions)  # a file that is being sent keeps its descriptor
                break
            result = partition.log.read(
                offset,
                max_bytes=limit,
                isolation=isolation,
                min_one_batch=first,
                memory_bytes=memory,
            )
            if not isinstance(result, ReadResult):
                return result
            self._keep(partition, result)
        return None

    async def _finish(self, reading: Awaitable[ReadResult] | None, end: int) -> None:
        memory, share = self._services.response_memory, self._memory_left
        memory.held_bytes += share
        try:
            while reading is not None:
                self._keep(self.partitions[self._at - 1], await reading)
                reading = self._advance(end)
        finally:
            memory.held_bytes -= share

    def _keep(self, partition: PartitionFetch, result: ReadResult) -> None:
        partition.error = result.error
        size = len(result.records)
        if size:
            partition.result = result
            self._left -= size
            if self._limits.follower is not None:
                self._limits.follower.sent(partition.log, size)
            if as_range(result.records) is None:
                self._memory_left -= size
                if self._memory_left < 0:
                    self._at = len(self.partitions)


def compare_histories(
    found: tuple[int, int], *, last_fetched_epoch: int, fetch_offset: int
) -> tuple[int, int] | ErrorCode | None:
    """Check that a fetcher's log is a prefix of this one (storage.md section 17). `found` is our largest epoch at or
    below its last one, and where that ends. Returns None if it is; `found` if the logs part; the error if nothing is
    known of an epoch as old."""
    epoch, end_offset = found
    if end_offset < 0:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return found if epoch < last_fetched_epoch or end_offset < fetch_offset else None


def check_leader_epoch(log: "PartitionLog", epoch: int) -> ErrorCode:
    """Check that the client speaks of this leader: an older one is fenced, a newer one unknown, -1 does not ask
    (storage.md section 17)."""
    return ErrorCode.NONE if epoch < 0 else _compare_epochs(epoch, log.leader_epoch)


def refusal_by_epoch(refusal: ErrorCode, partition: TopicPartition, epoch: int, services: "Services") -> ErrorCode:
    """The error for a partition that this broker does not serve: `refusal`, unless it holds a replica that the cluster
    gives another leader epoch than the client speaks of. A replica compares epochs first (storage.md section 17)."""
    if (
        refusal is not ErrorCode.NOT_LEADER_OR_FOLLOWER
        or epoch < 0
        or services.partitions.hosted_log(partition) is None
    ):
        return refusal
    return _compare_epochs(epoch, services.cluster.leader_epoch(partition)) or refusal


def _compare_epochs(told: int, ours: int) -> ErrorCode:
    if told == ours:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if told < ours else ErrorCode.UNKNOWN_LEADER_EPOCH
