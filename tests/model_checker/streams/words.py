"""Tells a counterexample as a list of steps."""

from typing import Final

from model_checker.streams.search import Counterexample
from model_checker.streams.steps import Action
from model_checker.streams.values import NAMES, Bounds

_WORDS: Final = {
    "request": "{member} sends its next request, and hears the answer",
    "lost request": "{member} sends its next request, which is lost",
    "lost answer": "{member} sends its next request; the answer is lost",
    "copy": "{member} sends its next request, and hears the answer; a copy is still on its way",
    "late": "the late request {what} arrives",
    "take up": "{member} closes the tasks that it is to give up, and opens those that are new",
    "leave": "{member} leaves, and starts anew",
    "leave for good": "{member} leaves for good",
    "kill": "the process of {member} is killed; another begins",
    "upgrade": "the process of {member} is killed; another begins with the other topology",
    "expire": "the {what} of a member that is gone runs out",
    "expire early": "the {what} runs out",
    "part": "the next part of the target is kept",
    "grow": "the first topic gets another partition",
    "delete": "the first topic is deleted",
    "create": "the first topic is created again",
    "crash": "the coordinator starts anew, from its log",
}


def tell(bounds: Bounds, found: Counterexample) -> str:
    """The rule, the bounds and each step."""
    kinds = ", ".join(f"{NAMES[index]} {kind.value}" for index, kind in enumerate(bounds.kinds))
    lines = [f"{found.rule}: {found.what}", f"configuration {bounds.name}: {bounds.about} ({kinds})"]
    for number, action in enumerate(found.actions, start=1):
        if number == found.fair_from + 1:
            lines.append("  from here on nothing new goes wrong:")
        lines.append(f"{number:3}. {_step(action)}")
    return "\n".join(lines)


def _step(action: Action) -> str:
    what = action.what
    if action.kind.startswith("expire"):
        what = f"{what.kind.value} timer of {what.member_id or 'the group'}"
    return _WORDS[action.kind].format(member=NAMES[action.member], what=what)
