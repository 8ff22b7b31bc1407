"""The locks of very many share partitions that end together do so in turns (share-partitions.md 2.7)."""

from itertools import pairwise

from manual_clock import PausingClock

from eosin.broker.sharing.lock_timer import LockTimer
from eosin.runtime.running_time import CALLS_MS

LOCK_MS = 30_000


def test_locks_of_many_share_partitions_that_end_together_do_so_in_turns() -> None:
    """As those of all consumers that a network has cut off."""
    clock, ended = PausingClock(), 0
    of_others: list[int] = []

    def end() -> None:
        nonlocal ended
        ended += 1
        clock.pause(1)  # it takes so long
        clock.call_soon(lambda: of_others.append(ended))

    timers = [LockTimer(clock, end) for _ in range(200)]
    for timer in timers:
        timer.start(clock.running_ms() + LOCK_MS)
    timers[-1].stop()
    clock.advance(LOCK_MS + 1000)
    assert ended == 199
    assert max(later - earlier for earlier, later in pairwise([0, *of_others])) == CALLS_MS
