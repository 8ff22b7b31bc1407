"""Full garbage collections come when there is little to walk."""

from eosin.node.full_collections import FEW_BLOCKS, MOST_WAITS, FullCollections


class Interpreter:
    """What is allocated, and how often it was collected."""

    def __init__(self) -> None:
        self.blocks: int = 500_000
        self.is_busy = False
        self.middle = self.full = 0
        self.collections = FullCollections(
            lambda: None if self.is_busy else self.blocks, lambda: self.middle, self.collect
        )

    def collect(self) -> None:
        self.full += 1

    def check(self, times: int = 1) -> int:
        """Check so often while things grow old; how many collections came of it."""
        before = self.full
        for _ in range(times):
            self.middle += 1
            self.collections.check()
        return self.full - before


def test_a_broker_in_which_nothing_grows_old_is_never_walked() -> None:
    interpreter = Interpreter()
    for _ in range(1000):
        interpreter.collections.check()
    assert interpreter.full == 0


def test_a_small_broker_that_works_is_walked_at_each_check() -> None:
    interpreter = Interpreter()
    interpreter.blocks += FEW_BLOCKS
    assert interpreter.check(10) == 10


def test_nothing_is_walked_in_the_middle_of_a_large_request() -> None:
    interpreter = Interpreter()
    interpreter.blocks += 1_000_000
    assert interpreter.check(MOST_WAITS) == 0
    interpreter.blocks -= 1_000_000
    assert interpreter.check() == 1


def test_nothing_is_walked_while_it_is_not_known_what_is_allocated() -> None:
    interpreter = Interpreter()
    interpreter.is_busy = True
    assert interpreter.check(10 * MOST_WAITS) == 0
    interpreter.is_busy = False
    assert interpreter.check() == 1


def test_a_broker_that_stays_large_is_walked_once_it_has_grown_by_a_quarter() -> None:
    interpreter = Interpreter()
    interpreter.blocks = 2_000_000
    assert interpreter.check(MOST_WAITS + 1) == 1
    assert interpreter.check(10 * MOST_WAITS) == 0
    interpreter.blocks = 2_600_000
    assert interpreter.check() == 1
