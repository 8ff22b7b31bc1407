"""`LeaseBook` decides which task of a batch may write to which partition, and from which sequence number on.

Owns, while a batch is written, the next sequence number and the writer of every partition, and the tasks that have
begun. Always true: a partition has one writer at a time, which continues after the acknowledged batches of the last
writer; a task cannot begin twice; and after a task that had begun has failed or vanished, no task gets a lease any
more. It only decides: nothing here waits or sends.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eosin.client.errors import BrokerError
from eosin.protocol.errors import ErrorCode

Grant = Callable[[int], None]
"""Gives a partition to a task, with the sequence number of its next batch."""


class WriteRefused(Exception):
    """A task may not write. The message is one sentence with the reason."""


class WritesStopped(WriteRefused):
    """No task may write any more, since one has failed."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The failure of the first task that failed."""

    reason: str
    code: ErrorCode | None = None
    """The error code of the broker, if the broker refused."""

    def broker_error(self, doing: str) -> BrokerError | None:
        """The broker's refusal as an error for the driver; None if the task failed for another reason."""
        return None if self.code is None else BrokerError(self.code, doing, self.reason)


class LeaseBook:
    """The leases of one batch."""

    def __init__(self) -> None:
        self.failure: TaskFailure | None = None
        self.rows: Final[dict[int, int]] = {}
        """The number of rows of each task whose batches are all acknowledged."""
        self.retries = 0
        """The number of times that calls of these tasks timed out and were repeated."""
        self._begun: set[int] = set()
        self._holders: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, Grant]]] = {}
        self._sequences: dict[int, int] = {}

    def begin(self, task: int) -> None:
        """A task is about to write for the first time. Raises Refused if it has begun before: the broker would take its
        new batches for retries of the old ones."""
        self.check()
        if task in self._begun:
            raise WriteRefused(
                f"task {task} was tried before in this transaction and may have written: the batch must be written anew"
            )
        self._begun.add(task)

    def request(self, task: int, partition: int, grant: Grant) -> None:
        """Ask for a partition. `grant` is called at once, or when its holder frees it. Raises Refused."""
        self.check()
        if partition in self._holders:
            self._waiting.setdefault(partition, deque()).append((task, grant))
        else:
            self._give(partition, task, grant)

    def free(self, task: int, partition: int, sequence: int) -> None:
        """Give a partition back; `sequence` follows the acknowledged batches. Raises Refused."""
        self.check()
        if self._holders.pop(partition, None) != task:
            raise WriteRefused(f"task {task} gives back partition {partition}, which was not its own")
        self._sequences[partition] = sequence
        if waiting := self._waiting.get(partition):
            self._give(partition, *waiting.popleft())

    def _give(self, partition: int, task: int, grant: Grant) -> None:
        self._holders[partition] = task
        grant(self._sequences.get(partition, 0))

    def done(self, task: int, rows: int, retries: int) -> None:
        """A task has written `rows` rows, and all of them are acknowledged. Raises Refused."""
        self.check()
        self.rows[task] = rows
        self.retries += retries

    def fail(self, task: int, reason: str, code: ErrorCode | None = None) -> None:
        """Note the failure of a task. Only the first one counts: it makes the others fail."""
        if self.failure is None:
            self.failure = TaskFailure(f"task {task} failed: {reason}", code)

    def gone(self, task: int) -> None:
        """A task has disconnected: a failure, unless the task was done."""
        if task not in self.rows:
            self.fail(task, "its connection to the driver was lost while it wrote")

    def check(self) -> None:
        """Raise GivenUp if a task has failed."""
        if self.failure is not None:
            raise WritesStopped(f"the batch is given up, since {self.failure.reason}")
