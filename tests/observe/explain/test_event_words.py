"""Each event of a timeline has words for who has never seen its kind (console.md 3)."""

import pytest

from eosin.observe.explain.event_words import in_words, said
from eosin.observe.recorder import group_events
from eosin.observe.recorder.events import Cause, EventKind, HistoryEvent

GROUPS = {
    value for name, value in vars(group_events).items() if name.isupper() and name[0] != "_" and isinstance(value, str)
}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (HistoryEvent(0, "init", 4, 1), "the producer introduces itself: epoch 1"),
        (HistoryEvent(0, "begin", 4, 1, count=1), "a transaction begins, 1 partition"),
        (HistoryEvent(0, "add", 4, 1, count=3), "it grows to 3 partitions"),
        (HistoryEvent(0, "prepared", 4, 1, "commit"), "the decision to commit is durable; markers follow"),
        (
            HistoryEvent(0, "marker_refused", -1, -1, "orders-0 NOT_LEADER_OR_FOLLOWER", 4),
            "orders-0 has refused its marker 4 times: NOT_LEADER_OR_FOLLOWER",
        ),
        (
            HistoryEvent(0, "waited", -1, -1, "EndTxn", 75),
            "a request (EndTxn) waited 75 ms for what was under way, in vain",
        ),
        (HistoryEvent(0, "complete", 4, 1, "commit", 2), "the transaction is committed, 2 partitions"),
        (
            HistoryEvent(0, "complete", 4, 1, "fenced", 1),
            "the transaction of this instance is aborted: another one has taken over, 1 partition",
        ),
        (HistoryEvent(0, "epoch_raised", 4, 2, "successor"), "a new instance takes the id over: epoch 2"),
        (HistoryEvent(0, "timeout", 4, 2, "", 1), "the transaction has run out of time, and the coordinator aborts it"),
        (
            HistoryEvent(0, "fenced", 4, 1, "successor PRODUCER_FENCED", 3),
            "refused with PRODUCER_FENCED, 3 times: a new instance has taken over",
        ),
        (HistoryEvent(0, "refused", 4, 1, "INVALID_TXN_STATE", 1), "refused with INVALID_TXN_STATE"),
        (HistoryEvent(0, "operator", 4, 1, "fenced epoch 1"), "an operator fenced epoch 1"),
        (HistoryEvent(0, "expired", 4, 1, "90000"), "the id is forgotten after 90 s unused"),
        (HistoryEvent(0, "joined", -1, -1, "reader-1-77"), "a member joins: reader-1-77"),
        (
            HistoryEvent(0, "expelled", -1, -1, "reader-1-77: no heartbeat for 45 s (session.timeout.ms)"),
            "a member is expelled: no heartbeat for 45 s (session.timeout.ms)",
        ),
        (HistoryEvent(0, "generation", -1, -1, "5", 2), "generation 5 begins, with 2 members"),
        (HistoryEvent(0, "stable", -1, -1, "5", 2), "every member of generation 5 has its partitions"),
        (HistoryEvent(0, "offsets_committed", 4, 1, "", 2), "a transaction commits offsets of 2 partitions"),
        (HistoryEvent(0, "state", 4, 1, "PrepareAbort, from the log", 2), "state PrepareAbort, from the log"),
        (HistoryEvent(0, "of_a_newer_broker", 4, 1, "something"), "of a newer broker something"),
    ],
)
def test_an_event_in_words(event: HistoryEvent, words: str) -> None:
    assert said(event) == words


def test_every_kind_and_every_cause_has_words_of_its_own() -> None:
    for kind in {*EventKind, *GROUPS, "complete", "epoch_raised"}:
        assert said(HistoryEvent(0, kind, 4, 1, "x", 2)) != f"{kind.replace('_', ' ')} x", kind
    told = {said(HistoryEvent(0, "fenced", 4, 1, f"{cause} PRODUCER_FENCED")) for cause in Cause}
    assert len(told) == len(Cause)
    assert not any(cause in words.split() for words in told for cause in Cause if "_" in cause)


def test_words_are_added_and_nothing_is_changed() -> None:
    event = HistoryEvent(7, "fenced", 4, 1, "successor PRODUCER_FENCED", 3)
    (told,) = in_words([event])
    assert (told.at_ms, told.kind, told.what, told.count) == (7, "fenced", "successor PRODUCER_FENCED", 3)
    assert not event.words
