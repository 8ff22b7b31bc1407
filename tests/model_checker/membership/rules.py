"""What must be true of groups of every kind, and how it is said that it is not."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from eosin.coordinator.groups.consumer.rules.group import STATIC_LEAVE_EPOCH
from model_checker.violation import Violation

EPOCHS: Final = "epochs never go down, and none is used twice"
REPLAYED: Final = "memory is what the log tells"

COMMON: Final = {
    EPOCHS: "the epochs of the group, of its target and of a member only grow, and an epoch has one target",
    REPLAYED: "a coordinator that starts with the log goes on with the same group",
}

LAST_VERSION: Final = 10
"""Of OffsetCommit."""

G = TypeVar("G")


def check_epochs(before: Any, after: Any, *, in_parts: bool) -> None:
    """Raises Violation if a decision makes this group out of that one."""
    if after.epoch < before.epoch or after.assignment_epoch < before.assignment_epoch:
        raise Violation(EPOCHS, f"from {before.epoch}, {before.assignment_epoch} to {after.epoch}")
    for name, member in after.members.items():
        known = before.members.get(name)
        if known is None:
            continue
        if member.epoch not in (known.epoch, STATIC_LEAVE_EPOCH) and member.epoch < known.epoch:
            raise Violation(EPOCHS, f"that of {name} goes from {known.epoch} to {member.epoch}")
        is_same = before.assignment_epoch == after.assignment_epoch and not in_parts
        if is_same and before.target(name) != after.target(name):
            raise Violation(EPOCHS, f"{name} has two targets at {after.assignment_epoch}")


def stored(groups: Mapping[str, G], left_over: object) -> G | None:
    """The group that a log tells of, out of all that it tells. Raises Violation."""
    if left_over:
        raise Violation(REPLAYED, f"left over is {left_over}")
    return groups.get("g")


def check_replayed(kept: G | None, group: G, *, is_stored: bool) -> None:
    """Raises Violation if the group in the log is not the one in memory; both without what is in memory alone."""
    if kept is None:
        if is_stored:
            raise Violation(REPLAYED, "the log has no group")
    elif kept != group:
        raise Violation(REPLAYED, f"in the log is {kept}, in memory {group}")
