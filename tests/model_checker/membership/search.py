"""The search through everything that can happen to a group."""

from collections.abc import Callable

from model_checker import breadth_first
from model_checker.breadth_first import BreadthFirst, Model
from model_checker.membership.steps import Action, B, Steps
from model_checker.membership.values import C, M, R, State
from model_checker.violation import Violation

Counterexample = breadth_first.Counterexample[Action]


def searching(
    steps: Steps[C, M, R, B],
    *,
    check: Callable[[State[C, M, R]], None],
    unfinished: Callable[[State[C, M, R]], Violation | None],
    has_something: Callable[[M], bool],
) -> Callable[[B], BreadthFirst[B, State[C, M, R], Action]]:
    """What begins a search within bounds. It proves something if two members have something in one of the states."""
    model: Model[B, State[C, M, R], Action] = Model(
        first_state=steps.first_state,
        fair_actions=steps.fair_actions,
        faults=steps.faults,
        take=steps.take,
        check=check,
        unfinished=unfinished,
        happened=lambda state: sum(map(has_something, state.members)) > 1,
        kept=lambda state, same: state._replace(
            coordinator=same(state.coordinator, state.coordinator),
            members=tuple(same(each, each) for each in state.members),
            topics=same(state.topics, state.topics),
            budget=same(state.budget, state.budget),
        ),
    )
    return lambda bounds: BreadthFirst(model, bounds)
