"""The wait before another attempt."""

from typing import Final

from eosin.runtime.chance import Chance

JITTER_PERCENT: Final = 20


def backoff_ms(attempts: int, *, first_ms: int, longest_ms: int, chance: Chance) -> float:
    """The wait after `attempts` failures (1 or more) in ms: doubled each time from `first_ms` up to `longest_ms`, give
    or take 20 %, so that callers that failed together do not come back together."""
    whole = min(first_ms << min(attempts - 1, 30), longest_ms)
    return whole * (100 - JITTER_PERCENT + chance.below(2 * JITTER_PERCENT + 1)) / 100
