"""The arithmetic of quotas against a literal model of Kafka's (security.md 5.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.model.quota_table import Limit, QuotaKey
from eosin.security.quotas.buckets import IDLE_MS, QuotaBuckets
from eosin.security.quotas.rate import SampledRate, TokenBucket, throttle_ms


class KafkaRate:
    """`Rate` over `WindowedSum` of apache/kafka, line by line: eleven samples of a second."""

    def __init__(self) -> None:
        self.samples: list[dict[str, float]] = []
        self.current = 0

    def sample(self, now: int) -> dict[str, float]:
        if not self.samples:
            self.samples.append({"start": now, "last": now, "value": 0.0})
        return self.samples[self.current]

    def record(self, value: float, now: int) -> None:
        sample = self.sample(now)
        if now - sample["start"] >= 1000:
            self.current = (self.current + 1) % 11
            if self.current >= len(self.samples):
                self.samples.append({"start": now, "last": now, "value": 0.0})
            else:
                self.samples[self.current].update(start=now, last=now, value=0.0)
            sample = self.samples[self.current]
        sample["value"] += value
        sample["last"] = now

    def purge(self, now: int) -> None:
        for sample in self.samples:
            if now - sample["last"] >= 11 * 1000:
                sample.update(start=now, last=now, value=0.0)

    def window(self, now: int) -> float:
        self.purge(now)
        elapsed = now - min(each["start"] for each in self.samples)
        full = elapsed // 1000
        if full < 10:
            elapsed += (10 - full) * 1000
        return max(elapsed, 1)

    def measure(self, now: int) -> float:
        self.purge(now)
        value = sum(each["value"] for each in self.samples)
        return 0.0 if value == 0 else value / (self.window(now) / 1000)


@given(st.lists(st.tuples(st.integers(0, 15_000), st.integers(1, 10**6)), min_size=1, max_size=60))
def test_the_rate_is_that_of_kafka(steps: list[tuple[int, int]]) -> None:
    ours, theirs, now = SampledRate(), KafkaRate(), 7
    for pause_ms, amount in steps:
        now += pause_ms
        ours.record(amount, now)
        theirs.record(amount, now)
        assert ours.rate(now) == pytest.approx(theirs.measure(now))
        assert ours.window_ms(now) == theirs.window(now)


def test_ten_seconds_worth_may_be_used_at_once() -> None:
    rate = SampledRate()
    rate.record(10_000, 0)
    assert rate.rate(0) == 1000
    assert throttle_ms(rate.rate(0), 1000, rate.window_ms(0)) == 0
    rate.record(5_000, 0)
    assert throttle_ms(rate.rate(0), 1000, rate.window_ms(0)) == 5000


def test_a_client_that_waits_as_told_uses_what_is_allowed_in_the_long_run() -> None:
    rate, now, used = SampledRate(), 0, 0
    while now < 300_000:
        rate.record(5_000, now)
        used += 5_000
        now += 10 + throttle_ms(rate.rate(now), 1000, rate.window_ms(now))
    assert 0.9 < used / (now + 10_000) < 1.1


def test_tokens_come_at_their_rate_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(2, 0) == 22
    bucket.spend(30, 2, 0)
    assert bucket.tokens(2, 0) == -8
    assert bucket.throttle_ms(2, 0) == 4000
    assert bucket.tokens(2, 3000) == -2
    assert bucket.throttle_ms(2, 4000) == 0
    assert bucket.tokens(2, 10**9) == 22


def test_a_batch_larger_than_any_window_passes_when_the_window_is_empty() -> None:
    buckets, limit = QuotaBuckets(window_num=11, sample_ms=1000), Limit(1024, ("u", ""))
    key = QuotaKey.CONSUMER_BYTE_RATE
    assert buckets.use_if_it_fits(key, limit, 2**20, 0) == 0
    assert buckets.use_if_it_fits(key, limit, 2**20, 500) > 0
    assert buckets.use_if_it_fits(key, limit, 2**20, 11_000) == 0
    assert buckets.at_once(limit) == 10 * 1024


def test_a_refused_amount_is_not_counted() -> None:
    buckets, limit = QuotaBuckets(window_num=11, sample_ms=1000), Limit(1000, ("u", ""))
    key = QuotaKey.CONSUMER_BYTE_RATE
    assert buckets.use_if_it_fits(key, limit, 9_000, 0) == 0
    assert buckets.use_if_it_fits(key, limit, 2_000, 0) == 1000
    assert buckets.use_if_it_fits(key, limit, 1_000, 0) == 0


def test_buckets_of_names_that_are_made_up_are_forgotten() -> None:
    buckets = QuotaBuckets(window_num=11, sample_ms=1000, most=100)
    for number in range(1000):
        buckets.use(QuotaKey.PRODUCER_BYTE_RATE, Limit(1, ("", str(number))), 1, number)
    assert len(buckets) == 100
    buckets.use(QuotaKey.PRODUCER_BYTE_RATE, Limit(1, ("", "later")), 1, IDLE_MS + 1000)
    assert len(buckets) == 1
