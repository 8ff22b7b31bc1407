"""Full garbage collections come when there is little to walk."""

from collections.abc import Callable

from eosin.node.full_collections import FEW_BLOCKS, FullCollections


class Interpreter:
    """What is allocated, how often it was collected, and how often frozen."""

    def __init__(self) -> None:
        self.blocks: int = 500_000
        self.is_busy = False
        self.full = self.frozen = 0
        self.next_turn: list[Callable[[], None]] = []
        self.collections = FullCollections(
            lambda: None if self.is_busy else self.blocks, self.collect, self.freeze, soon=self.next_turn.append
        )

    def collect(self) -> None:
        self.full += 1

    def freeze(self) -> None:
        self.frozen += 1

    def grow_old(self, times: int = 1) -> None:
        for _ in range(times):
            self.collections.grew_old()

    def turn(self) -> None:
        """The next turn of the event loop."""
        turn, self.next_turn[:] = self.next_turn[:], []
        for each in turn:
            each()


def test_a_broker_in_which_nothing_grows_old_is_never_walked() -> None:
    interpreter = Interpreter()
    for _ in range(1000):
        interpreter.collections.check()
    assert interpreter.full == 0


def test_a_small_broker_that_works_is_walked_at_each_check_and_nothing_in_it_is_frozen() -> None:
    interpreter = Interpreter()
    interpreter.blocks += FEW_BLOCKS
    for _ in range(10):
        interpreter.grow_old(10)
        interpreter.turn()
        interpreter.collections.check()
    assert (interpreter.full, interpreter.frozen) == (10, 0)


def test_nothing_is_walked_while_it_is_not_known_what_is_allocated() -> None:
    interpreter = Interpreter()
    interpreter.is_busy = True
    interpreter.grow_old()
    interpreter.turn()
    interpreter.collections.check()
    assert interpreter.full == 0
    interpreter.is_busy = False
    interpreter.collections.check()
    assert interpreter.full == 1


def test_what_has_grown_old_in_a_large_broker_is_walked_soon_and_once() -> None:
    interpreter = Interpreter()
    interpreter.blocks += FEW_BLOCKS + 1
    interpreter.grow_old(3)
    assert interpreter.full == 0, "in the middle of whatever has made so much"
    interpreter.turn()
    assert (interpreter.full, interpreter.frozen) == (1, 1)
    interpreter.collections.check()
    assert interpreter.full == 1


def test_a_broker_that_has_become_large_while_nobody_looked_is_frozen_by_the_clock() -> None:
    interpreter = Interpreter()
    interpreter.grow_old()
    interpreter.turn()
    assert interpreter.full == 0
    interpreter.blocks += FEW_BLOCKS + 1
    interpreter.collections.check()
    assert (interpreter.full, interpreter.frozen) == (1, 1)
