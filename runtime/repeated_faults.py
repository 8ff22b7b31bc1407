"""`RepeatedFaults`: a filter of the log for tracebacks. A client that has found a fault of the broker may cause it a
thousand times a second.

Always true: of one message, API and type of exception there is one traceback in `SAME_FAULT_S`, and the next one says
how many were left out; the kinds that are told apart are bounded.
"""

import logging
from typing import Final

from eosin.runtime.logging_format import add_facts, facts_of

SAME_FAULT_S: Final = 10
MAX_KINDS: Final = 1000


class _FaultKind:
    __slots__ = ("left_out", "told_s")

    def __init__(self, told_s: float) -> None:
        self.told_s = told_s
        self.left_out = 0


class RepeatedFaults(logging.Filter):
    """For a handler; lines without a traceback pass."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[object, ...], _FaultKind] = {}

    @property
    def kinds(self) -> int:
        """Number of kinds of faults that are told apart."""
        return len(self._kinds)

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or record.exc_info[0] is None:
            return True
        facts = facts_of(record)
        key = record.name, record.msg, facts.get("api"), record.exc_info[0]
        kind = self._kinds.get(key)
        if kind is not None and 0 <= record.created - kind.told_s < SAME_FAULT_S:
            kind.left_out += 1
            return False
        if kind is None:
            if len(self._kinds) >= MAX_KINDS:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[key] = _FaultKind(record.created)
            return True
        if kind.left_out:
            add_facts(record, left_out=kind.left_out)
        kind.told_s, kind.left_out = record.created, 0
        return True
