"""Which of several events the sentence about a transactional id begins with. Pure."""

import pytest
from msgspec.structs import replace

from eosin.observe.explain.facts import TransactionFacts
from eosin.observe.explain.sentences import RECENT_MS, explain_transaction
from eosin.observe.recorder.events import (
    Cause,
    ClientIdentity,
    EventKind,
    Notable,
    Takeover,
    TransactionHistory,
    TransactionSummary,
)

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
        FENCED_MS + 2 * RECENT_MS,
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


BEGUN_MS = FENCED_MS - 60_000


def timed_out(*, gone_ms: int = -1, since_ms: int = BEGUN_MS - 1, refused: int = 0) -> TransactionFacts:
    """An id whose transaction has run out of time."""
    by = Takeover(FENCED_MS, 7, 1, Cause.TIMEOUT, None, BEGUN_MS, 60_000, 1, gone_ms)
    notable = [Notable(FENCED_MS, EventKind.TIMEOUT, 7, 0, cause=Cause.TIMEOUT.value, by=by)]
    if refused:
        full = "no space left on the disk"
        at_ms = BEGUN_MS + 5
        notable.insert(0, Notable(at_ms, EventKind.REFUSED, 7, 0, "KAFKA_STORAGE_ERROR", count=refused, what=full))
    history = TransactionHistory(since_ms, notable=tuple(notable))
    return TransactionFacts("invoicing", FENCED_MS + 9, "CompleteAbort", 7, 1, history=history)


@pytest.mark.parametrize(
    ("facts", "cause", "because", "advice"),
    [
        (timed_out(), "timeout", "ran out of time: begun", "a longer transaction.timeout.ms gives it more time"),
        (
            timed_out(gone_ms=BEGUN_MS + 1000),
            "client_gone",
            "ran out of time after its client had gone at 07:59:01.000: begun",
            "More time would not have helped",
        ),
        (
            timed_out(since_ms=BEGUN_MS + 30_000),
            "broker_down",
            "ran out of time while the broker was down until 07:59:30.000: begun",
            "beyond the time the broker was down",
        ),
        (
            timed_out(gone_ms=BEGUN_MS + 1000, refused=14),
            "disk_full",
            "ran out of time while the disk was full (records refused 14 times): begun",
            "Make room on the broker's disk",
        ),
    ],
)
def test_what_kept_a_transaction_from_its_end_decides_what_is_advised(
    facts: TransactionFacts, cause: str, because: str, advice: str
) -> None:
    found = explain_transaction(facts)
    assert found.cause == cause
    assert because in found.sentence
    assert advice in found.text
    assert len(found.sentence) <= 240


def test_a_producer_that_goes_on_by_itself_leads_with_what_it_does_now() -> None:
    """After its own end, its own init, or where it holds the id again: nobody has lost it to another."""
    who = ClientIdentity("orders-1", peer="10.0.0.7:51122")
    commit = TransactionSummary(FENCED_MS + 5, FENCED_MS + 10, "commit", 1, 7, 3)
    for cause, owner in ((Cause.OWN_END, None), (Cause.OWN_REINIT, None), (Cause.SUCCESSOR, who)):
        fence = Notable(FENCED_MS, EventKind.FENCED, 7, 0, "PRODUCER_FENCED", cause.value, who)
        history = TransactionHistory(FENCED_MS - 1, owner=owner, past=(commit,), notable=(fence,))
        facts = TransactionFacts("invoicing", FENCED_MS + 99, "CompleteCommit", 7, 3, history=history)
        assert "was committed" in explain_transaction(facts).sentence


def test_fences_of_the_last_hour_are_counted_and_older_ones_follow_what_the_id_does_now() -> None:
    def fence(at_ms: int, epoch: int, count: int) -> Notable:
        return Notable(at_ms, EventKind.FENCED, 7, epoch, "PRODUCER_FENCED", Cause.SUCCESSOR.value, count=count)

    commit = TransactionSummary(FENCED_MS + 5, FENCED_MS + 10, "commit", 1, 7, 3)
    notable = (fence(FENCED_MS - 1000, 0, 1), fence(FENCED_MS, 1, 4))
    history = TransactionHistory(FENCED_MS - 9999, past=(commit,), notable=notable)
    facts = TransactionFacts("invoicing", FENCED_MS + 99, "CompleteCommit", 7, 3, history=history)
    assert "in the last hour 2 instances of it were fenced, in 5 requests" in explain_transaction(facts).evidence
    late = explain_transaction(replace(facts, now_ms=FENCED_MS + RECENT_MS + 1))
    assert "was committed" in late.sentence
    assert late.evidence[0].startswith("invoicing was fenced at")
