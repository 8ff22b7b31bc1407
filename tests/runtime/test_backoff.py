"""Waits that double, up to a limit, and never all alike."""

from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import SeededChance


def waits(attempts: int) -> set[float]:
    chance = SeededChance(3)
    return {backoff_ms(attempts, first_ms=20, longest_ms=1000, chance=chance) for _ in range(500)}


def test_the_wait_doubles_up_to_its_limit_give_or_take_a_fifth() -> None:
    for attempts, whole in ((1, 20), (2, 40), (6, 640), (7, 1000), (5000, 1000)):
        assert (min(waits(attempts)), max(waits(attempts))) == (0.8 * whole, 1.2 * whole)


def test_callers_that_failed_together_do_not_come_back_together() -> None:
    assert len(waits(3)) > 20
