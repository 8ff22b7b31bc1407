"""The arithmetic of quotas, as Apache Kafka's Rate and TokenBucket have it (security.md 5.2; KIP-13, KIP-599).

Always true: nothing here asks for the time. Times are milliseconds of one clock that never goes back.
"""

from typing import Final

SAMPLES: Final = 11
"""`quota.window.num`."""
SAMPLE_MS: Final = 1000
"""`quota.window.size.seconds`."""


class _Sample:
    __slots__ = ("begun_ms", "last_ms", "sum")

    def __init__(self, begun_ms: int) -> None:
        self.begin(begun_ms)

    def begin(self, begun_ms: int) -> None:
        self.begun_ms = begun_ms
        self.last_ms = begun_ms
        self.sum = 0.0


class SampledRate:
    """The use of a resource, in samples of a second, of which the last eleven count."""

    __slots__ = ("_current", "_sample_ms", "_samples", "_window_num")

    def __init__(self, *, window_num: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self._window_num = window_num
        self._sample_ms = sample_ms
        self._samples: list[_Sample] = []
        self._current = 0

    @property
    def last_ms(self) -> int:
        """The time of the last record."""
        return max((each.last_ms for each in self._samples), default=0)

    def record(self, amount: float, now_ms: int) -> None:
        """Count what was used; a negative amount takes it back."""
        sample = self._running(now_ms)
        sample.sum += amount
        sample.last_ms = now_ms

    def rate(self, now_ms: int) -> float:
        """The use per second."""
        total = self.used(now_ms)
        return total / self.window_ms(now_ms) * 1000 if total else 0.0

    def used(self, now_ms: int) -> float:
        """The use in the samples that count."""
        self._drop_old(now_ms)
        return sum(each.sum for each in self._samples)

    def window_ms(self, now_ms: int) -> int:
        """The time that the rate is taken over: since the oldest sample began, and at least all samples but one, full,
        and the running one. A client that has just come is not taken for one that did all this in a moment."""
        if not self._samples:
            return max((self._window_num - 1) * self._sample_ms, 1)
        self._drop_old(now_ms)
        elapsed_ms = now_ms - min(each.begun_ms for each in self._samples)
        missing = self._window_num - 1 - elapsed_ms // self._sample_ms
        return max(elapsed_ms + max(0, missing) * self._sample_ms, 1)

    def _running(self, now_ms: int) -> _Sample:
        """The sample that this moment belongs to."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        elif now_ms - samples[self._current].begun_ms >= self._sample_ms:
            self._current = (self._current + 1) % self._window_num
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].begin(now_ms)
        return samples[self._current]

    def _drop_old(self, now_ms: int) -> None:
        for each in self._samples:
            if now_ms - each.last_ms >= self._window_num * self._sample_ms:
                each.begin(now_ms)


def throttle_ms(rate: float, bound: float, window_ms: int) -> int:
    """The time without any use after which the rate is down to its bound; 0 if it is not above."""
    return max(0, round((rate - bound) / bound * window_ms))


class TokenBucket:
    """Tokens that come at a rate, `WINDOW`'s worth at most, and may once be overdrawn (KIP-599)."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_ms = 0

    @property
    def last_ms(self) -> int:
        """The time at which it was last filled."""
        return self._filled_ms

    def tokens(self, bound: float, now_ms: int) -> float:
        """The tokens that are left now; less than 0 if it was overdrawn."""
        burst = bound * SAMPLES * SAMPLE_MS / 1000
        before = burst if self._tokens is None else self._tokens
        came = bound * max(0, now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(burst, before + came), now_ms
        return self._tokens

    def spend(self, amount: float, bound: float, now_ms: int) -> None:
        """Use tokens, more than there are if need be."""
        self._tokens = self.tokens(bound, now_ms) - amount

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time until it is no longer overdrawn."""
        return max(0, round(-self.tokens(bound, now_ms) / bound * 1000))
