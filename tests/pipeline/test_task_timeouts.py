"""KIP-572's rules for tasks that time out (A1), on a clock that a test moves."""

import logging
from collections import Counter

import pytest

from eosin.client.errors import BadData, BrokerError, ConnectionFailed, RequestTimedOut
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.settings import PipelineSettings
from eosin.pipeline.common.task_timeouts import TaskTimeouts, duration, is_timeout
from eosin.pipeline.common.topic_creation import create_topics
from eosin.protocol.errors import ErrorCode


class HandClock:
    """Time that passes when a test says so, or when somebody waits."""

    def __init__(self) -> None:
        self.at_ms = 1_000
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return self.at_ms

    def elapsed_ms(self) -> int:
        return self.at_ms

    async def sleep(self, delay_ms: float) -> None:
        self.slept.append(delay_ms)
        self.at_ms += int(delay_ms)


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()


@pytest.fixture
def timeouts(clock: HandClock) -> TaskTimeouts:
    """A second for each task."""
    return TaskTimeouts(1_000, 100, clock=clock)


def late() -> RequestTimedOut:
    return RequestTimedOut("b:1 did not answer FETCH in 5 ms")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (late(), True),
        (ConnectionFailed("nobody there"), True),
        (TimeoutError("too long"), True),
        (BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "looking"), True),  # after the client's own retries
        (BrokerError(ErrorCode.REQUEST_TIMED_OUT, "writing"), True),
        (BrokerError(ErrorCode.PRODUCER_FENCED, "writing"), False),
        (BadData("damaged"), False),
        (ValueError("a bug"), False),
    ],
    ids=str,
)
def test_only_a_timeout_counts_as_a_timeout_of_a_task(error: Exception, expected: bool) -> None:
    assert is_timeout(error) is expected


def test_a_timer_starts_at_the_first_timeout_and_not_before(timeouts: TaskTimeouts, clock: HandClock) -> None:
    clock.at_ms += 1_000_000  # slow work
    assert timeouts.remaining_ms("t-0") is None
    timeouts.on_timeout(["t-0"], late())
    assert timeouts.remaining_ms("t-0") == 1_000
    clock.at_ms += 400
    timeouts.on_timeout(["t-0"], late())
    assert timeouts.remaining_ms("t-0") == 600


def test_success_clears_the_timer(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 900
    timeouts.on_success("t-0")
    assert (timeouts.remaining_ms("t-0"), timeouts.skipped) == (None, {})
    clock.at_ms += 900
    timeouts.on_timeout("t-0", late())
    assert timeouts.remaining_ms("t-0") == 1_000


def test_up_to_the_deadline_a_task_is_tried_again(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 1_000
    assert not timeouts.is_final_attempt("t-0")
    timeouts.on_timeout("t-0", late())


def test_an_attempt_that_ended_after_the_deadline_is_followed_by_a_final_one(
    timeouts: TaskTimeouts, clock: HandClock
) -> None:
    timeouts.on_timeout("t-0", late())
    assert not timeouts.is_final_attempt("t-0")
    clock.at_ms += 5_000  # the attempt took so long
    timeouts.on_timeout("t-0", late())
    assert timeouts.is_final_attempt("t-0")
    with pytest.raises(RequestTimedOut):
        timeouts.on_timeout("t-0", late())


def test_an_attempt_that_begins_after_the_deadline_is_the_final_one(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 1_001
    assert timeouts.is_final_attempt("t-0")
    with pytest.raises(RequestTimedOut):
        timeouts.on_timeout("t-0", late())


def test_a_final_attempt_that_succeeds_gives_the_task_all_of_its_time_again(
    timeouts: TaskTimeouts, clock: HandClock
) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 1_001
    assert timeouts.is_final_attempt("t-0")
    timeouts.on_success("t-0")
    timeouts.on_timeout("t-0", late())
    assert not timeouts.is_final_attempt("t-0")


def test_the_final_timeout_is_raised_unchanged_with_a_note(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 1_500
    assert timeouts.is_final_attempt("t-0")
    original = late()
    with pytest.raises(RequestTimedOut) as raised:
        timeouts.on_timeout("t-0", original)
    assert raised.value is original
    assert timeouts.failure is original
    assert original.__notes__ == ["task t-0 gave up after task.timeout.ms=1000, 1500 ms after its first timeout"]


def test_a_task_timeout_of_zero_raises_the_first_timeout_at_once(clock: HandClock) -> None:
    original = late()
    with pytest.raises(RequestTimedOut) as raised:
        TaskTimeouts(0, clock=clock).on_timeout("t-0", original)
    assert raised.value is original


def test_a_call_for_several_tasks_starts_the_timer_of_each(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 300
    timeouts.on_timeout(["t-0", "t-1", "t-2"], late(), "EndTxn")
    assert timeouts.skipped == {"t-0": 700, "t-1": 1_000, "t-2": 1_000}


def test_the_timers_of_all_tasks_are_checked_even_when_one_has_expired(
    timeouts: TaskTimeouts, clock: HandClock
) -> None:
    timeouts.on_timeout("t-0", late())
    clock.at_ms += 1_001
    assert timeouts.is_final_attempt("t-0")
    with pytest.raises(RequestTimedOut):
        timeouts.on_timeout(["t-0", "t-1"], late())
    assert timeouts.remaining_ms("t-1") == 1_000


def test_a_skip_is_one_warning_that_names_task_call_and_time(
    timeouts: TaskTimeouts, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    timeouts.on_timeout("t-0", late(), "asking for the end of t-0")
    clock.at_ms += 400
    timeouts.on_timeout(["t-0", "t-1"], late())
    assert [each.levelno for each in caplog.records] == [logging.WARNING] * 2
    assert caplog.messages == [
        "t-0 (1s left) timed out, the others go on: asking for the end of t-0",
        "t-0 (600ms left), t-1 (1s left) timed out, the others go on: b:1 did not answer FETCH in 5 ms",
    ]


def test_skips_are_counters_and_remaining_times_are_gauges(timeouts: TaskTimeouts, clock: HandClock) -> None:
    timeouts.on_timeout("t-0", late())
    timeouts.on_timeout(["t-0", "t-1"], late())
    timeouts.on_success("t-0")
    clock.at_ms += 250
    assert timeouts.skips == Counter({"t-0": 2, "t-1": 1})
    assert timeouts.metrics() == {
        'task_timeout_remaining_ms{task="t-1"}': 750,
        'task_skips_total{task="t-0"}': 2,
        'task_skips_total{task="t-1"}': 1,
    }


def test_the_pause_doubles_while_no_task_can_run_and_is_reset_by_a_success(timeouts: TaskTimeouts) -> None:
    assert [timeouts.idle_backoff_ms() for _ in range(9)] == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    timeouts.on_success("t-0")
    assert timeouts.idle_backoff_ms() == 100


@pytest.mark.parametrize(("ms", "text"), [(0, "0ms"), (999, "999ms"), (12_345, "12s"), (250_000, "4m10s")])
def test_durations_are_written_for_people(ms: int, text: str) -> None:
    assert duration(ms) == text


# Settings


def test_the_setting_retries_is_ignored_with_one_warning_and_client_retries_are_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = PipelineSettings.parse({"retries": "7", "producer.retries": "3", "admin.retries": "0"})
    assert found.client_retries == {"producer.retries": 3, "admin.retries": 0}
    assert found.task_timeout_ms == 300_000
    assert caplog.messages == ["retries is ignored: task.timeout.ms limits how long a task is retried (KIP-572)"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("task.timeout.ms", "-1", "task.timeout.ms is '-1', and must be a number from 0 on"),
        ("max.poll.interval.ms", "soon", "max.poll.interval.ms is 'soon', and must be a number from 1 on"),
        ("task.timeout", "1", "a pipeline has no setting 'task.timeout'"),
    ],
)
def test_an_invalid_setting_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(ConflictingSettings, match=said):
        PipelineSettings.parse({name: value})


# Creating topics


class Creations:
    """Topics that are created at a certain attempt, each attempt taking time."""

    def __init__(self, clock: HandClock, takes_ms: int, **succeeds_at: int) -> None:
        self.clock = clock
        self.takes_ms = takes_ms
        self.succeeds_at = succeeds_at
        self.attempts: list[str] = []

    def topics(self) -> dict[str, object]:
        def creating(name: str) -> object:
            async def create() -> None:
                self.attempts.append(name)
                self.clock.at_ms += self.takes_ms
                if self.attempts.count(name) < self.succeeds_at[name]:
                    raise late()

            return create

        return {name: creating(name) for name in self.succeeds_at}


async def test_a_topic_that_is_delayed_is_logged_and_does_not_hold_up_the_others(
    clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    creations = Creations(clock, 10, slow=3, other=1, third=2)
    await create_topics(creations.topics(), limit_ms=1_000, clock=clock)  # type: ignore[arg-type]
    assert creations.attempts == ["slow", "other", "third", "slow", "third", "slow"]
    assert clock.slept == [100, 200]
    assert caplog.messages[0] == "topic slow could not be created yet (990ms left): b:1 did not answer FETCH in 5 ms"
    assert len(caplog.messages) == 3


async def test_creating_topics_ends_at_half_of_the_poll_interval(clock: HandClock) -> None:
    begun_ms = clock.at_ms
    settings = PipelineSettings.parse({"max.poll.interval.ms": "20000"})
    creations = Creations(clock, 1_000, never=999, other=1)
    with pytest.raises(RequestTimedOut) as raised:
        await create_topics(
            creations.topics(),  # type: ignore[arg-type]
            limit_ms=settings.topic_creation_ms,
            clock=clock,
        )
    assert raised.value.__notes__ == ["could not create never in 10000 ms, which is half of max.poll.interval.ms"]
    assert 10_000 <= clock.at_ms - begun_ms < 20_000
    assert creations.attempts.count("other") == 1


async def test_an_existing_topic_is_fine_and_a_refused_one_is_not_retried(clock: HandClock) -> None:
    async def there() -> None:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "creating there")

    async def refused() -> None:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, "creating refused")

    await create_topics({"there": there}, limit_ms=1_000, clock=clock)
    with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
        await create_topics({"there": there, "refused": refused}, limit_ms=1_000, clock=clock)
    assert clock.slept == []
