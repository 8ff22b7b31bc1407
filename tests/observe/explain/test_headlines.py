"""Which of several events the sentence about a transactional id begins with. Pure."""

import pytest

from eosin.observe.explain.facts import TransactionFacts
from eosin.observe.explain.sentences import explain_transaction
from eosin.observe.recorder.events import Cause, EventKind, Notable, TransactionHistory, TransactionSummary

FENCED_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("ended_ms", "epoch", "shown"),
    [
        (FENCED_MS - 1, 1, "was fenced"),
        (FENCED_MS, 1, "was committed"),
        (FENCED_MS + 1, 1, "was committed"),
        (FENCED_MS, 0, "was fenced"),
        (FENCED_MS + 1, 0, "was committed"),
    ],
)
def test_a_commit_of_a_newer_instance_in_the_millisecond_of_a_fence_came_after_it(
    ended_ms: int, epoch: int, shown: str
) -> None:
    fence = Notable(FENCED_MS, EventKind.FENCED, 7, 0, "PRODUCER_FENCED", Cause.SUCCESSOR.value)
    commit = TransactionSummary(ended_ms - 5, ended_ms, "commit", 1, 7, epoch)
    facts = TransactionFacts(
        "invoicing",
        FENCED_MS + 1000,
        "CompleteCommit",
        producer_id=7,
        producer_epoch=1,
        history=TransactionHistory(FENCED_MS - 1000, past=(commit,), notable=(fence,)),
    )
    assert shown in explain_transaction(facts).sentence


@pytest.mark.parametrize(("ended_ms", "shown"), [(FENCED_MS, "was fenced"), (FENCED_MS + 1, "was committed")])
def test_the_ends_that_made_an_epoch_old_came_before_its_fence_in_the_same_millisecond(
    ended_ms: int, shown: str
) -> None:
    fence = Notable(FENCED_MS, EventKind.FENCED, 7, 0, "PRODUCER_FENCED", Cause.OWN_END.value)
    ends = tuple(TransactionSummary(ended_ms - 5, ended_ms, "commit", 1, 7, epoch) for epoch in (1, 2))
    facts = TransactionFacts(
        "invoicing",
        FENCED_MS + 1000,
        "CompleteCommit",
        producer_id=7,
        producer_epoch=2,
        history=TransactionHistory(FENCED_MS - 1000, past=ends, notable=(fence,)),
    )
    assert shown in explain_transaction(facts).sentence
