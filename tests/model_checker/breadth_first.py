"""Breadth-first over everything that can happen in a model, and from its states fair runs to the end.

A model says what its states are and what may happen in one. Equal parts of states are kept once, so a state costs
little more than its own tuple.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from model_checker.violation import Violation

_LONGEST_RUN: Final = 400
"""Steps of a fair run: one that takes more goes round."""


class Limits(Protocol):
    """A configuration, as far as the search needs to know it."""

    @property
    def fair_every(self) -> int:
        """From every so-manieth state the model runs on, fairly, to the end."""

    @property
    def max_states(self) -> int:
        """States after which the search gives up."""


B = TypeVar("B", bound=Limits)
S = TypeVar("S")
A = TypeVar("A")


@dataclass(frozen=True)
class Model(Generic[B, S, A]):
    """A world: its states can be compared, and `take` changes none."""

    first_state: Callable[[B], S]
    fair_actions: Callable[[S], Iterable[A]]
    """Actions that happen by themselves in the end."""
    faults: Callable[[S, B], Iterable[A]]
    """Actions that may happen, as often as the bounds allow."""
    take: Callable[[S, A, B], S]
    check: Callable[[S], None]
    """Raises Violation for a state that must not be."""
    unfinished: Callable[[S], Violation | None]
    """The reason why a fair run may not end here."""
    happened: Callable[[S], bool]
    """True if the state is one of those for which the model was made: without any it proves nothing."""
    kept: Callable[[S, Callable[[Any, Any], Any]], S]
    """The same state out of parts that other states have, too; given `dict.setdefault` of the parts so far."""


@dataclass(frozen=True)
class Counterexample(Generic[A]):
    """A rule that does not hold, and the shortest way there."""

    rule: str
    what: str
    actions: tuple[A, ...]
    fair_from: int
    """From this action on nothing new goes wrong: they are those of a fair run."""


@dataclass(frozen=True)
class Result(Generic[B, A]):
    """The outcome of a search."""

    bounds: B
    states: int
    steps: int
    depth: int
    seconds: float
    happened: int
    """States in which what the model is about has happened."""
    counterexample: Counterexample[A] | None
    stopped: str | None
    """Why not everything was looked at."""


class BreadthFirst(Generic[B, S, A]):
    """One search."""

    def __init__(self, model: Model[B, S, A], bounds: B) -> None:
        self._model = model
        self._bounds = bounds
        self._parts: dict[Any, Any] = {}
        self._numbers: dict[S, int] = {}
        self._states: list[S] = []
        self._parents: list[tuple[int, A] | None] = []
        self._rests: set[S] = set()
        """States from which a fair run comes to rest."""

    def run(self) -> Result[B, A]:
        """Look at everything that the bounds allow, or up to the first broken rule."""
        model, bounds = self._model, self._bounds
        began = time.monotonic()
        self._add(model.first_state(bounds), None)
        at = steps = depth = happened = 0
        level_end = 1
        found: Counterexample[A] | None = None
        stopped = None
        while at < len(self._states) and found is None:
            if at == level_end:
                depth, level_end = depth + 1, len(self._states)
            if at >= bounds.max_states:
                stopped = f"states: the limit is {bounds.max_states}"
                break
            state = self._states[at]
            happened += model.happened(state)
            for action in (*model.fair_actions(state), *model.faults(state, bounds)):
                steps += 1
                try:
                    self._add(model.take(state, action, bounds), (at, action))
                except (Violation, AssertionError) as error:
                    found = _counterexample(error, (*self._path(at), action))
                    break
            if found is None and at % bounds.fair_every == 0:
                found = self._fair_run(at)
            at += 1
        return Result(bounds, at, steps, depth, time.monotonic() - began, happened, found, stopped)

    def _add(self, state: S, parent: tuple[int, A] | None) -> None:
        if state in self._numbers:
            return
        kept = self._model.kept(state, self._parts.setdefault)
        self._numbers[kept] = len(self._states)
        self._states.append(kept)
        self._parents.append(parent)
        self._model.check(kept)

    def _path(self, at: int) -> tuple[A, ...]:
        backwards = []
        while (parent := self._parents[at]) is not None:
            at, action = parent
            backwards.append(action)
        return tuple(reversed(backwards))

    def _fair_run(self, at: int) -> Counterexample[A] | None:
        """Everything under way arrives, whoever is down starts: where that ends, all must be well."""
        state = self._states[at]
        run: list[A] = []
        seen: dict[S, None] = {}
        try:
            while state not in self._rests:
                if state in seen or len(run) > _LONGEST_RUN:
                    # A round without a change: each has had its turn, and nothing came of it.
                    wrong = self._model.unfinished(state)
                    if wrong is not None:
                        raise wrong
                    break
                seen[state] = None
                state = self._round(state, run.append)
        except (Violation, AssertionError) as error:
            path = self._path(at)
            return _counterexample(error, (*path, *run), len(path))
        self._rests.update(seen)
        return None

    def _round(self, state: S, note: Callable[[A], None]) -> S:
        """Whatever can happen by itself, once, in turn."""
        model = self._model
        for action in tuple(model.fair_actions(state)):
            if action not in model.fair_actions(state):
                continue
            note(action)
            state = model.take(state, action, self._bounds)
            model.check(state)
        return state


def _counterexample(error: Exception, path: tuple[A, ...], fair_from: int | None = None) -> Counterexample[A]:
    fair_from = len(path) if fair_from is None else fair_from
    if isinstance(error, Violation):
        return Counterexample(error.rule, error.what, path, fair_from)
    return Counterexample("an assertion of the code", str(error) or repr(error), path, fair_from)
