"""Checks of requests that leave a group as it is: Heartbeat and the offset commits. Pure.

They are separate from `decide` because they are the most frequent requests, and only their answer matters: the
coordinator restarts the member's session where a function here says so.
"""

from typing import Final

from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.protocol.errors import ErrorCode

ALIVE: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""Answers to a heartbeat that restart the member's session."""
_KNOWS_ABSENT_FROM: Final = 9
"""The first version of OffsetCommit whose clients know that a group is absent (KIP-848)."""
_TXN_KNOWS_ABSENT_FROM: Final = 6
"""The first version of TxnOffsetCommit whose clients know it (KIP-1319)."""


def heartbeat(group: Group, *, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
    """The answer to a Heartbeat (groups.md 7)."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(member_id, instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def offset_commit(group: Group, *, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
    """Check that a member, or a client outside of the group, may commit offsets now (groups.md 8)."""
    has_identity = generation_id >= 0 or bool(member_id) or instance_id is not None
    error = _commit(group, member_id=member_id, instance_id=instance_id, generation_id=generation_id)
    if error is not ErrorCode.NONE:
        return error
    if not has_identity and group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def transactional_commit(group: Group, *, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
    """Check that offsets may be added to a transaction now (KIP-447, groups.md 10).

    A producer that names no member (an old one, or one given only a group id) is fenced by its epoch alone, and a
    rebalance in progress does not stop a transaction whose member is still current.
    """
    return _commit(group, member_id=member_id, instance_id=instance_id, generation_id=generation_id)


def _commit(group: Group, *, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id >= 0 or member_id or instance_id is not None:
        error = group.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def commit_to_absent_group(*, generation_id: int, transactional: bool, api_version: int) -> ErrorCode:
    """The answer to a commit to a group that does not exist. NONE creates a group that only holds offsets."""
    if generation_id < 0:
        return ErrorCode.NONE
    if api_version >= (_TXN_KNOWS_ABSENT_FROM if transactional else _KNOWS_ABSENT_FROM):
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def keeps_session_alive(group: Group) -> bool:
    """True if an accepted offset commit shows that the member is alive."""
    return group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


def metadata_fits(metadata: str | None, limit: int) -> bool:
    """True if commit metadata is within `offset.metadata.max.bytes`, which counts UTF-16 units (groups.md 17.1)."""
    if metadata is None or len(metadata) * 2 <= limit:  # at most two units per character
        return True
    return len(metadata.encode("utf-16-be", "surrogatepass")) // 2 <= limit
