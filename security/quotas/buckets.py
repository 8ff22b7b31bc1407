"""`QuotaBuckets`: what was used lately, by quota and by those who share it.

Always true: there are at most `MOST` buckets, and one that nobody has used for an hour is forgotten; clients that make
up names get fresh buckets for them, as in Kafka, but no memory.
"""

from collections import OrderedDict
from typing import Any, Final

from eosin.model.quota_table import Limit, QuotaKey
from eosin.security.quotas.rate import SampledRate, TokenBucket, throttle_ms

MOST: Final = 100_000
KEPT_CHARS: Final = 256
"""Of a client id: those that begin alike share a bucket."""
IDLE_MS: Final = 3_600_000

_Name = tuple[QuotaKey, str, str]


class QuotaBuckets:
    """The buckets of one broker."""

    def __init__(self, *, window_num: int, sample_ms: int, most: int = MOST) -> None:
        self._window_num = window_num
        self._sample_ms = sample_ms
        self._most = most
        self._rates: OrderedDict[_Name, SampledRate] = OrderedDict()
        self._tokens: OrderedDict[_Name, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rates) + len(self._tokens)

    def use(self, key: QuotaKey, limit: Limit, amount: float, now_ms: int) -> int:
        """Count what was used; how long to pause for it, in ms."""
        bucket = self._rate(key, limit, now_ms)
        bucket.record(amount, now_ms)
        return throttle_ms(bucket.rate(now_ms), limit.bound, bucket.window_ms(now_ms))

    def use_if_it_fits(self, key: QuotaKey, limit: Limit, amount: float, now_ms: int) -> int:
        """Count what is about to be used, unless that is too much; then how long to wait before trying again. What is
        more than any window holds fits an empty one: else it would never pass."""
        bucket = self._rate(key, limit, now_ms)
        used, window_ms = bucket.used(now_ms), bucket.window_ms(now_ms)
        too_long_ms = throttle_ms((used + amount) / window_ms * 1000, limit.bound, window_ms)
        if too_long_ms > 0 and used > 0:
            return too_long_ms
        bucket.record(amount, now_ms)
        return 0

    def at_once(self, limit: Limit) -> float:
        """The amount that an empty window allows."""
        return limit.bound * (self._window_num - 1) * self._sample_ms / 1000

    def tokens(self, limit: Limit, now_ms: int) -> TokenBucket:
        """The bucket of those who share a quota of changes to topics."""
        name = _name(QuotaKey.CONTROLLER_MUTATION_RATE, limit)
        found = self._tokens.get(name)
        if found is None:
            found = self._tokens[name] = TokenBucket()
            self._forget(self._tokens, now_ms)
        self._tokens.move_to_end(name)
        return found

    def _rate(self, key: QuotaKey, limit: Limit, now_ms: int) -> SampledRate:
        name = _name(key, limit)
        found = self._rates.get(name)
        if found is None:
            found = self._rates[name] = SampledRate(window_num=self._window_num, sample_ms=self._sample_ms)
            self._forget(self._rates, now_ms)
        self._rates.move_to_end(name)
        return found

    def _forget(self, buckets: "OrderedDict[_Name, Any]", now_ms: int) -> None:
        """Drop those at the front: used longest ago."""
        while len(buckets) > 1:
            oldest = next(iter(buckets.values()))
            if len(buckets) <= self._most and now_ms - oldest.last_ms < IDLE_MS:
                return
            buckets.popitem(last=False)


def _name(key: QuotaKey, limit: Limit) -> _Name:
    user, client_id = limit.shared_by
    return key, user, client_id[:KEPT_CHARS]
