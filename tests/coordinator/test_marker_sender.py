"""Markers reach every partition, each by its own answer, for as long as it takes (transactions.md 5)."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, PAYMENTS_0, FakePartitions
from loop_steps import LoopSteps
from manual_clock import ManualClock

from eosin.coordinator.transactions.marker_sender import SENT_AT_ONCE, MarkerJob, MarkerSender
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.chance import SeededChance
from eosin.storage.results.log_results import Marker

pytestmark = pytest.mark.virtual

MOST_S = 0.025
"""Of processor time, for a step of the event loop."""
COMMIT = Marker(producer_id=7, producer_epoch=5, commit=True, coordinator_epoch=3)


class Sending:
    """A sender, its partitions, and what it told its owner."""

    def __init__(self, *, goes_on: bool = True) -> None:
        self.partitions = FakePartitions()
        self.clock = ManualClock(0)
        self.written: list[MarkerJob] = []
        self.fenced = 0
        self._goes_on = goes_on
        self.sender = MarkerSender(
            self.partitions, self, clock=self.clock, config=TransactionConfig(), chance=SeededChance(1)
        )

    def markers_written(self, job: MarkerJob) -> None:
        self.written.append(job)

    def markers_fenced(self, job: MarkerJob) -> bool:
        self.fenced += 1
        return self._goes_on

    def send(self, *partitions: object) -> MarkerJob:
        job = MarkerJob("tx", COMMIT, partitions, coordinator_partition=4)  # type: ignore[arg-type]
        self.sender.send(job)
        return job


def test_markers_that_are_written_at_once_are_reported_before_send_returns() -> None:
    sending = Sending()
    job = sending.send(ORDERS_0, PAYMENTS_0)
    assert sending.written == [job]
    assert sending.partitions.calls == 1
    assert sending.partitions[ORDERS_0].markers == sending.partitions[PAYMENTS_0].markers == [COMMIT]


class _AtOnce:
    """A target that answers at once, and notes how many markers it got in each turn."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.drops: Callable[[], None] = lambda: None

    async def write_markers(self, markers: Sequence[MarkersForPartitions]) -> Mapping[Any, ErrorCode]:
        (each,) = markers
        self.counts.append(len(each.partitions))
        self.drops()
        return {(each.marker.producer_id, partition): ErrorCode.NONE for partition in each.partitions}


async def test_the_markers_of_tens_of_thousands_of_partitions_are_sent_in_turns() -> None:
    sending, target = Sending(), _AtOnce()
    partitions = [TopicPartition("orders", index) for index in range(50_000)]
    with patch.object(sending.partitions, "target", lambda partition: target), LoopSteps() as steps:
        job = steps.begin(sending.send, *partitions)
        for _ in range(2 * len(partitions) // SENT_AT_ONCE):
            await asyncio.sleep(0)
    assert sending.written == [job]
    assert not job.remaining
    assert target.counts == [SENT_AT_ONCE] * (50_000 // SENT_AT_ONCE)
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)


async def test_a_job_that_is_dropped_between_two_turns_sends_no_more() -> None:
    sending, target = Sending(), _AtOnce()
    target.drops = lambda: sending.sender.drop(4)
    with patch.object(sending.partitions, "target", lambda partition: target):
        sending.send(*(TopicPartition("orders", index) for index in range(3 * SENT_AT_ONCE)))
        for _ in range(10):
            await asyncio.sleep(0)
    assert target.counts == [SENT_AT_ONCE]
    assert sending.written == []


def test_a_transaction_without_partitions_has_all_its_markers() -> None:
    sending = Sending()
    assert sending.written == [sending.send()]
    assert sending.partitions.calls == 0


async def test_markers_that_take_time_are_reported_when_they_are_written() -> None:
    sending = Sending()
    sending.partitions.slow = True
    job = sending.send(ORDERS_0)
    assert (sending.written, sending.sender.outstanding) == ([], 1)
    sending.partitions.finish()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (sending.written, sending.sender.outstanding) == ([job], 0)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_partition_that_refuses_is_asked_again_and_only_that_one(error: ErrorCode) -> None:
    sending = Sending()
    sending.partitions.answers[ORDERS_1] = [error, error]
    job = sending.send(ORDERS_0, ORDERS_1)
    assert list(job.remaining) == [ORDERS_1]
    sending.clock.advance(1000)
    assert sending.written == [job]
    assert (sending.partitions.calls, len(sending.partitions[ORDERS_0].markers)) == (3, 1)


def test_the_wait_doubles_from_20_ms_to_a_second() -> None:
    sending = Sending()
    sending.partitions.lookups[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
    sending.send(ORDERS_0)
    waits = []
    for _ in range(10):
        (timer,) = [timer for timer in sending.clock._timers if timer.callback]
        waits.append(timer.due_ms - sending.clock.now_ms())
        sending.clock.advance(timer.due_ms - sending.clock._now_ms)
    for wait, expected in zip(waits, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000], strict=True):
        assert 0.8 * expected - 1 <= wait <= 1.2 * expected + 1


@pytest.mark.parametrize(
    "error",
    [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION],
)
def test_a_partition_that_needs_no_marker_any_more_is_crossed_off(error: ErrorCode) -> None:
    sending = Sending()
    sending.partitions.answers[ORDERS_0] = [error]
    assert sending.written == [sending.send(ORDERS_0, ORDERS_1)]
    assert len(sending.partitions[ORDERS_1].markers) == 1


def test_a_deleted_partition_needs_no_marker_but_one_without_leader_does() -> None:
    sending = Sending()
    sending.partitions.lookups[ORDERS_0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sending.partitions.lookups[ORDERS_1] = ErrorCode.LEADER_NOT_AVAILABLE
    job = sending.send(ORDERS_0, ORDERS_1, PAYMENTS_0)
    assert list(job.remaining) == [ORDERS_1]
    del sending.partitions.lookups[ORDERS_1]
    sending.clock.advance(100)
    assert sending.written == [job]


async def test_a_target_that_is_not_reached_is_asked_again_without_a_line_for_each_transaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sending = Sending()
    sending.partitions.broken = [ConnectionResetError("gone"), OSError("gone")]
    with caplog.at_level(logging.WARNING):
        job = sending.send(ORDERS_0)
        sending.clock.advance(100)
    assert sending.written == [job]
    assert not caplog.records


async def test_a_target_that_fails_after_a_while_is_asked_again() -> None:
    sending = Sending()

    class Failing:
        async def write_markers(self, markers: object) -> dict[object, object]:
            await asyncio.sleep(0)
            raise ConnectionResetError("gone")

    sending.partitions.lookups[ORDERS_0] = Failing()  # type: ignore[assignment]
    job = sending.send(ORDERS_0)
    for _ in range(4):
        await asyncio.sleep(0)
    assert job.retry is not None
    del sending.partitions.lookups[ORDERS_0]
    sending.clock.advance(100)
    assert sending.written == [job]


def test_when_fenced_the_owner_says_whether_to_go_on() -> None:
    going_on, giving_up = Sending(goes_on=True), Sending(goes_on=False)
    for sending in (going_on, giving_up):
        sending.partitions.answers[ORDERS_0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        sending.send(ORDERS_0)
        sending.clock.advance(1000)
        assert sending.fenced == 1
    assert len(going_on.written) == 1
    assert (giving_up.written, giving_up.sender.outstanding) == ([], 0)


async def test_dropped_jobs_are_never_reported() -> None:
    sending = Sending()
    sending.partitions.lookups[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
    sending.partitions.slow = True
    sending.send(ORDERS_0)
    sending.send(ORDERS_1)
    sending.sender.drop(3)
    assert sending.sender.outstanding == 2
    sending.sender.drop(4)
    sending.partitions.finish()
    sending.partitions.lookups.clear()
    await sending.clock.run(5000)
    assert (sending.written, sending.sender.outstanding) == ([], 0)


async def test_the_end_gives_up_everything() -> None:
    sending = Sending()
    sending.partitions.slow = True
    sending.send(ORDERS_1)
    await sending.sender.stop()
    assert (sending.written, sending.sender.outstanding) == ([], 0)
