"""`LedPartitions`: every partition that this broker leads in a cluster of several machines: the positions of its
followers, its high watermark, its ISR, and the answers that wait for them (cluster.md 4.4, 4.9, 4.10 and 4.11).

Carries out the decisions of `leading.py`. Always true: nothing else moves the high watermark of a log that is led; a
change of the ISR is asked for until it is settled, one at a time for each partition; and what was decided for a leader
epoch reaches no later one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from eosin.cluster.replication.known_follower import FollowerWants, KnownFollower
from eosin.cluster.replication.rules import isr, leading
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.leading import FollowerFetch, LeaderContext, LeaderStep
from eosin.cluster.replication.rules.led_partition import IsrChange, LedPartition, PartitionMetadata, low_watermark
from eosin.cluster.replication.rules.nearest import LiveBroker, nearest_replica
from eosin.cluster.replication.rules.positions import Registrations
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue
from eosin.storage.results.log_results import Appended, AppendResult, Refused

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.cluster.replication")

CHECKS_PER_TURN: Final = 200
"""Partitions that are looked at in one turn of the event loop: one takes some 10 us."""


class IsrChangeSender(Protocol):
    """The way to the controller for changes of the ISR."""

    def request(
        self, topic_id: Uuid, partition: int, change: IsrChange, answered: Callable[[IsrChangeResult], None]
    ) -> None:
        """Ask for a change, however long it takes. `answered` is called once, later, in the event loop, unless another
        change of the partition, or `withdraw`, comes first."""

    def withdraw(self, topic_id: Uuid, partition: int) -> None:
        """Ask for nothing more of a partition that this broker does not lead any more."""


class SendThrottle(Protocol):
    """The limit on how fast followers that are not in sync are sent records (`LeaderThrottle`)."""

    @property
    def is_on(self) -> bool:
        """True if anything is throttled."""

    def count(self, partition: "TopicPartition", size: int, now_ms: int) -> None:
        """So many bytes of a partition were copied."""

    def is_spent(self, partition: "TopicPartition", now_ms: int, ahead_ms: int) -> bool:
        """True if a partition is throttled, and more has been copied than the rate allows in another `ahead_ms`."""

    def free_at_ms(self, now_ms: int) -> int:
        """The time when it will hold nothing, unless more goes."""


class WaitingBatch(Protocol):
    """A batch of a producer that was appended and is not answered yet."""

    log: "PartitionLog"
    outcome: AppendResult | None


class LogProgress(Protocol):
    """Tells of each log that has moved (`LongPolls`)."""

    followers: "Callable[[PartitionLog], None] | None"
    """Called with each log whose end, high watermark or start has moved, or that has failed."""

    def progress(self, log: "PartitionLog") -> None:
        """More can be read of a log."""


class _Led:
    """A partition that is led now."""

    __slots__ = ("deletions", "known", "led", "log", "topic_id")

    def __init__(self, log: "PartitionLog", topic_id: Uuid, led: LedPartition) -> None:
        self.deletions: list[tuple[int, asyncio.Future[ErrorCode]]] = []
        """The waits until every live replica starts at an offset."""
        self.known: dict[int, KnownFollower] = {}
        """Followers that are served, by node id, and what their fetches have said since they were looked at."""
        self.log = log
        self.topic_id = topic_id
        self.led = led


class LedPartitions:
    """The leader side of replication. `Leaderships` of a `ReplicaSet`."""

    def __init__(
        self,
        node_id: int,
        *,
        brokers: Callable[[], Registrations],
        own_epoch: Callable[[], int],
        isr_changes: IsrChangeSender,
        progress: LogProgress,
        clock: Clock,
        max_lag_ms: int,
        throttle: SendThrottle | None = None,
    ) -> None:
        """`brokers` gives every registered broker as of now, `own_epoch` this broker's epoch. `progress` hears of each
        log that is led when its log end has moved: fetches of followers wait for that. `max_lag_ms` is
        `replica.lag.time.max.ms`."""
        self._node_id = node_id
        self._brokers = brokers
        self._own_epoch = own_epoch
        self._isr_changes = isr_changes
        self._progress = progress
        progress.followers = self._log_moved
        self._clock = clock
        self._max_lag_ms = max_lag_ms
        self._throttle = throttle
        self._led: dict[PartitionLog, _Led] = {}
        self._looks = TurnQueue(clock, steps_per_turn=CHECKS_PER_TURN)
        self.shrinks = 0
        """ISRs that have lost a member."""
        self.expansions = 0

    @property
    def check_interval_ms(self) -> int:
        """The interval between calls of `check_for_lag`."""
        return max(1, self._max_lag_ms // 2)

    def __len__(self) -> int:
        return len(self._led)

    # Metadata -------------------------------------------------------------------------------------------------------

    def lead(self, log: "PartitionLog", topic_id: Uuid, registration: PartitionMetadata) -> None:
        """This broker leads the partition of `log` in the registration's leader epoch, which the log has entered; or it
        does so already, and the registration has changed."""
        held = self._led.get(log)
        if held is not None:
            self._metadata_changed(held)
        context = self._context(log)
        after = leading.election_or_change(
            None if held is None else held.led, self._node_id, registration, log, context
        )
        if held is None:
            held = self._led[log] = _Led(log, topic_id, after.led)
            log.on_durable = self._durable
            log.on_append = log.on_progress = self._progress.progress
        self._apply(held, after)

    def resign(self, log: "PartitionLog") -> None:
        """This broker leads the partition of `log` no more."""
        held = self._led.pop(log, None)
        if held is not None:
            self._metadata_changed(held)
            log.on_append = None
            for _, deleted in held.deletions:
                if not deleted.done():
                    deleted.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._isr_changes.withdraw(held.topic_id, log.topic_partition.partition)

    def brokers_changed(self) -> None:
        """Brokers came, went, or registered again: positions may be void, and refused changes be asked for again. Every
        decision asks for the brokers of its moment; what only waits for one follows in turns."""

        def check(held: _Led) -> None:
            held.led = isr.brokers_changed(held.led)
            self._move(held)
            if held.deletions:
                self._check_deletions(held)

        self._looks.add(self._each(check))

    def settings_changed(self, log: "PartitionLog") -> None:
        """The log follows other settings: `min.insync.replicas` may be another."""
        held = self._led.get(log)
        if held is not None:
            self._move(held)

    def check_for_lag(self) -> None:
        """Ask for replicas that lag to be taken out of the ISR. Called each `check_interval_ms`, but not when that is
        late by `max_lag_ms`."""

        def check(held: _Led) -> None:
            for node_id in held.known:
                self._note_fetch(held, node_id)
            self._apply(held, leading.lag_checked(held.led, held.log, self._context(held.log)))

        self._looks.add(self._each(check))

    def _each(self, do: Callable[[_Led], None]) -> Iterator[None]:
        """Each partition that is led now, and still is in its turn."""
        for held in tuple(self._led.values()):
            if self._led.get(held.log) is held:
                do(held)
            yield

    # Followers ------------------------------------------------------------------------------------------------------

    def follower(self, node_id: int, told_epoch: int) -> "FollowerRequest":
        """The follower on `node_id`, for one fetch of it. `told_epoch` is its broker epoch, -1 if it told none."""
        return FollowerRequest(self, node_id, told_epoch)

    @property
    def brokers(self) -> Registrations:
        """Every registered broker as of now; the same object until that changes."""
        return self._brokers()

    @property
    def now_ms(self) -> int:
        """The time of the monotonic clock."""
        return self._clock.elapsed_ms()

    def refusal(self, log: "PartitionLog", fetch: FollowerFetch) -> ErrorCode:
        """The error of a follower that may not fetch, else NONE. The leader epoch that it told has been checked."""
        held = self._led.get(log)
        if held is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return leading.refusal(held.led, fetch, self._context(log))

    def fetched(self, log: "PartitionLog", follower: "FollowerRequest", wanted: FollowerWants) -> None:
        """A follower fetches, is not refused, and its log is a prefix of this one: it has what lies below. One that is
        in sync and has everything is idle; of any other each fetch may be the one after which it is taken in."""
        held, node_id = self._led.get(log), follower.node_id
        if held is None:
            return
        known = held.known.get(node_id)
        if known is not None:
            self._note_fetch(held, node_id)
            if known is not wanted.known:
                known.end()
        self._apply(held, leading.fetched(held.led, follower.fetch_of(wanted), log, self._context(log)))
        known = wanted.known
        if known is None or not known.is_served(follower):
            known = wanted.known = held.known[node_id] = KnownFollower(log, follower)
        known.fetched(follower.now_ms, is_idle=wanted.fetch_offset == log.log_end_offset and node_id in held.led.isr)
        wanted.is_named = False
        if held.deletions:
            self._check_deletions(held)

    def is_held(self, log: "PartitionLog", node_id: int, ahead_ms: int) -> bool:
        """True if the throttle keeps the records of a log from a follower for now, though what it allows in the next
        `ahead_ms` may go at once. One in sync is never kept."""
        throttle, held = self._throttle, self._led.get(log)
        return (
            throttle is not None
            and throttle.is_on
            and held is not None
            and node_id not in held.led.isr
            and throttle.is_spent(log.topic_partition, self.now_ms, ahead_ms)
        )

    def held_ms(self) -> int:
        """Time in milliseconds that the throttle keeps records from followers."""
        now_ms = self.now_ms
        return 0 if self._throttle is None else self._throttle.free_at_ms(now_ms) - now_ms

    def sent(self, log: "PartitionLog", size: int) -> None:
        """So many bytes of a log go to a follower, in sync or not."""
        if self._throttle is not None and self._throttle.is_on:
            self._throttle.count(log.topic_partition, size, self.now_ms)

    def _log_moved(self, log: "PartitionLog") -> None:
        held = self._led.get(log)
        if held is not None:
            for known in held.known.values():
                known.log_moved()

    def _note_fetch(self, held: _Led, node_id: int) -> None:
        """Take in what the fetches of an idle follower have said."""
        known, follower = held.known[node_id], held.led.follower(node_id)
        if known.is_idle and follower is not None and follower.fetched_ms < known.fetched_ms:
            held.led = held.led.with_follower(follower.fetched_again(known.fetched_ms))

    def _metadata_changed(self, held: _Led) -> None:
        """The replicas, the ISR or the leader epoch may be others, or this broker leads no more."""
        for node_id in held.known:
            self._note_fetch(held, node_id)
        over, held.known = held.known, {}
        for known in over.values():
            known.end()

    def nearest(self, log: "PartitionLog", offset: int, *, rack: str, endpoints: Sequence[LiveBroker]) -> int | None:
        """The follower in `rack` that a consumer should read from; None for the leader."""
        held = self._led.get(log)
        if held is None:
            return None
        return nearest_replica(held.led, offset=offset, rack=rack, endpoints=endpoints, brokers=self._brokers())

    def knows_its_end(self, log: "PartitionLog") -> bool:
        """True if the high watermark has reached the start of the leader epoch. Before, it may be lower than what an
        earlier leader has told (cluster.md 4.4)."""
        held = self._led.get(log)
        return held is None or log.high_watermark >= held.led.epoch_start

    def state(self, log: "PartitionLog") -> LedPartition | None:
        """The state of a partition that is led; None for one that is not."""
        held = self._led.get(log)
        return None if held is None else held.led

    # Producers ------------------------------------------------------------------------------------------------------

    def has_enough_in_sync(self, log: "PartitionLog") -> bool:
        """True if an append may promise acks=all now. A log that is not led says what is wrong by itself."""
        held = self._led.get(log)
        return held is None or held.led.has_enough_in_sync(log.config.min_insync_replicas)

    async def committed(self, batches: Sequence[WaitingBatch], *, timeout_ms: int) -> None:
        """Wait until each batch, appended for acks=all, is committed; else set its outcome to the error: the replicas
        were too slow (REQUEST_TIMED_OUT), or too few when the last of them had it, or this broker leads no more. The
        records stay in the log, and may be committed yet (cluster.md 4.10.4)."""
        futures = [batch.log.durable(_end(batch)) for batch in batches]
        await asyncio.wait(futures, timeout=timeout_ms / 1000)
        for batch, future in zip(batches, futures, strict=True):
            if not future.done():
                future.cancel()
                batch.outcome = Refused(ErrorCode.REQUEST_TIMED_OUT, "not all replicas in sync have it yet")
            elif (error := future.result()) is not ErrorCode.NONE:
                batch.outcome = Refused(error)
            elif not self.has_enough_in_sync(batch.log):
                batch.outcome = Refused(
                    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "replicas left the ISR since it was appended"
                )

    async def written(self, batches: Sequence[WaitingBatch]) -> None:
        """Wait until each batch, appended for acks=1, is durable on this broker, or set its outcome to the error."""
        waiting: list[tuple[WaitingBatch, Awaitable[ErrorCode]]] = [
            (batch, batch.log.durable_here(_end(batch))) for batch in batches
        ]
        for batch, future in waiting:
            error = await future
            if error is not ErrorCode.NONE:
                batch.outcome = Refused(error)

    # Deletions ------------------------------------------------------------------------------------------------------

    def low_watermark(self, log: "PartitionLog") -> int:
        """The offset at which the log starts on every live replica: below, nobody can read any more."""
        held = self._led.get(log)
        return log.log_start_offset if held is None else low_watermark(held.led, log.log_start_offset, self._brokers())

    async def deleted_before(
        self, wanted: Sequence[tuple["PartitionLog", int]], *, timeout_ms: int
    ) -> Sequence[ErrorCode]:
        """Wait until each log starts at its offset or later on every live replica; else why not: REQUEST_TIMED_OUT, or
        this broker leads no more (cluster.md 4.15)."""
        answers: list[ErrorCode | asyncio.Future[ErrorCode]] = []
        waiting: list[tuple[_Led, tuple[int, asyncio.Future[ErrorCode]]]] = []
        loop = asyncio.get_running_loop()
        for log, offset in wanted:
            held = self._led.get(log)
            if held is None:
                answers.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif self.low_watermark(log) >= offset:
                answers.append(ErrorCode.NONE)
            else:
                deletion = offset, loop.create_future()
                held.deletions.append(deletion)
                waiting.append((held, deletion))
                answers.append(deletion[1])
        if waiting:
            try:
                await asyncio.wait([deleted for _, (_, deleted) in waiting], timeout=timeout_ms / 1000)
            finally:
                for held, deletion in waiting:
                    held.deletions.remove(deletion)
        return [
            each if isinstance(each, ErrorCode) else each.result() if each.done() else ErrorCode.REQUEST_TIMED_OUT
            for each in answers
        ]

    def _check_deletions(self, held: _Led) -> None:
        reached = low_watermark(held.led, held.log.log_start_offset, self._brokers())
        for offset, deleted in held.deletions:
            if reached >= offset and not deleted.done():
                deleted.set_result(ErrorCode.NONE)

    # Decisions ------------------------------------------------------------------------------------------------------

    def _context(self, log: "PartitionLog") -> LeaderContext:
        return LeaderContext(
            self._brokers(),
            self._own_epoch(),
            log.config.min_insync_replicas,
            self._max_lag_ms,
            self._clock.elapsed_ms(),
        )

    def _durable(self, log: "PartitionLog") -> None:
        held = self._led.get(log)
        if held is not None:
            self._move(held)

    def _move(self, held: _Led) -> None:
        self._apply(held, leading.context_changed(held.led, held.log, self._context(held.log)))

    def _apply(self, held: _Led, after: LeaderStep) -> None:
        """The state first: what is woken by the high watermark may look at it."""
        before, held.led = held.led, after.led
        if before.isr != after.led.isr:
            self._report(held, before)
        held.log.advance_high_watermark(after.high_watermark)
        if after.change is not None:
            answered = partial(self._controller_responded, held, after.change)
            self._isr_changes.request(held.topic_id, held.log.topic_partition.partition, after.change, answered)

    def _controller_responded(self, held: _Led, change: IsrChange, answer: IsrChangeResult) -> None:
        if self._led.get(held.log) is not held:
            return
        self._metadata_changed(held)
        context = self._context(held.log)
        self._apply(held, leading.controller_responded(held.led, change, answer, held.log, context))

    def _report(self, held: _Led, before: LedPartition) -> None:
        has_shrunk = len(held.led.isr) < len(before.isr)
        self.shrinks += has_shrunk
        self.expansions += not has_shrunk
        verb = "shrinks" if has_shrunk else "grows"
        _LOG.info("%s: the ISR %s from %s to %s", held.log.topic_partition, verb, before.isr, held.led.isr)


class FollowerRequest:
    """One fetch of one follower."""

    __slots__ = ("_led_partitions", "brokers", "has_waited", "node_id", "now_ms", "told_epoch")

    def __init__(self, led_partitions: LedPartitions, node_id: int, told_epoch: int) -> None:
        self._led_partitions = led_partitions
        self.has_waited = False
        self.node_id = node_id
        self.told_epoch = told_epoch
        self.brokers = led_partitions.brokers
        self.now_ms = led_partitions.now_ms

    def refusal(self, log: "PartitionLog", wanted: FollowerWants) -> ErrorCode:
        """The error if it may not fetch from `log`, else NONE."""
        return self._led_partitions.refusal(log, self.fetch_of(wanted))

    def fetched(self, log: "PartitionLog", wanted: FollowerWants) -> None:
        """Its position is the offset that it wants. Heard once: after a wait it would count as a fetch of that time."""
        if not self.has_waited:
            self._led_partitions.fetched(log, self, wanted)

    def is_idle(self, wanted: FollowerWants) -> bool:
        """True if it still has everything, and nothing but a high watermark is to be said to it."""
        known = wanted.known
        if known is None or wanted.is_named or not known.has_nothing_to_say(self, wanted):
            return False
        if not self.has_waited:
            known.fetched_again(self.now_ms)
        return True

    def lacks_high_watermark(self, wanted: FollowerWants) -> bool:
        """True if it is idle, and the high watermark is another one than it knows."""
        known = wanted.known
        return known is not None and known.is_committed_further(wanted)

    def waited(self) -> None:
        """Note that what the fetch says of the follower has been heard."""
        self.has_waited = True
        self.brokers = self._led_partitions.brokers
        self.now_ms = self._led_partitions.now_ms

    def is_held(self, log: "PartitionLog", *, ahead_ms: int = 0) -> bool:
        """True if it gets nothing of `log` for now, since copies are throttled. `ahead_ms`: what the rate allows within
        that time may go at once."""
        return self._led_partitions.is_held(log, self.node_id, ahead_ms)

    def held_ms(self) -> int:
        """Time in milliseconds that the throttle keeps records from it."""
        return self._led_partitions.held_ms()

    def sent(self, log: "PartitionLog", size: int) -> None:
        """So many bytes of `log` go to it."""
        self._led_partitions.sent(log, size)

    def fetch_of(self, wanted: FollowerWants) -> FollowerFetch:
        """The fetch as the rules see it."""
        return FollowerFetch(
            self.node_id,
            self.told_epoch,
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.log_start_offset,
        )


def _end(batch: WaitingBatch) -> int:
    assert isinstance(batch.outcome, Appended)
    return batch.outcome.last_offset + 1
