"""Whether clients reach a machine: what they send, and what it answers, waits while they do not, as TCP has it wait."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any


class Gate:
    """Open at first. Always true: what has come to it passes in that order."""

    def __init__(self) -> None:
        self.is_shut = False
        self._held: deque[Callable[[], None]] = deque()

    def through(self, step: Callable[..., None], *args: Any) -> None:
        """Do `step` now, or when the gate is open again."""
        if self.is_shut:
            self._held.append(partial(step, *args))
        else:
            step(*args)

    def open(self) -> None:
        """Let everything pass."""
        self.is_shut = False
        while self._held and not self.is_shut:
            self._held.popleft()()

    def lose(self) -> None:
        """Nothing of what waits passes: the connections on which it came are gone."""
        self._held.clear()
