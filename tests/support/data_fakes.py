"""Stand-ins for a partition log and a transaction coordinator, for tests of who waits for them and who asks them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import AddPartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.storage.results.log_results import Refused, VerificationGuard


class FakeWatchedLog:
    """A log of numbered bytes: offset n is byte n, and the test moves its watermarks."""

    def __init__(self, *, high_watermark: int = 0, last_stable_offset: int | None = None) -> None:
        self.high_watermark = high_watermark
        self.last_stable_offset = high_watermark if last_stable_offset is None else last_stable_offset
        self.unusable: Refused | None = None
        self.on_progress: Callable[[FakeWatchedLog], None] | None = None
        self.counted = 0
        """The number of questions about the size."""

    @property
    def log_end_offset(self) -> int:
        """Nothing is written that is not durable."""
        return self.high_watermark

    def grow_to(self, high_watermark: int, *, stable: int | None = None) -> None:
        """Make everything below `high_watermark` durable, and below `stable` decided."""
        self.high_watermark = high_watermark
        self.last_stable_offset = high_watermark if stable is None else stable
        self.tell()

    def stop(self, error: ErrorCode) -> None:
        """Take the log offline, or delete it."""
        self.unusable = Refused(error)
        self.tell()

    def tell(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self)

    def bytes_available(self, offset: int, *, isolation: IsolationLevel | None, limit: int) -> int:
        self.counted += 1
        committed = isolation is IsolationLevel.READ_COMMITTED
        end = self.last_stable_offset if committed else self.high_watermark
        return min(limit, max(0, end - offset))


class FakeVerifiedLog:
    """The part of a log that hands out verification guards; the test says what it answers."""

    def __init__(self, *verdicts: VerificationGuard | Refused | None) -> None:
        self.verdicts = list(verdicts)
        self.asked = 0
        self.markers = 0
        """The number of the coordinator's answers that a marker overtakes."""

    def is_verifying(self, producer_id: int, guard: VerificationGuard) -> bool:
        if self.markers:
            self.markers -= 1
            return False
        return True

    def begin_verification(self, **_: object) -> VerificationGuard | Refused | None:
        self.asked += 1
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


class FakeVerifier:
    """A transaction coordinator (`TransactionVerifier`) whose answers the test gives in advance; the last one stays."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.gate: asyncio.Event | None = None
        """Adding waits for this when it is set."""
        self._opened: dict[asyncio.Task[bool], None] = {}

    def _answer(self) -> ErrorCode:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def verify(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append(("verify", tuple(partitions)))
        answer = self._answer()
        return dict.fromkeys(partitions, answer)

    def add_partitions(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> PendingRequest:
        self.asked.append(("add", tuple(partitions)))
        ask = PendingRequest(transactional_id, AddPartitions(producer_id, producer_epoch, frozenset(partitions)))
        answer = partial(ask.complete, TransactionReply(self._answer()))
        if self.gate is None:
            answer()
        else:
            opened = asyncio.get_running_loop().create_task(self.gate.wait())
            self._opened[opened] = None
            opened.add_done_callback(lambda _: answer())
        return ask
