"""`Conversions`: classic groups whose names go over to consumer groups, and come back (consumer-groups.md 16, 17).

Always true: a name is in one of the two places. A classic group that has gone over has no timer and nobody waits in it;
one that has come has a whole session for each of its members.
"""

from collections.abc import Callable

from eosin.coordinator.groups.effect_runner import GroupEffectRunner
from eosin.coordinator.groups.rules.conversion import restored
from eosin.coordinator.groups.rules.events import BecameClassic, Converted, Unloaded
from eosin.coordinator.groups.rules.group import Group, GroupState


class Conversions:
    """The classic groups of one partition, as consumer groups see them (`ClassicSide`)."""

    def __init__(self, runner: GroupEffectRunner, *, is_active: Callable[[], bool]) -> None:
        """`is_active` is false when the partition is not coordinated here any more."""
        self._runner = runner
        self._is_active = is_active

    def leave(self, group_id: str) -> None:
        """A consumer group has the name from now on. Members that wait are to join again."""
        group = self._runner.groups[group_id]
        if group.state is not GroupState.EMPTY or group.pending_members:
            self._runner.happen(group_id, Converted())
        self._runner.groups.pop(group_id, None)

    def begin(self, group: Group, *, rebalances: bool) -> None:
        """A classic group takes the place of a consumer group."""
        self._runner.groups[group.group_id] = group
        self._runner.happen(group.group_id, BecameClassic(rebalances))

    def end(self, group_id: str) -> None:
        """The change was not durable: its members find a consumer group."""
        self._runner.happen(group_id, Unloaded())
        self._runner.groups.pop(group_id, None)

    def restore(self, group: Group) -> None:
        """A group that had gone over is there again, as it is without requests that wait."""
        if not self._is_active() or group.group_id in self._runner.groups:
            return
        self._runner.groups[group.group_id] = restored(group)
        if group.members:
            self._runner.happen(group.group_id, BecameClassic(rebalances=group.state is not GroupState.STABLE))
