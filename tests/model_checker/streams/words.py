"""Tells a counterexample as a list of steps."""

from typing import Final

from model_checker.membership import words
from model_checker.membership.search import Counterexample
from model_checker.streams.values import Bounds

_OWN: Final = {
    "take up": "{member} closes the tasks that it is to give up, and opens those that are new",
    "upgrade": "the process of {member} is killed; another begins with the other topology",
    "grow": "the first topic gets another partition",
    "delete": "the first topic is deleted",
    "create": "the first topic is created again",
}


def tell(bounds: Bounds, found: Counterexample) -> str:
    """The rule, the bounds and each step."""
    return words.tell(bounds, found, _OWN)
