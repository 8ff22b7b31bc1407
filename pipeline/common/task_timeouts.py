"""KIP-572: how long a task may keep timing out while the other tasks go on.

Owns one timer per task: an input partition, or a whole micro-batch that is being written. Always true:

- only a timeout starts a timer, and the first success of the task clears it: slow work costs nothing;
- a task that timed out is left out of its round and retried in the next one, until its time is up;
- after that it has one final attempt; if that times out as well, its own error is raised, with a note;
- timers live in memory on a monotonic clock: a restart begins without timers.

Nothing here waits, and nothing here knows Spark.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from eosin.client.errors import ClientError
from eosin.runtime.clock import Clock, SystemClock

TASK_TIMEOUT_MS: Final = 300_000
"""`task.timeout.ms`."""
RETRY_BACKOFF_MS: Final = 100
"""`retry.backoff.ms`: the first pause when no task can run. It doubles with every such round."""
LAST_BACKOFF_MS: Final = 10_000
GAVE_UP: Final = "gave up after task.timeout.ms="
"""The start of the note on a raised error. Spark passes on only the text of an error, including its notes."""

log = logging.getLogger(__name__)


def is_timeout(error: BaseException) -> bool:
    """True if an error means that a call took too long.

    The client raises a retriable error (no response, no connection, no leader) only after it has retried for as long
    as it may. Kafka's clients raise a TimeoutException then.
    """
    return isinstance(error, TimeoutError) or (isinstance(error, ClientError) and error.retriable)


class TaskTimeouts:
    """The timers of all tasks of one run."""

    def __init__(
        self,
        task_timeout_ms: int = TASK_TIMEOUT_MS,
        retry_backoff_ms: int = RETRY_BACKOFF_MS,
        *,
        clock: Clock | None = None,
    ) -> None:
        """With a `task_timeout_ms` of 0 the first timeout is raised at once, as the KIP says (Apache Kafka's code makes
        one more attempt)."""
        assert task_timeout_ms >= 0
        assert retry_backoff_ms >= 0
        self.task_timeout_ms: Final = task_timeout_ms
        self.skips: Final[Counter[str]] = Counter()
        """The number of times that each task was left out of a round: `task_skips_total`."""
        self.failure: BaseException | None = None
        """The error of the final attempt, once it was raised."""
        self._retry_backoff_ms = retry_backoff_ms
        self._clock = clock or SystemClock()
        self._deadlines: dict[str, int] = {}
        self._final: set[str] = set()
        self._idle_rounds = 0

    def on_timeout(self, tasks: Iterable[str] | str, error: BaseException, call: str | None = None) -> None:
        """A call for these tasks has timed out: start or check the timer of each, and log one warning.

        Raises `error` itself, with a note, if the time of one of them is up and this was its final attempt.
        """
        concerned = [tasks] if isinstance(tasks, str) else list(tasks)
        now_ms = self._clock.elapsed_ms()
        expired = [task for task in concerned if self._is_over(task, now_ms)]
        if expired:
            task = expired[0]
            elapsed_ms = now_ms - self._deadlines.get(task, now_ms) + self.task_timeout_ms
            error.add_note(f"task {task} {GAVE_UP}{self.task_timeout_ms}, {elapsed_ms} ms after its first timeout")
            self.failure = error
            raise error
        self.skips.update(concerned)
        if concerned:
            log.warning("%s timed out, the others go on: %s", self._named(concerned), call or error)

    def _is_over(self, task: str, now_ms: int) -> bool:
        if not self.task_timeout_ms:
            return True
        deadline = self._deadlines.setdefault(task, now_ms + self.task_timeout_ms)
        if now_ms <= deadline:
            return False
        over = task in self._final
        self._final.add(task)
        return over

    def retries(self, task: str) -> int:
        """The number of times that a call for the task has timed out and was, or will be, repeated."""
        return self.skips[task]

    def _named(self, tasks: Iterable[str]) -> str:
        named = []
        for task in tasks:
            left = "one more attempt" if task in self._final else f"{duration(self.remaining_ms(task) or 0)} left"
            named.append(f"{task} ({left})")
        return ", ".join(named)

    def on_success(self, task: str) -> None:
        """The task has made progress: its whole time is available again."""
        self._deadlines.pop(task, None)
        self._final.discard(task)
        self._idle_rounds = 0

    def is_final_attempt(self, task: str) -> bool:
        """True if the attempt that begins now is the final one. Call it as the attempt begins: an attempt that begins
        after the deadline is final, one that only ends after it is not."""
        deadline = self._deadlines.get(task)
        if deadline is not None and self._clock.elapsed_ms() > deadline:
            self._final.add(task)
        return task in self._final

    def remaining_ms(self, task: str) -> int | None:
        """The time for which the task may keep timing out before its final attempt; None if it is not late."""
        deadline = self._deadlines.get(task)
        return None if deadline is None else max(0, deadline - self._clock.elapsed_ms())

    def is_late(self, task: str) -> bool:
        """True if the task has timed out since its last success."""
        return task in self._deadlines

    @property
    def skipped(self) -> dict[str, int]:
        """The late tasks, and the ms that each has left: `skipped_tasks`."""
        return {task: self.remaining_ms(task) or 0 for task in sorted(self._deadlines)}

    def idle_backoff_ms(self) -> int:
        """The time to wait when no task can run: it doubles with every such round, until a task succeeds."""
        doubled = self._retry_backoff_ms << min(self._idle_rounds, 20)
        self._idle_rounds += 1
        return min(doubled, max(LAST_BACKOFF_MS, self._retry_backoff_ms))

    def metrics(self) -> dict[str, int]:
        """Gauges and counters by name and label, as Prometheus spells them."""
        return metrics(self.skipped, self.skips)


def metrics(remaining_ms: Mapping[str, int], skips: Mapping[str, int]) -> dict[str, int]:
    """The time that late tasks have left and how often each timed out, by name and label as Prometheus spells them."""
    gauges = {f'task_timeout_remaining_ms{{task="{task}"}}': left for task, left in sorted(remaining_ms.items())}
    return gauges | {f'task_skips_total{{task="{task}"}}': count for task, count in sorted(skips.items())}


def duration(duration_ms: int) -> str:
    """A duration for people: `4m10s`, `12s`, `350ms`."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
