"""Points inside a broker of the lab at which a test has something happen, without rules."""

from collections.abc import Awaitable, Callable

from eosin.lab.disk.points import Moment

Happens = Callable[[Moment], Awaitable[None] | None]


class ScriptedPoints:
    """`Points` of one test."""

    def __init__(self) -> None:
        self.passed: list[Moment] = []
        """All that has been reached at points that are watched."""
        self._at: dict[str, Happens] = {}

    def at(self, point: str, happens: Happens) -> None:
        """Have this happen there, each time."""
        self._at[point] = happens

    def clear(self) -> None:
        """Watch nothing."""
        self._at.clear()

    def watches(self, point: str) -> bool:
        """True if something is to happen there."""
        return point in self._at

    def reached(self, moment: Moment) -> Awaitable[None] | None:
        """Let it happen."""
        self.passed.append(moment)
        return self._at[moment.point](moment)
