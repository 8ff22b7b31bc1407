"""A classic group that becomes a consumer group, or was one (consumer-groups.md 16, 17)."""

from msgspec.structs import replace

from eosin.coordinator.groups.rules.decision import GroupDecision
from eosin.coordinator.groups.rules.events import BecameClassic
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.leave_group import end, idle, loaded
from eosin.coordinator.groups.rules.rebalance import start_again
from eosin.protocol.errors import ErrorCode


def converted(decision: GroupDecision) -> None:
    """A consumer group has its place: whoever waits is to join again, there."""
    end(decision, ErrorCode.REBALANCE_IN_PROGRESS)


def became_classic(decision: GroupDecision, event: BecameClassic) -> None:
    """Give every member a whole session, and have them join again if something is to be shared out."""
    loaded(decision)
    if event.rebalances:
        start_again(decision)


def restored(group: Group) -> Group:
    """The group as it was, without the requests that waited, which have been answered. One that was not stable is to
    rebalance."""
    if not group.members:
        state = GroupState.EMPTY
    else:
        state = GroupState.STABLE if group.state is GroupState.STABLE else GroupState.COMPLETING_REBALANCE
    return replace(
        group,
        state=state,
        members=idle(group),
        pending_members={},
        unsynced=frozenset(),
        storing=False,
        initial_delay=None,
    )
