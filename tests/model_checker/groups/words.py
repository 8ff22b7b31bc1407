"""Tells a counterexample as a list of steps."""

from typing import Final

from model_checker.groups.values import Bounds
from model_checker.membership import words
from model_checker.membership.search import Counterexample

_OWN: Final = {
    "take up": "{member} stops reading what it is to give up, and begins to read what is new",
    "subscribe": "{member} subscribes to other topics",
    "grow": "topic {what} gets another partition",
    "delete": "topic {what} is deleted",
    "create": "topic {what} is created again",
}


def tell(bounds: Bounds, found: Counterexample) -> str:
    """The rule, the bounds and each step."""
    return words.tell(bounds, found, _OWN)
