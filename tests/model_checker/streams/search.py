"""The search through everything that can happen to a streams group."""

from typing import Final

from model_checker import breadth_first
from model_checker.breadth_first import BreadthFirst, Model
from model_checker.streams.rules import check, unfinished
from model_checker.streams.steps import Action, fair_actions, faults, first_state, take
from model_checker.streams.values import Bounds, State

Counterexample = breadth_first.Counterexample[Action]
Result = breadth_first.Result[Bounds, Action]


def _shared_out(state: State) -> bool:
    """True if two members run something."""
    return sum(bool(each.owned.active) for each in state.members) > 1


MODEL: Final = Model(
    first_state=first_state,
    fair_actions=fair_actions,
    faults=faults,
    take=take,
    check=check,
    unfinished=unfinished,
    happened=_shared_out,
    kept=lambda state, same: state._replace(
        coordinator=same(state.coordinator, state.coordinator),
        members=tuple(same(each, each) for each in state.members),
        budget=same(state.budget, state.budget),
    ),
)


class Search(BreadthFirst[Bounds, State, Action]):
    """One search."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(MODEL, bounds)
