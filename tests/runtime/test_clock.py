"""The machine's clock."""

from eosin.runtime.clock import SystemClock, as_stamped


def test_the_machines_clock_says_by_identity_that_it_shows_everybodys_time() -> None:
    """Each append asks a clock that it does not know so, for two moments; a compiled class makes another object of what
    it wraps."""
    assert SystemClock().moment_of is as_stamped
