"""`FailureDelays`: how long an answer to a wrong password is held back (security.md 3.2.3).

Always true: nobody is locked out, whose password is right is not delayed, and no more than `MAX_ADDRESSES` are
remembered. Addresses of IPv6 count by the /64 that one customer has to himself.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from eosin.model.address_group import address_group
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock

MAX_ADDRESSES: Final = 10_000
MAX_DELAY_MS: Final = 5000
REMEMBERED_MS: Final = 60_000
"""The next failure of an address within this time waits twice as long."""
_JITTER: Final = 4
"""Up to a fourth of the delay more, so that its length tells nothing of where the time went."""


class _Last(NamedTuple):
    failed_ms: int
    delay_ms: int


class FailureDelays:
    """The failed authentications of one broker, by source address."""

    def __init__(self, clock: Clock, chance: Chance, *, delay_ms: int) -> None:
        """`delay_ms`: of a first failure (`connection.failed.authentication.delay.ms`); 0 delays nothing."""
        self._clock = clock
        self._chance = chance
        self._delay_ms: Final = delay_ms
        self._last: OrderedDict[str, _Last] = OrderedDict()
        """The address that failed longest ago first."""

    def __len__(self) -> int:
        return len(self._last)

    def failed(self, host: str) -> int:
        """Count one more failure; how long to hold its answer back, in ms."""
        if not self._delay_ms:
            return 0
        address, now_ms = address_group(host), self._clock.elapsed_ms()
        last = self._last.pop(address, None)
        delay_ms = self._delay_ms
        if last is not None and now_ms - last.failed_ms < REMEMBERED_MS:
            delay_ms = max(delay_ms, min(2 * last.delay_ms, MAX_DELAY_MS))
        self._last[address] = _Last(now_ms, delay_ms)
        if len(self._last) > MAX_ADDRESSES:
            self._last.popitem(last=False)
        return delay_ms + self._chance.below(delay_ms // _JITTER + 1)
