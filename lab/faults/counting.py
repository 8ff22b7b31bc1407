"""`Counting`: the matches of one rule, counted, and the decision at each of them to fire or not.

Always true: the luck of a rule depends on the seed, on its id and on the number of the match alone, and so not on other
rules or on time.
"""

from collections import Counter
from hashlib import sha256
from typing import Final

from eosin.lab.faults.rules import When

_LUCK_BYTES: Final = 6
MOST_OCCURRENCES: Final = 10_000
"""Of a rule, that are kept for a replay."""


class Counting:
    """The counts of one rule."""

    def __init__(self, rule_id: str, seed: int) -> None:
        self._rule_id: Final = rule_id
        self._seed: Final = seed
        self.matched = 0
        self.fired = 0
        self._matched_by: Counter[object] = Counter()
        self._fired_by: Counter[object] = Counter()
        self._of_client: Counter[str] = Counter()
        self.occurrences: Final[dict[str, list[int]]] = {}
        """The matches of each client id at which it has fired, counted from 1; the first `MOST_OCCURRENCES`."""

    def decide(self, when: When, key: object, now_ms: int, client_id: str = "") -> bool:
        """Count one match, of this `key` where the rule counts apart for each; True if the rule fires at it."""
        self.matched += 1
        self._matched_by[key] += 1
        self._of_client[client_id] += 1
        if when.occurrences is not None:
            return self._of_client[client_id] in when.occurrences.get(client_id, ())
        number = self._matched_by[key] - when.after
        if number < 1 or (when.most is not None and self._fired_by[key] >= when.most):
            return False
        if when.from_ms is not None and now_ms < when.from_ms:
            return False
        if when.until_ms is not None and now_ms >= when.until_ms:
            return False
        if when.nth and number not in when.nth:
            return False
        if when.every and number % when.every:
            return False
        if when.probability is not None:
            return self._luck() < when.probability
        return True

    def _luck(self) -> float:
        """At least 0 and below 1, evenly."""
        text = f"{self._seed}/{self._rule_id}/{self.matched}"
        return int.from_bytes(sha256(text.encode()).digest()[:_LUCK_BYTES]) / 256**_LUCK_BYTES

    def fire(self, key: object, client_id: str = "") -> None:
        """Count one firing, at the last match of this client."""
        self.fired += 1
        self._fired_by[key] += 1
        if self.fired <= MOST_OCCURRENCES:
            self.occurrences.setdefault(client_id, []).append(self._of_client[client_id])
