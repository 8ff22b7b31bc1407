"""What leaders of this broker ask another coordinator about transactions: one entry for each id (cluster.md 6.8)."""

from collections.abc import Mapping
from typing import Any

import pytest

from eosin.cluster.peers.verification_queue import Question, VerificationQueue
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def question(*partitions: TopicPartition, **how: Any) -> Question:
    asked: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "verify_only": False, **how}
    return Question("tx", asked["producer_id"], asked["producer_epoch"], asked["verify_only"], frozenset(partitions))


def response(errors: Mapping[int, ErrorCode]) -> AddPartitionsToTxnResponse:
    results = tuple(AddPartitionsToTxnPartitionResult(index, error) for index, error in errors.items())
    topic = AddPartitionsToTxnTopicResult("orders", results)
    return AddPartitionsToTxnResponse(results_by_transaction=(AddPartitionsToTxnResult("tx", (topic,)),))


class Asking:
    """A queue, and the answers in the order in which they came."""

    def __init__(self) -> None:
        self.queue = VerificationQueue()
        self.answers: list[tuple[str, Mapping[TopicPartition, ErrorCode]]] = []

    def ask(self, name: str, asked: Question) -> None:
        self.queue.add(asked, lambda found: self.answers.append((name, found)))

    def sent(self) -> list[tuple[int, int, bool, tuple[int, ...]]]:
        """Producer, epoch, verify_only and partitions of each transaction of the next request."""
        return [
            (each.producer_id, each.producer_epoch, each.verify_only, each.topics[0].partitions)
            for each in self.queue.request().transactions
        ]


def test_questions_of_one_producer_are_merged_and_each_hears_of_its_own_partitions() -> None:
    asking = Asking()
    asking.ask("a", question(FIRST))
    asking.ask("b", question(SECOND))
    assert asking.sent() == [(7, 3, False, (0, 1))]
    asking.queue.handle_response(response({0: ErrorCode.NONE, 1: ErrorCode.CONCURRENT_TRANSACTIONS}))
    assert asking.answers == [
        ("a", {FIRST: ErrorCode.NONE}),
        ("b", {SECOND: ErrorCode.CONCURRENT_TRANSACTIONS}),
    ]


def test_a_higher_epoch_ends_what_waits() -> None:
    asking = Asking()
    asking.ask("old", question(FIRST))
    asking.ask("new", question(SECOND, producer_epoch=4))
    assert asking.answers == [("old", {FIRST: ErrorCode.INVALID_PRODUCER_EPOCH})]
    assert asking.sent() == [(7, 4, False, (1,))]


def test_a_lower_epoch_is_refused_at_once() -> None:
    asking = Asking()
    asking.ask("new", question(FIRST, producer_epoch=4))
    asking.ask("old", question(SECOND))
    assert asking.answers == [("old", {SECOND: ErrorCode.INVALID_PRODUCER_EPOCH})]
    assert asking.sent() == [(7, 4, False, (0,))]


@pytest.mark.parametrize("other", [{"verify_only": True}, {"producer_id": 8}], ids=["another mode", "another producer"])
def test_a_question_that_does_not_fit_waits_for_the_next_request(other: dict[str, Any]) -> None:
    asking = Asking()
    asking.ask("first", question(FIRST))
    asking.ask("other", question(SECOND, **other))
    assert [each[3] for each in asking.sent()] == [(0,)]
    asking.queue.handle_response(response({0: ErrorCode.NONE}))
    assert not asking.queue.is_empty
    assert [each[3] for each in asking.sent()] == [(1,)]
    asking.queue.handle_response(response({1: ErrorCode.NONE}))
    assert [name for name, _ in asking.answers] == ["first", "other"]


def test_a_request_on_its_way_takes_nothing_more() -> None:
    asking = Asking()
    asking.ask("a", question(FIRST))
    asking.sent()
    asking.ask("b", question(SECOND))
    asking.queue.handle_response(response({0: ErrorCode.NONE}))
    assert [name for name, _ in asking.answers] == ["a"]
    assert [each[3] for each in asking.sent()] == [(1,)]


def test_partitions_that_an_answer_leaves_out_may_be_asked_again() -> None:
    asking = Asking()
    asking.ask("a", question(FIRST, SECOND))
    asking.sent()
    asking.queue.handle_response(response({0: ErrorCode.NONE}))
    assert asking.answers == [("a", {FIRST: ErrorCode.NONE, SECOND: ErrorCode.NETWORK_EXCEPTION})]


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_an_error_of_the_whole_request_is_that_of_each_partition(told: ErrorCode, heard: ErrorCode) -> None:
    asking = Asking()
    asking.ask("a", question(FIRST))
    asking.sent()
    asking.queue.handle_response(AddPartitionsToTxnResponse(error_code=told))
    assert asking.answers == [("a", {FIRST: heard})]


def test_a_fenced_producer_hears_the_error_that_produce_knows() -> None:
    asking = Asking()
    asking.ask("a", question(FIRST))
    asking.sent()
    asking.queue.handle_response(response({0: ErrorCode.PRODUCER_FENCED}))
    assert asking.answers == [("a", {FIRST: ErrorCode.INVALID_PRODUCER_EPOCH})]
