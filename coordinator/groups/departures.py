"""Members that leave their group by LeaveGroup: very many go in parts, with everybody else in between.

A part is a request of its own: what holds of the group is looked at again for each.
"""

from collections.abc import Callable, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.rules.events import MembersLeft
from eosin.coordinator.groups.consumer.rules.targets import CHARS_PER_MEMBER
from eosin.coordinator.groups.rules.effects import LeaveResult
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.shard import Shard
from eosin.protocol.errors import ErrorCode
from eosin.runtime.turns import next_turn

MOST_REMOVED: Final = 100
"""Members of a consumer group that one decision removes: some milliseconds, and a batch that every log takes."""
MOST_LOOKED_AT: Final = 20_000
"""Members of a classic group that one part goes through: each member that leaves costs a look at all of them, of a
tenth of a microsecond each."""


async def of_consumer_group(shard: Shard, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
    """Remove members of a consumer group. Waits until it is durable that they are gone."""
    errors: list[ErrorCode] = []
    most = max(1, MOST_REMOVED // (1 + len(group_id) // CHARS_PER_MEMBER))
    for first in range(0, len(members), most) or range(1):
        if first:
            await next_turn()
            if not shard.is_active:  # another broker decides by now, and may know them
                return LeaveResult(ErrorCode.NOT_COORDINATOR)
        part = tuple(members[first : first + most])
        happened = shard.consumer.happen(group_id, MembersLeft(part))
        error = await happened.written.wait()
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        assert isinstance(happened.answer, LeaveResult)
        errors += happened.answer.members
    return LeaveResult(ErrorCode.NONE, tuple(errors))


async def of_classic_group(
    shard: Shard,
    group_id: str,
    members: Sequence[LeavingMember],
    leave: Callable[[Sequence[LeavingMember]], LeaveResult],
) -> LeaveResult:
    """Have `leave` remove the members of each part from a classic group."""
    group = shard.groups.get(group_id)
    most = len(members) if group is None else max(1, MOST_LOOKED_AT // max(1, len(group.members)))
    if len(members) <= most:
        return leave(members)
    errors: list[ErrorCode] = []
    for first in range(0, len(members), most):
        if first:
            await next_turn()
        result = leave(members[first : first + most])
        if result.error is not ErrorCode.NONE:
            return result
        errors += result.members
    return LeaveResult(ErrorCode.NONE, tuple(errors))
