"""Dead letters (KIP-1191; share-partitions.md 7): `DeadLetters` writes them to the topics of their groups, and a
`LetterQueue` sends those of one share partition there.

Always true: records of which the queue says that they are done have durable dead letters, or can have none: the
topic's owner or the group's settings forbid it, and the log says so. Whatever may pass (a full disk, a topic that
moves) is tried again for as long as the share partition is led, and holds its records back: none is lost. What was
written when this process dies is written once more by whoever leads the share partition next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.broker.sharing.rules.letters import (
    Letter,
    LetterBatch,
    Origin,
    first_of,
    found_in,
    letter_batches,
    letters,
    without,
)
from eosin.broker.sharing.rules.window import DeadRecords
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.model.cluster import Cluster, Topic
from eosin.model.features import DEAD_LETTERS_LEVEL, SHARE_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import CorruptRecords, batches
from eosin.protocol.records.budget import UNBOUNDED, Budget
from eosin.runtime.clock import Clock
from eosin.runtime.thread_turns import ThreadTurns
from eosin.runtime.turns import next_turn
from eosin.storage.log.validation import ValidBatch, validate_client_batch
from eosin.storage.results.log_results import ReadResult, Refused

if TYPE_CHECKING:
    from eosin.broker.sharing.counts import ShareCounts
    from eosin.storage.log.config import LogConfig
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 5000
DURABLE_MS: Final = 30_000
"""Until a batch that is not durable yet is given up, and written once more."""
LETTERS_AT_ONCE: Final = 500
"""Each takes some 10 us."""
APPENDS_PER_TURN: Final = 20
"""Each takes some 50 us."""
READ_BYTES: Final = 256 * 1024
QUICK_BYTES: Final = 64 * 1024
"""Larger reads, and compressed ones, are taken apart in a thread."""
PREFIX_OF_INTERNAL: Final = "__"
_TOPIC_CONFIGS: Final = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
"""Of a topic that is created for dead letters, as Kafka creates it."""
_CREATED: Final = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
_LASTING: Final = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors of a topic or its log that come again, whenever it is tried again."""


AppendElsewhere = Callable[[TopicPartition, bytes], Awaitable[ErrorCode]]
"""Writes a batch to a partition that another broker leads: NONE when all its replicas in sync have it."""
HasEnoughInSync = Callable[["PartitionLog"], bool]


_Made = tuple[LetterBatch, ValidBatch | Refused]


class LetterSource(NamedTuple):
    """A share partition as the source of dead letters."""

    group_id: str
    name: TopicPartition
    log: "PartitionLog"
    config_of: Callable[[], ShareGroupConfig]


class Forbidden(Exception):
    """There can be no dead letters; the sentence says why."""


class Passing(Exception):
    """They cannot be written now; the sentence says why."""


class DeadLetters:
    """The dead letters of this broker's share groups."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        log_of: "Callable[[TopicPartition], PartitionLog | ErrorCode]",
        clock: Clock,
        prefix: Callable[[], str],
        creates_topics: Callable[[], bool],
        counts: "ShareCounts",
        append_elsewhere: AppendElsewhere | None = None,
        has_enough_in_sync: "HasEnoughInSync | None" = None,
    ) -> None:
        """`log_of` gives the log of a partition that this broker leads, and `append_elsewhere` writes to those that
        others lead; topics have the `prefix`, and are made if it `creates_topics`, which both may change.
        `has_enough_in_sync` says which logs may promise that all replicas in sync have a batch; None: all."""
        self._append_elsewhere = append_elsewhere
        self._has_enough_in_sync: HasEnoughInSync = has_enough_in_sync or (lambda _: True)
        self.clock = clock
        self._cluster = cluster
        self._log_of = log_of
        self._prefix = prefix
        self._creates_topics = creates_topics
        self._counts = counts
        self._complaints: dict[str, str] = {}
        """The last one about each group: it is logged once."""
        self._threads = ThreadTurns(1)

    def has(self, config: ShareGroupConfig) -> bool:
        """True if records that a group with these settings gives up have dead letters."""
        topic = config.deadletterqueue_topic_name
        return topic != "" and self._cluster.features.level(SHARE_VERSION) >= DEAD_LETTERS_LEVEL

    async def write(self, source: LetterSource, dead: Sequence[DeadRecords]) -> Sequence[DeadRecords]:
        """Write the letters of the first of these records, which are in order of offset. Returns those that are done;
        none where it has to be tried again."""
        counted = self._counts.of_letters(source.group_id)
        counted.requests += 1
        done: Sequence[DeadRecords] = dead
        refused: Forbidden | None = None
        try:
            done, refused = await self._written(source, dead)
        except Forbidden as error:
            refused = error
        except Passing as error:
            counted.failed += 1
            self._complain(source.group_id, f"{error}: they are tried again, and their records wait")
            return ()
        if refused is not None:
            counted.failed += 1
            self._complain(source.group_id, f"{refused}: records are given up without dead letters")
        else:
            self._complaints.pop(source.group_id, None)
        return done

    def _complain(self, group_id: str, complaint: str) -> None:
        if self._complaints.get(group_id) != complaint:
            self._complaints[group_id] = complaint
            _LOG.warning("share group %.256r: dead letters cannot be written: %s", group_id, complaint)

    async def _written(
        self, source: LetterSource, dead: Sequence[DeadRecords]
    ) -> "tuple[Sequence[DeadRecords], Forbidden | None]":
        """Write the letters of the first of these records. Returns those that are done, and why some of them have no
        letter, if any. Raises Forbidden, Passing."""
        config = source.config_of()
        topic = await self._topic(source, config.deadletterqueue_topic_name)
        to = TopicPartition(topic.name, source.name.partition % topic.partitions)
        log = self._log_of(to)
        if isinstance(log, ErrorCode) and self._append_elsewhere is None:
            raise Passing(f"{to} answers {log.name}")
        log_config = self._cluster.log_config(topic.name)
        copies = config.deadletterqueue_copy_record_enable
        done, data = await self._read(source, dead, is_wanted=copies or source.log.config.is_compacted)
        made = await self._made(source, done, data, log_config, copies=copies)
        reached, end = dead[0].first, 0
        refused: Forbidden | None = None
        late: Passing | None = None
        for number, (batch, valid) in enumerate(made, start=1):
            try:
                end = max(end, await self._put(source.group_id, to, log, batch, valid))
            except Forbidden as error:
                refused = error
            except Passing as error:
                late = error
                break
            reached = batch.end
            if not number % APPENDS_PER_TURN:
                await next_turn()
        if end and not isinstance(log, ErrorCode) and (failed := await self._durable(log, end)):
            raise Passing(f"{to} answers {failed.name}")
        if late is not None:
            done = first_of(done, count=LETTERS_AT_ONCE, end=reached)  # only the others are written once more
            if not done:
                raise late
        return done, refused

    async def _put(
        self,
        group_id: str,
        to: TopicPartition,
        log: "PartitionLog | ErrorCode",
        batch: LetterBatch,
        valid: ValidBatch | Refused,
    ) -> int:
        """Append one batch, or have its partition's leader do so. Returns the offset up to which this broker's log is
        to become durable for that. Raises Forbidden, Passing."""
        if isinstance(valid, Refused):
            raise _failure(to, valid)
        end = 0
        if isinstance(log, ErrorCode):
            await self._send_elsewhere(to, bytes(valid.data))
        elif not self._has_enough_in_sync(log):
            raise Passing(f"{to} has fewer replicas in sync than min.insync.replicas")
        else:
            outcome = log.append(valid.data, now_ms=self.clock.now_ms(), header=valid.header)
            if isinstance(outcome, Refused):
                raise _failure(to, outcome)
            end = outcome.last_offset + 1
        self._counts.of_letters(group_id).records += len(batch.letters)
        return end

    async def _durable(self, log: "PartitionLog", end: int) -> ErrorCode:
        """Wait until the log is durable up to `end`, REQUEST_TIMED_OUT if that takes too long: replicas that left the
        ISR since the append may stay away, and whoever stops this broker, or fetches next, waits for the letters."""
        durable, late = log.durable(end), asyncio.get_running_loop().create_future()
        timer = self.clock.call_later(DURABLE_MS, lambda: None if late.done() else late.set_result(None))
        try:
            await asyncio.wait((durable, late), return_when=asyncio.FIRST_COMPLETED)
            return durable.result() if durable.done() else ErrorCode.REQUEST_TIMED_OUT
        finally:
            timer.cancel()
            durable.cancel()

    async def _send_elsewhere(self, to: TopicPartition, batch: bytes) -> None:
        """Write to a partition that another broker leads. Raises Forbidden, Passing."""
        assert self._append_elsewhere is not None, "others lead it"
        if error := await self._append_elsewhere(to, batch):
            raise _failure(to, Refused(error))

    # The topic ------------------------------------------------------------------------------------------------------

    async def _topic(self, source: LetterSource, name: str) -> Topic:
        """The topic that the letters go to. Raises Forbidden, Passing."""
        if not name:
            raise Forbidden("the group has no topic for them any more (errors.deadletterqueue.topic.name)")
        prefix = self._prefix()
        if name.startswith(PREFIX_OF_INTERNAL) or not name.startswith(prefix):
            raise Forbidden(f"the name of their topic, {name!r}, must begin with {prefix!r}, and not with __")
        if name == source.name.topic:
            raise Forbidden(f"{name} would be a dead-letter topic for itself, and each letter would make another one")
        topic = self._cluster.topics.get(name)
        if topic is None:
            topic = await self._created(name)
        if not self._cluster.log_config(name).errors_deadletterqueue_group_enable:
            raise Forbidden(f"{name} does not allow it (errors.deadletterqueue.group.enable)")
        return topic

    async def _created(self, name: str) -> Topic:
        if not self._creates_topics():
            text = "is not there, and none is created (errors.deadletterqueue.auto.create.topics.enable)"
            raise Forbidden(f"{name} {text}")
        outcome = await self._cluster.create_topic(name, configs=_TOPIC_CONFIGS)
        topic = self._cluster.topics.get(name)
        if outcome.error in _CREATED and topic is not None:
            return topic
        text = f"{name} cannot be created: {outcome.error.name}, {outcome.message}"
        raise Forbidden(text) if outcome.error in _LASTING else Passing(text)

    # The records ----------------------------------------------------------------------------------------------------

    async def _read(
        self, source: LetterSource, dead: Sequence[DeadRecords], *, is_wanted: bool
    ) -> "tuple[Sequence[DeadRecords], bytes | memoryview | None]":
        """The records whose letters are written now, and the stored batches that hold them; None if nobody needs
        those, or the log has them no more. Raises Passing."""
        log, first = source.log, dead[0].first
        end = dead[-1].end
        if not is_wanted:
            return first_of(dead, count=LETTERS_AT_ONCE, end=end), None
        if first < log.log_start_offset:
            end = log.log_start_offset
        elif first < log.log_end_offset:
            result = log.read(
                first, max_bytes=READ_BYTES, isolation=IsolationLevel.READ_UNCOMMITTED, min_one_batch=True
            )
            result = result if isinstance(result, ReadResult) else await result
            records = result.records
            assert isinstance(records, bytes | memoryview), "all of it was to be read"
            if result.error is ErrorCode.KAFKA_STORAGE_ERROR:
                raise Passing(f"{source.name} cannot be read")
            try:
                reached = max((header.last_offset + 1 for _, header in batches(records)), default=first)
            except CorruptRecords:
                reached = first
            if reached > first:
                return first_of(dead, count=LETTERS_AT_ONCE, end=reached), records
        return first_of(dead, count=LETTERS_AT_ONCE, end=end), None

    async def _made(
        self,
        source: LetterSource,
        dead: Sequence[DeadRecords],
        data: "bytes | memoryview | None",
        config: "LogConfig",
        *,
        copies: bool,
    ) -> "list[_Made]":
        """The letters as batches for their log. One that would keep a batch from being accepted is alone in its own."""
        now_ms, log_start = self.clock.now_ms(), source.log.log_start_offset
        origin = Origin(source.group_id, source.name.topic, source.name.partition)
        max_bytes = min(config.max_message_bytes, config.segment_limit_bytes)

        def checked(some: Sequence[Letter], *, splits: bool, rest: "Callable[[], None] | None") -> Iterator[_Made]:
            for each in letter_batches(some, origin, max_bytes=max_bytes, timestamp=now_ms):
                valid = validate_client_batch(each.data, config, now_ms, rest=rest)
                half = len(each.letters) // 2
                if splits and half and _is_lasting(valid):
                    yield from checked(each.letters[:half], splits=True, rest=rest)
                    yield from checked(each.letters[half:], splits=True, rest=rest)
                else:
                    yield each, valid

        def make(budget: Budget | None, rest: "Callable[[], None] | None", *, splits: bool = True) -> list[_Made]:
            found = None if data is None else found_in(data, dead, budget)
            some = letters(dead, found, copies=copies, log_start=log_start)
            return list(checked(some, splits=splits and copies, rest=rest))  # without copies one is like the other

        if _is_quick(data) and config.compression_type == "producer":
            made = make(None, None, splits=False)
            if not copies or not any(_is_lasting(valid) for _, valid in made):
                return made
        async with self._threads.turn(source.group_id) as rest:
            return await source.log.context.disk.compute(make, Budget(UNBOUNDED, rest.rest), rest.rest)


def _is_lasting(valid: ValidBatch | Refused) -> bool:
    return isinstance(valid, Refused) and valid.error in _LASTING


def _is_quick(data: "bytes | memoryview | None") -> bool:
    """True if the event loop may take these batches apart."""
    if data is None:
        return True
    return len(data) <= QUICK_BYTES and all(not header.compression for _, header in batches(data))


def _failure(to: TopicPartition, refused: Refused) -> Forbidden | Passing:
    text = f"{to} answers {refused.error.name}" + (f", {refused.message}" if refused.message else "")
    return Forbidden(text) if refused.error in _LASTING else Passing(text)


class LetterQueue:
    """The dead letters of one share partition that are still to be written."""

    __slots__ = ("_again", "_dead", "_done", "_is_ending", "_is_hasty", "_letters", "_sending", "_source")

    def __init__(
        self, source: LetterSource, letters: DeadLetters, done: Callable[[Sequence[DeadRecords]], None]
    ) -> None:
        """`done` is told of records that are settled."""
        self._source = source
        self._letters = letters
        self._done = done
        self._dead: list[DeadRecords] = []
        self._sending: asyncio.Task[None] | None = None
        self._again: asyncio.Future[None] | None = None
        self._is_ending = False
        self._is_hasty = False

    @property
    def sending(self) -> "asyncio.Task[None] | None":
        """The work that is under way; None if there is none."""
        return self._sending

    def add(self, dead: Sequence[DeadRecords]) -> None:
        """Write the dead letters of these records."""
        self._dead += dead
        if self._sending is None and not self._is_ending:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def end(self) -> None:
        """Begin nothing any more: whoever leads the share partition next knows what is left."""
        self._is_ending = True
        self._wake()

    def end_waiting(self) -> None:
        """Write what can be written now, and leave the rest to whoever leads the share partition next."""
        self._is_hasty = True
        self._wake()

    async def _send(self) -> None:
        delay_ms = RETRY_MS
        try:
            await next_turn()  # records of very many share partitions may die together
            while self._dead and not self._is_ending:
                dead, self._dead = sorted(self._dead), []
                done: Sequence[DeadRecords] = ()
                try:
                    done = await self._letters.write(self._source, dead)
                finally:
                    self._dead = [*without(dead, done), *self._dead]
                if done:
                    delay_ms = RETRY_MS
                    self._done(done)
                    await next_turn()
                elif self._is_hasty or self._is_ending:
                    return
                else:
                    await self._pause(delay_ms)
                    delay_ms = min(2 * delay_ms, LONGEST_RETRY_MS)
        finally:
            self._sending = None

    async def _pause(self, delay_ms: int) -> None:
        self._again = asyncio.get_running_loop().create_future()
        timer = self._letters.clock.call_later(delay_ms, self._wake)
        try:
            await self._again
        finally:
            timer.cancel()
            self._again = None

    def _wake(self) -> None:
        if self._again is not None and not self._again.done():
            self._again.set_result(None)
