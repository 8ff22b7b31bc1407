"""The judge of a history: what a broker has promised, and what it did. Pure: it knows no broker, only what clients saw.

A history without a violation is one that a correct broker may have produced.
"""

from collections.abc import Callable

from simulation.case import Case, Violations
from simulation.history import History
from simulation.rules import groups, producers, readers, shares, transactions, writes

RULES: tuple[Callable[[Case], Violations], ...] = (
    *writes.RULES,
    *transactions.RULES,
    *readers.RULES,
    *producers.RULES,
    *groups.RULES,
    *shares.RULES,
)


OF_A_CLUSTER = tuple(rule for rule in RULES if rule is not readers.watermarks_never_fall)
"""A new leader may tell a lower high watermark for a moment: it knows what the old one told its followers (KIP-207)."""


def judge(history: History, rules: tuple[Callable[[Case], Violations], ...] = RULES) -> list[str]:
    """Every violation, as a sentence."""
    violations = [f"the broker failed: {fault}" for fault in history.faults]
    violations += [f"never answered: {waiting}" for waiting in history.unanswered]
    if history.unanswered or not history.final.partitions or not history.final_again.partitions:
        return violations  # how things ended is not known, and that is what the rules go by
    case = Case(history)
    return [*violations, *(violation for rule in rules for violation in rule(case))]
