"""Fair runs: everything under way arrives, nothing new is asked for. Where such a run ends, all must be decided."""

from eosin.coordinator.transactions.rules.state import TransactionState
from model_checker.possible import FAIR, Action, actions
from model_checker.step import Step, World
from model_checker.steps import take
from model_checker.values import State
from model_checker.violation import ANSWERED, STABLE, Violation


def fair_step(world: World, state: State, *, last_first: bool = False) -> tuple[Action, State] | None:
    """What a fair run does next: the first of its actions that changes anything; None at its end. `last_first`: in the
    opposite order, so what is late comes before what is awaited, and what is awaited before what it waits for."""
    chosen = [action for action in actions(world, state) if action[0] in FAIR and action[0] != "deadline"]
    txn = state.coordinator.txn
    if txn is not None and txn.state is TransactionState.ONGOING and txn.pending is None:
        chosen.append(("terminate" if txn.never_times_out else "deadline", 0, 0))
    for action in reversed(chosen) if last_first else chosen:
        step = Step(world, state)
        take(step, action)
        after = step.state()
        if after != state:
            return action, after
    return None


def fair_run(world: World, state: State) -> tuple[Action, ...]:
    """The actions of a fair run, until nothing changes, a state comes again, or a rule is broken."""
    run: list[Action] = []
    seen = {state}
    while True:
        try:
            following = fair_step(world, state)
        except (Violation, AssertionError):
            return tuple(run)
        if following is None:
            return tuple(run)
        run.append(following[0])
        state = following[1]
        if state in seen:
            return tuple(run)
        seen.add(state)


def unfinished(state: State) -> Violation | None:
    """What is wrong with a state in which a fair run ends."""
    for message in state.messages:
        if message.awaited:
            return Violation(ANSWERED, "a request is told to come back, whatever happens")
    for index, part in enumerate(state.parts):
        if any(each.rank >= 0 for each in part.now.producers):
            return Violation(STABLE, f"partition {index} has a transaction that nobody ends")
    txn = state.coordinator.txn
    if state.coordinator.job is not None or (txn is not None and not txn.is_at_rest):
        return Violation(STABLE, "the coordinator does not come to rest")
    return None
