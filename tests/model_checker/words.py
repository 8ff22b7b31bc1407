"""Counterexamples in words: a list of steps that a person can read."""

from collections.abc import Iterator

from model_checker.bounds import Bounds
from model_checker.possible import Action
from model_checker.search import Counterexample
from model_checker.step import Step, World
from model_checker.steps import first_state, take
from model_checker.values import (
    ADD,
    END,
    INIT,
    KIND_NAMES,
    MARKER,
    Message,
    State,
    client_name,
    tag_name,
)
from model_checker.violation import Violation


def tell(bounds: Bounds, found: Counterexample) -> str:
    """The rule, and all steps that lead to where it does not hold."""
    lines = [f"{found.rule}: {found.what}", f"configuration {bounds.name}: {bounds.about}"]
    lines += (f"{number:3}. {line}" for number, line in enumerate(_steps(bounds, found), 1))
    if "***" not in lines[-1]:
        lines.append("     and no step that is left changes anything")
    return "\n".join(lines)


def _steps(bounds: Bounds, found: Counterexample) -> Iterator[str]:
    world = World(bounds, is_told=True)
    state = first_state(world)
    for number, action in enumerate(found.actions):
        text = ("(fair) " if number >= found.fair_from else "") + describe(world, state, action)
        step = Step(world, state)
        try:
            take(step, action)
        except (Violation, AssertionError) as error:
            yield "; ".join([text, *step.notes, f"*** {error}"])
            return
        yield "; ".join([text, *step.notes])
        state = step.state()


def describe(world: World, state: State, action: Action) -> str:
    """What happens, in a few words."""
    name, first, second = action
    match name:
        case "durable":
            return "coordinator: the record is durable"
        case "retry":
            return "coordinator: the record is written again"
        case "flush":
            return f"partition {first}: all is durable"
        case "mark":
            return f"the marker reaches partition {first}"
        case "append":
            return f"{_message(world, state.messages[first])} goes on to its partition"
        case "deliver":
            return f"{_message(world, state.messages[first])} arrives"
        case "late":
            return f"the late copy of {_message(world, state.messages[first])} arrives"
        case "deadline":
            return "coordinator: the transaction is out of time"
        case "fail":
            return (
                "coordinator: "
                + (
                    "the append fails",
                    "nobody can tell whether the record is written (it is not)",
                    "nobody can tell whether the record is written (it is)",
                )[first]
            )
        case "straggle":
            return f"a second copy of the marker for partition {first} is on its way"
        case "expire":
            return "coordinator: the id was not used for long"
        case "crash":
            return f"the broker crashes ({first} of {len(state.coordinator.tail)} records in doubt survive) and starts"
        case "terminate":
            return "an operator ends the transaction"
        case "prepare":
            return f"{client_name(first)} prepares, and it is decided outside to commit"
        case "start":
            return f"instance {client_name(first)} starts"
        case "write":
            return f"{client_name(first)} writes to partition {second}"
        case "repeat":
            how = "contradicts" if second else "repeats"
            return f"{client_name(first)} stops for good, and an older client {how} its end"
        case "again":
            return f"{_message(world, state.messages[first])} is sent again, its first copy is late"
        case "give up":
            return f"{client_name(state.messages[first].client)} gives up {_message(world, state.messages[first])}"
        case "reload":
            return f"{client_name(first)} asks for a new epoch in the middle"
        case _:
            return f"{client_name(first)} wants to {name}"


def _message(world: World, message: Message) -> str:
    kind = KIND_NAMES[message.kind]
    pair = f"({message.producer_id}, {message.producer_epoch})"
    if message.kind == MARKER:
        outcome = "COMMIT" if message.argument % 2 else "ABORT"
        return f"{outcome} {kind} {pair} for partition {message.argument // 2}"
    who = client_name(message.client)
    if message.kind == INIT:
        kept = " that keeps what is open" if message.argument else ""
        return f"{who}'s {kind}{kept}" + (f" with {pair}" if message.producer_id >= 0 else "")
    what = f"{who}'s {kind}"
    if message.kind == END:
        return f"{what}({'commit' if message.argument else 'abort'}) of {tag_name(message.tag)} as {pair}"
    verb = "for" if message.kind == ADD else "to"
    return f"{what} {verb} partition {message.argument} in {tag_name(message.tag)} as {pair}"
