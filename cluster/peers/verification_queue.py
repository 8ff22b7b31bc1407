"""`VerificationQueue`: what partition leaders of this broker ask one other broker, a coordinator, about transactions
(AddPartitionsToTxn v4 and v5; KIP-890, cluster.md 6.8). Pure.

Always true: a request has one entry for each transactional id; what does not fit the one that waits is never answered
in its place, as in Apache Kafka, but ends, or waits for the next request; and every question gets one answer for each
of its partitions, at the latest with the response.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final, NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Answers = Mapping[TopicPartition, ErrorCode]
Answered = Callable[[Answers], None]

_TRANSLATED: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""Errors that no producer could make sense of."""


class Question(NamedTuple):
    """The question that one request of a producer asks."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    """Only ask whether the partitions are in the transaction; else add them."""
    partitions: frozenset[TopicPartition]


class _Entry:
    """One transaction of the next request, or of the one on its way."""

    __slots__ = ("asked", "partitions", "question")

    def __init__(self, question: Question, answered: Answered) -> None:
        self.question = question
        self.partitions = question.partitions
        self.asked: list[tuple[Question, Answered]] = [(question, answered)]

    def fits(self, question: Question) -> bool:
        """True if both may be asked as one."""
        return self.question[:4] == question[:4]

    def merge(self, question: Question, answered: Answered) -> None:
        self.partitions |= question.partitions
        self.asked.append((question, answered))

    def complete(self, found: Answers, missing: ErrorCode) -> None:
        for question, answered in self.asked:
            answered({partition: found.get(partition, missing) for partition in question.partitions})


class VerificationQueue:
    """Questions that wait, and those on their way."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Entry] = {}
        self._later: list[tuple[Question, Answered]] = []
        """Questions that do not fit an entry that waits, in order."""
        self._sent: dict[str, _Entry] = {}

    @property
    def is_empty(self) -> bool:
        """True if nothing waits."""
        return not self._waiting

    def add(self, question: Question, answered: Answered) -> None:
        """Ask with the next request. `answered` is called once, perhaps at once."""
        entry = self._waiting.get(question.transactional_id)
        if entry is None:
            self._waiting[question.transactional_id] = _Entry(question, answered)
        elif entry.fits(question):
            entry.merge(question, answered)
        elif entry.question.producer_id != question.producer_id:
            self._later.append((question, answered))
        elif question.producer_epoch > entry.question.producer_epoch:
            entry.complete({}, ErrorCode.INVALID_PRODUCER_EPOCH)
            self._waiting[question.transactional_id] = _Entry(question, answered)
        elif question.producer_epoch < entry.question.producer_epoch:
            answered(dict.fromkeys(question.partitions, ErrorCode.INVALID_PRODUCER_EPOCH))
        else:
            self._later.append((question, answered))

    def concerns(self, transactional_id_is: Callable[[str], bool]) -> bool:
        """True if there is a question about such a transaction."""
        later = (question.transactional_id for question, _ in self._later)
        return any(map(transactional_id_is, chain(self._sent, self._waiting, later)))

    def request(self) -> AddPartitionsToTxnRequest:
        """Everything that waits. The request before has been answered."""
        assert not self._sent, "one request at a time"
        self._sent, self._waiting = self._waiting, {}
        later, self._later = self._later, []
        for question, answered in later:
            self.add(question, answered)
        return AddPartitionsToTxnRequest(transactions=tuple(map(_transaction, self._sent.values())))

    def handle_response(self, response: AddPartitionsToTxnResponse) -> None:
        """The coordinator has answered. What it left out may be asked again (NETWORK_EXCEPTION)."""
        if response.error_code:
            self.failed(_code(response.error_code))
            return
        sent, self._sent = self._sent, {}
        found = {
            each.transactional_id: {
                TopicPartition(topic.name, result.partition_index): _code(result.partition_error_code)
                for topic in each.topic_results
                for result in topic.results_by_partition
            }
            for each in response.results_by_transaction
        }
        for transactional_id, entry in sent.items():
            entry.complete(found.get(transactional_id, {}), ErrorCode.NETWORK_EXCEPTION)

    def all_failed(self, error: ErrorCode) -> None:
        """No answer is waited for any more, and nothing of what waits is asked."""
        later, self._later = self._later, []
        waiting, self._waiting = self._waiting, {}
        self.failed(error)
        for entry in waiting.values():
            entry.complete({}, error)
        for question, answered in later:
            answered(dict.fromkeys(question.partitions, error))

    def failed(self, error: ErrorCode) -> None:
        """The request as a whole got no answer but this."""
        sent, self._sent = self._sent, {}
        for entry in sent.values():
            entry.complete({}, error)


def _transaction(entry: _Entry) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(entry.partitions):
        topics.setdefault(topic, []).append(index)
    question = entry.question
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.verify_only,
        topics=tuple(AddPartitionsToTxnTopic(name, tuple(indexes)) for name, indexes in topics.items()),
    )


def _code(number: int) -> ErrorCode:
    try:
        error = ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return _TRANSLATED.get(error, error)
