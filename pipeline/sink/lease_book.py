"""Which task of a batch may write to which partition, and from which sequence on.

Owns, while one batch is written, the next sequence of every partition, who writes there, and which tasks have begun.
Always true: a partition has one writer at a time, who begins where the acknowledged batches of the last one end; a task
that has begun is not begun a second time; and once one that had begun has failed or vanished, nobody is given anything
more. Decides only: nothing here waits or sends.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eosin.client.errors import BrokerError
from eosin.protocol.errors import ErrorCode

Grant = Callable[[int], None]
"""Tells a task that a partition is its own, and the sequence of its next batch."""


class Refused(Exception):
    """A task may not write, and the message says why in one sentence."""


class GivenUp(Refused):
    """Nobody may write any more, since a task has failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the first task failed that did."""

    reason: str
    code: ErrorCode | None = None
    """What the broker has answered, if that was it."""

    def broker_error(self, doing: str) -> BrokerError | None:
        """The broker's refusal, as if it had been told to the driver; None if it was something else."""
        return None if self.code is None else BrokerError(self.code, doing, self.reason)


class LeaseBook:
    """The leases of one batch."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.rows: Final[dict[int, int]] = {}
        """The rows of each task that has said that all of its batches are acknowledged."""
        self.retries = 0
        """How often calls of those tasks timed out and were made again."""
        self._begun: set[int] = set()
        self._holders: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, Grant]]] = {}
        self._sequences: dict[int, int] = {}

    def begin(self, task: int) -> None:
        """A task is about to write for the first time. Raises Refused if it was begun before: what it has written then
        the broker would take for repetitions."""
        self.check()
        if task in self._begun:
            raise Refused(
                f"task {task} was tried before in this transaction and may have written: the batch must be written anew"
            )
        self._begun.add(task)

    def take(self, task: int, partition: int, grant: Grant) -> None:
        """A task asks for a partition. `grant` is called when it is free: now, or by who frees it. Raises Refused."""
        self.check()
        if partition in self._holders:
            self._waiting.setdefault(partition, deque()).append((task, grant))
        else:
            self._give(partition, task, grant)

    def free(self, task: int, partition: int, sequence: int) -> None:
        """A task's batches are acknowledged; `sequence` is the next one of the partition. Raises Refused."""
        self.check()
        if self._holders.pop(partition, None) != task:
            raise Refused(f"task {task} gives back partition {partition}, which was not its own")
        self._sequences[partition] = sequence
        if waiting := self._waiting.get(partition):
            self._give(partition, *waiting.popleft())

    def _give(self, partition: int, task: int, grant: Grant) -> None:
        self._holders[partition] = task
        grant(self._sequences.get(partition, 0))

    def done(self, task: int, rows: int, retries: int) -> None:
        """Everything that a task had is acknowledged: so many rows. Raises Refused."""
        self.check()
        self.rows[task] = rows
        self.retries += retries

    def fail(self, task: int, reason: str, code: ErrorCode | None = None) -> None:
        """A task has failed, and says why. The first one counts: the others fail for its sake."""
        if self.failure is None:
            self.failure = Failure(f"task {task} failed: {reason}", code)

    def gone(self, task: int) -> None:
        """Nothing more is heard of a task. Harmless when it was done."""
        if task not in self.rows:
            self.fail(task, "its connection to the driver was lost while it wrote")

    def check(self) -> None:
        """Raise GivenUp if a task has failed."""
        if self.failure is not None:
            raise GivenUp(f"the batch is given up, since {self.failure.reason}")
