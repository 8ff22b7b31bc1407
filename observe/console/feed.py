"""`Feed`: the last ends of transactions and the last notable events, as the flight recorder tells them.

Always true: `LAST` of each are kept, whoever looks; what is told twice (a fenced producer that asks again) is one event
with a count.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from eosin.observe.recorder.events import Notable, TransactionSummary
from eosin.observe.recorder.recorder import FlightRecorder

LAST: Final = 200


class Feed:
    """Hears the flight recorder."""

    def __init__(self, recorder: FlightRecorder) -> None:
        self.ends: deque[tuple[int, str, TransactionSummary]] = deque(maxlen=LAST)
        """Number, id, and the transaction that is over."""
        self.events: deque[tuple[int, str, Notable]] = deque(maxlen=LAST)
        self.touched: dict[str, None] = {}
        """Ids of which something notable was heard since somebody looked; empty as long as nobody looks."""
        self.is_watched = False
        self._number = 0
        before = recorder.on_notable

        def noted(transactional_id: str, notable: Notable) -> None:
            if before is not None:
                before(transactional_id, notable)
            self.noted(transactional_id, notable)

        recorder.on_notable = noted
        recorder.on_ended = self.ended

    def ended(self, transactional_id: str, summary: TransactionSummary) -> None:
        """A transaction is over."""
        self._number += 1
        self.ends.append((self._number, transactional_id, summary))

    def noted(self, transactional_id: str, notable: Notable) -> None:
        """Something notable has happened."""
        self._number += 1
        self.events.append((self._number, transactional_id, notable))
        if self.is_watched:
            self.touched[transactional_id] = None

    def watch(self) -> None:
        """Start watching; events still in the buffer count as new."""
        if not self.is_watched:
            self.is_watched = True
            self.touched = dict.fromkeys(name for _, name, _ in self.events)

    def unwatch(self) -> None:
        """Stop watching."""
        self.is_watched = False
        self.touched = {}

    def drain_touched(self) -> Iterator[str]:
        """The ids that were touched, and forget them."""
        touched, self.touched = self.touched, {}
        return iter(touched)
