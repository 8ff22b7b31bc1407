"""The events of an id in order, from all that its history holds. Pure."""

from typing import Final

from eosin.observe.explain.event_words import in_words
from eosin.observe.recorder.events import HistoryEvent, TransactionHistory

_RANKS: Final = {"begin": 0, "epoch_raised": 2, "timeout": 2, "complete": 3, "fenced": 4, "refused": 4}
"""Of events in the same millisecond: what is not here happens while a transaction is open."""
_IN_BETWEEN: Final = 1


def timeline_of(history: TransactionHistory | None) -> tuple[HistoryEvent, ...]:
    """Oldest first: transactions that are over, takeovers, notable events, and those of the open transaction."""
    if history is None:
        return ()
    found = list(history.events)
    for each in history.past:
        pair = (each.producer_id, each.producer_epoch)
        found.append(HistoryEvent(each.begun_ms, "begin", *pair, count=each.partitions, who=each.who))
        found.append(HistoryEvent(each.ended_ms, "complete", *pair, each.outcome, each.partitions, each.who))
    for takeover in history.takeovers:
        pair = (takeover.producer_id, takeover.producer_epoch)
        found.append(HistoryEvent(takeover.at_ms, "epoch_raised", *pair, takeover.cause.value, who=takeover.who))
    for notable in history.notable:
        what = " ".join(part for part in (notable.cause, notable.error, notable.what) if part)
        pair = (notable.producer_id, notable.producer_epoch)
        found.append(HistoryEvent(notable.at_ms, notable.kind.value, *pair, what, notable.count, notable.who))
    return in_words(sorted(found, key=lambda each: (each.at_ms, _RANKS.get(each.kind, _IN_BETWEEN))))
