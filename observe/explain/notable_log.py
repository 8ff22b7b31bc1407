"""`NotableLog`: one line for each transaction that ran out of time, each live producer that was fenced, and each
transaction that hung, in the words of `eosin explain` (console.md 3 and 4.4).

Always true: at most `MOST_A_SECOND` lines a second of each kind; what was left out is told with the next one.
"""

import logging
from typing import Final

from eosin.observe.explain.sentences import why
from eosin.observe.recorder.events import EventKind, Notable
from eosin.runtime.clock import Clock
from eosin.runtime.logging_format import fields

_LOG: Final = logging.getLogger("eosin.broker.transactions")

MOST_A_SECOND: Final = 10
EVENTS: Final = {
    EventKind.TIMEOUT: "transaction_timed_out",
    EventKind.FENCED: "producer_fenced",
    EventKind.OPERATOR: "transaction_ended_by_operator",
}
"""The stable names, by which collectors find the lines."""


class NotableLog:
    """Logs notable events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second: dict[EventKind, int] = {}
        self._told: dict[EventKind, int] = {}
        self._left_out: dict[EventKind, int] = {}

    def tell(self, transactional_id: str, notable: Notable) -> None:
        """Log an event, if it is one of those."""
        kind = notable.kind
        event = EVENTS.get(kind)
        if event is None:
            return
        second = self._clock.elapsed_ms() // 1000
        if self._second.get(kind) != second:
            self._second[kind], self._told[kind] = second, 0
        if self._told[kind] >= MOST_A_SECOND:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._told[kind] += 1
        facts = {
            "event": event,
            "transactional_id": transactional_id,
            "producer_id": notable.producer_id,
            "producer_epoch": notable.producer_epoch,
        }
        if notable.cause:
            facts["cause"] = notable.cause
        if (left_out := self._left_out.pop(kind, 0)) > 0:
            facts["left_out"] = left_out
        _LOG.warning(why(transactional_id, notable, notable.latest_ms), extra=fields(**facts))
