"""The search through everything that can happen to a partition's replicas."""

from collections.abc import Callable
from typing import Any, Final

from model_checker import breadth_first
from model_checker.breadth_first import BreadthFirst, Model
from model_checker.replication.rules import check, unfinished
from model_checker.replication.steps import Action, fair_actions, faults, first_state, take
from model_checker.replication.values import Bounds, State

Counterexample = breadth_first.Counterexample[Action]
Result = breadth_first.Result[Bounds, Action]


def _kept(state: State, same: Callable[[Any, Any], Any]) -> State:
    replicas = tuple(same(each, each) for each in state.replicas)
    return state._replace(
        controller=same(state.controller, state.controller),
        replicas=same(replicas, replicas),
        late=same(state.late, state.late),
        changes=same(state.changes, state.changes),
        committed=same(state.committed, state.committed),
        budget=same(state.budget, state.budget),
    )


MODEL: Final = Model(
    first_state=first_state,
    fair_actions=fair_actions,
    faults=faults,
    take=take,
    check=check,
    unfinished=unfinished,
    happened=lambda state: bool(state.committed),
    kept=_kept,
)


class Search(BreadthFirst[Bounds, State, Action]):
    """One search."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(MODEL, bounds)
