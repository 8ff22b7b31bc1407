"""A counterexample as a numbered list."""

from collections.abc import Callable
from typing import TypeVar

from model_checker.breadth_first import Counterexample

A = TypeVar("A")


def listing(name: str, about: str, found: Counterexample[A], step: Callable[[A], str]) -> str:
    """The rule, the configuration by its name and what it is about, and each step in words."""
    lines = [f"{found.rule}: {found.what}", f"configuration {name}: {about}"]
    for number, action in enumerate(found.actions, start=1):
        if number == found.fair_from + 1:
            lines.append("  from here on nothing new goes wrong:")
        lines.append(f"{number:3}. {step(action)}")
    return "\n".join(lines)
