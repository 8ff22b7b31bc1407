"""A loop that has stood still is told (cluster.md 2.10)."""

import pytest
from manual_clock import ManualClock

from eosin.runtime.loop_watch import LOOK_MS, PAUSE_MS, TELL_INTERVAL_MS, LoopWatch


def test_a_long_pause_is_told_and_further_ones_in_one_line_later(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = LoopWatch(clock)

    def late_by(ms: int) -> list[str]:
        caplog.clear()
        clock.advance(LOOK_MS + ms)
        watch.look()
        return [each.getMessage() for each in caplog.records]

    assert late_by(0) == []
    assert late_by(PAUSE_MS) == []
    (told,) = late_by(PAUSE_MS + 1)
    assert "stood still 1 times, for up to 501 ms" in told
    assert late_by(700) == late_by(900) == []
    for _ in range(TELL_INTERVAL_MS // (LOOK_MS + PAUSE_MS)):
        told_later = late_by(PAUSE_MS)
        if told_later:
            break
    assert "stood still 2 times, for up to 900 ms" in told_later[0]
    assert late_by(0) == []
