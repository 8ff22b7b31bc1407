"""Breadth-first over everything that can happen, without a state twice; and for every state, a fair run to the end.

Equal parts of states are kept once and named by a number, so a state is a few numbers. Which step a fair run takes from
a state is noted when the state is looked at; when all are, each of these runs must end where nothing is open and nobody
waits. States that only such a run reaches, beyond the bounds (a timeout more), are followed along it alone.
"""

import resource
import struct
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from model_checker.bounds import Bounds
from model_checker.fair import fair_run, fair_step, unfinished
from model_checker.possible import FAIR, UNFAIR, Action, actions
from model_checker.step import Step, World
from model_checker.steps import first_state, take
from model_checker.values import State
from model_checker.violation import STABLE, Violation

_NONE: Final = -1
_UNDER_WAY, _FOLLOWED = 1, 2
_LOOK_EVERY: Final = 4096
"""States between two looks at the memory."""


@dataclass(frozen=True)
class Counterexample:
    """A rule that does not hold, and the actions that lead there from the first state."""

    rule: str
    what: str
    actions: tuple[Action, ...]
    fair_from: int
    """From this action on they are those of a fair run, with no new request."""


@dataclass(frozen=True)
class Result:
    """What a search has found."""

    bounds: Bounds
    states: int
    """Looked at in full, each once."""
    steps: int
    depth: int
    seconds: float
    memory_mib: int
    counterexample: Counterexample | None
    stopped: str | None
    """Why not everything was looked at."""


class Search:
    """One search."""

    def __init__(self, bounds: Bounds, *, max_memory_mib: int = 8192, max_states: int | None = None) -> None:
        self._world = World(bounds)
        self._max_memory_mib = max_memory_mib
        self._max_states = max_states or bounds.max_states
        self._numbers: dict[object, int] = {}
        self._values: list[object] = []
        self._index: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._parents = array("i")
        self._fair = array("i")
        self._part_count = len(self._world.topic_partitions)
        self._packed = struct.Struct(f"{5 + self._part_count + len(bounds.versions)}I")
        self._steps = 0

    def run(self) -> Result:
        """Look at everything that the bounds allow, or up to the first broken rule."""
        began = time.monotonic()
        self._add(self._key(first_state(self._world)), _NONE)
        depth, level_end, at = 0, 1, 0
        found: Counterexample | None = None
        stopped = None
        while at < len(self._keys) and found is None:
            if at == level_end:
                depth, level_end = depth + 1, len(self._keys)
            if at % _LOOK_EVERY == 0 and at:
                stopped = self._over_limit(at)
                if stopped:
                    break
            found = self._expand(at)
            at += 1
        looked_at = at
        if found is None:
            found = self._follow_fair_runs(at)
        seconds = time.monotonic() - began
        return Result(self._world.bounds, looked_at, self._steps, depth, seconds, memory_mib(), found, stopped)

    def _over_limit(self, at: int) -> str | None:
        used = memory_mib()
        if used > self._max_memory_mib:
            return f"memory: {used} MiB are used, the limit is {self._max_memory_mib}"
        return f"states: the limit is {self._max_states}" if at >= self._max_states else None

    # States and their numbers ---------------------------------------------------------------------------------------

    def _number(self, value: object) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._values)
            self._values.append(value)
        return number

    def _key(self, state: State, near: State | None = None, near_numbers: Sequence[int] = ()) -> bytes:
        """The numbers of a state. What it shares with `near`, whose numbers are known, is not looked up."""
        number, values = self._number, flat(state)
        if near is None:
            return self._packed.pack(*map(number, values))
        numbers = [
            known if value is shared else number(value)
            for value, shared, known in zip(values, flat(near), near_numbers, strict=True)
        ]
        return self._packed.pack(*numbers)

    def _state(self, key: bytes) -> State:
        values: list[Any] = self._values
        found = [values[number] for number in self._packed.unpack(key)]
        coordinator, *middle, messages, committed, outside, budget = found
        parts, clients = tuple(middle[: self._part_count]), tuple(middle[self._part_count :])
        return State(coordinator, parts, clients, messages, committed, outside, budget)

    def _add(self, key: bytes, parent: int) -> int:
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._keys)
            self._keys.append(key)
            self._parents.append(parent)
            self._fair.append(_NONE)
        return index

    # Steps ----------------------------------------------------------------------------------------------------------

    def _expand(self, at: int) -> Counterexample | None:
        state, numbers = self._state(self._keys[at]), self._packed.unpack(self._keys[at])
        fair = UNFAIR
        for action in actions(self._world, state):
            step = Step(self._world, state)
            try:
                take(step, action)
            except (Violation, AssertionError) as error:
                return self._counterexample(error, (*self._path(at), action))
            self._steps += 1
            index = self._add(self._key(step.state(), state, numbers), at)
            rank = FAIR.get(action[0], UNFAIR)
            if index != at and rank < fair:
                self._fair[at], fair = index, rank
        return None

    def _path(self, at: int) -> tuple[Action, ...]:
        """The actions from the first state to this one: taken again, to see which they were."""
        backwards = []
        while self._parents[at] != _NONE:
            parent = self._parents[at]
            backwards.append(self._action(self._state(self._keys[parent]), self._keys[at]))
            at = parent
        return tuple(reversed(backwards))

    def _action(self, state: State, key: bytes) -> Action:
        for action in actions(self._world, state):
            step = Step(self._world, state)
            take(step, action)
            if self._key(step.state()) == key:
                return action
        raise AssertionError("a state without a way to it")

    def _counterexample(
        self, error: Exception, path: tuple[Action, ...], fair_from: int = sys.maxsize
    ) -> Counterexample:
        if isinstance(error, Violation):
            return Counterexample(error.rule, error.what, path, min(fair_from, len(path)))
        return Counterexample("an assertion of the code", str(error) or repr(error), path, min(fair_from, len(path)))

    # Fair runs ------------------------------------------------------------------------------------------------------

    def _follow_fair_runs(self, looked_at: int) -> Counterexample | None:
        """From every state that was looked at, to the end."""
        followed = bytearray(looked_at)
        beyond: set[bytes] = set()
        for start in range(looked_at):
            trail = []
            at = start
            while at < looked_at and not followed[at] and self._fair[at] >= 0:
                followed[at] = _UNDER_WAY
                trail.append(at)
                at = self._fair[at]
            if at < looked_at and followed[at] == _UNDER_WAY:
                return self._round_for_ever(start)
            if at >= looked_at or not followed[at]:
                found = self._beyond(self._keys[at], beyond, start)
                if found is not None:
                    return found
                if at < looked_at:
                    followed[at] = _FOLLOWED
            for each in trail:
                followed[each] = _FOLLOWED
        return None

    def _beyond(self, key: bytes, known: set[bytes], start: int) -> Counterexample | None:
        """Go on from a state from which no step inside the bounds is fair, or that was not looked at."""
        seen: set[bytes] = set()
        while key not in known:
            if key in seen:
                return self._round_for_ever(start)
            seen.add(key)
            state = self._state(key)
            try:
                following = fair_step(self._world, state)
            except (Violation, AssertionError) as error:
                path, run = self._path(start), fair_run(self._world, self._state(self._keys[start]))
                return self._counterexample(error, (*path, *run), len(path))
            if following is None:
                what = unfinished(state)
                if what is not None:
                    path, run = self._path(start), fair_run(self._world, self._state(self._keys[start]))
                    return self._counterexample(what, (*path, *run), len(path))
                break
            key = self._key(following[1])
        known.update(seen)
        return None

    def _round_for_ever(self, start: int) -> Counterexample:
        path, run = self._path(start), fair_run(self._world, self._state(self._keys[start]))
        return self._counterexample(Violation(STABLE, "it goes round for ever"), (*path, *run), len(path))


def search(bounds: Bounds, max_memory_mib: int, max_states: int | None) -> Result:
    """One whole search, in a process of its own."""
    return Search(bounds, max_memory_mib=max_memory_mib, max_states=max_states).run()


def flat(state: State) -> tuple[object, ...]:
    """Its parts, each of which many states share."""
    coordinator, parts, clients, messages, committed, outside, budget = state
    return (coordinator, *parts, *clients, messages, committed, outside, budget)


def memory_mib() -> int:
    """The most memory that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(used // (1024 * 1024 if sys.platform == "darwin" else 1024))
