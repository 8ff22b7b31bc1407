"""Tells a counterexample as a list of steps."""

from collections.abc import Mapping
from typing import Final

from model_checker.listing import listing
from model_checker.membership.search import Counterexample
from model_checker.membership.steps import Action
from model_checker.membership.values import NAMES, Bounds

_COMMON: Final = {
    "request": "{member} sends its next request, and hears the answer",
    "lost request": "{member} sends its next request, which is lost",
    "lost answer": "{member} sends its next request; the answer is lost",
    "copy": "{member} sends its next request, and hears the answer; a copy is still on its way",
    "late": "the late request {what} arrives",
    "leave": "{member} leaves, and starts anew",
    "leave for good": "{member} leaves for good",
    "kill": "the process of {member} is killed; another begins",
    "expire": "the {what} of a member that is gone runs out",
    "expire early": "the {what} runs out",
    "part": "the next part of the target is kept",
    "crash": "the coordinator starts anew, from its log",
}


def tell(bounds: Bounds, found: Counterexample, own: Mapping[str, str]) -> str:
    """The rule, the bounds and each step; those that a kind of group calls its own way in the words of `own`."""
    kinds = ", ".join(f"{NAMES[index]} {kind.value}" for index, kind in enumerate(bounds.kinds))
    words = {**_COMMON, **own}
    return listing(bounds.name, f"{bounds.about} ({kinds})", found, lambda action: _step(action, words))


def _step(action: Action, words: Mapping[str, str]) -> str:
    what = action.what
    if action.kind.startswith("expire"):
        what = f"{what.kind.value} timer of {what.member_id or 'the group'}"
    return words[action.kind].format(member=NAMES[action.member], what=what)
