"""Breadth-first over everything that can happen to a partition's replicas, and from every state a fair run to the end.

Equal parts of states are kept once, so a state costs little more than its own tuple.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from model_checker.replication.rules import check, unfinished
from model_checker.replication.steps import Action, fair_actions, faults, first_state, take
from model_checker.replication.values import Bounds, State
from model_checker.violation import Violation

_LONGEST_RUN: Final = 400
"""Steps of a fair run: one that takes more goes round."""


@dataclass(frozen=True)
class Counterexample:
    """A rule that does not hold, and the shortest way there."""

    rule: str
    what: str
    actions: tuple[Action, ...]
    fair_from: int
    """From this action on nothing new goes wrong: they are those of a fair run."""


@dataclass(frozen=True)
class Result:
    """What a search has found."""

    bounds: Bounds
    states: int
    steps: int
    depth: int
    seconds: float
    committed: int
    """States with anything committed: a model in which nothing happens proves nothing."""
    counterexample: Counterexample | None
    stopped: str | None
    """Why not everything was looked at."""


class Search:
    """One search."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._parts: dict[Any, Any] = {}
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._parents: list[tuple[int, Action] | None] = []
        self._rests: set[State] = set()
        """States from which a fair run comes to rest."""

    def run(self) -> Result:
        """Look at everything that the bounds allow, or up to the first broken rule."""
        began = time.monotonic()
        self._add(first_state(self._bounds), None)
        at = steps = depth = committed = 0
        level_end = 1
        found: Counterexample | None = None
        stopped = None
        while at < len(self._states) and found is None:
            if at == level_end:
                depth, level_end = depth + 1, len(self._states)
            if at >= self._bounds.max_states:
                stopped = f"states: the limit is {self._bounds.max_states}"
                break
            state = self._states[at]
            committed += bool(state.committed)
            for action in (*fair_actions(state), *faults(state, self._bounds)):
                steps += 1
                try:
                    after = take(state, action, self._bounds)
                    self._add(after, (at, action))
                except (Violation, AssertionError) as error:
                    found = _counterexample(error, (*self._path(at), action))
                    break
            if found is None and at % self._bounds.fair_every == 0:
                found = self._fair_run(at)
            at += 1
        seconds = time.monotonic() - began
        return Result(self._bounds, at, steps, depth, seconds, committed, found, stopped)

    def _add(self, state: State, parent: tuple[int, Action] | None) -> None:
        if state in self._numbers:
            return
        kept = self._kept(state)
        self._numbers[kept] = len(self._states)
        self._states.append(kept)
        self._parents.append(parent)
        check(kept)

    def _kept(self, state: State) -> State:
        """The same state out of parts that other states have, too."""
        same = self._parts.setdefault
        replicas = tuple(same(each, each) for each in state.replicas)
        return state._replace(
            controller=same(state.controller, state.controller),
            replicas=same(replicas, replicas),
            late=same(state.late, state.late),
            changes=same(state.changes, state.changes),
            committed=same(state.committed, state.committed),
            budget=same(state.budget, state.budget),
        )

    def _path(self, at: int) -> tuple[Action, ...]:
        backwards = []
        while (parent := self._parents[at]) is not None:
            at, action = parent
            backwards.append(action)
        return tuple(reversed(backwards))

    def _fair_run(self, at: int) -> Counterexample | None:
        """Everything under way arrives, whoever is down starts: where that ends, all must be well."""
        state = self._states[at]
        run: list[Action] = []
        seen: dict[State, None] = {}
        try:
            while state not in self._rests:
                if state in seen or len(run) > _LONGEST_RUN:
                    # A round without a change: each follower has fetched, and nothing came of it.
                    wrong = unfinished(state)
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

    def _round(self, state: State, note: Callable[[Action], None]) -> State:
        """Whatever can happen by itself, once, in turn."""
        for action in tuple(fair_actions(state)):
            if action not in fair_actions(state):
                continue
            note(action)
            state = take(state, action, self._bounds)
            check(state)
        return state


def _counterexample(error: Exception, path: tuple[Action, ...], fair_from: int | None = None) -> Counterexample:
    fair_from = len(path) if fair_from is None else fair_from
    if isinstance(error, Violation):
        return Counterexample(error.rule, error.what, path, fair_from)
    return Counterexample("an assertion of the code", str(error) or repr(error), path, fair_from)
