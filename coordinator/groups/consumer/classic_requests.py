"""Requests of classic members of consumer groups, answered when what they tell is durable (consumer-groups.md 15)."""

from eosin.coordinator.groups.consumer.consumer_groups import ConsumerGroups
from eosin.coordinator.groups.consumer.rules.events import ClassicHeartbeat, HeartbeatResult
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.events import Join, Sync
from eosin.protocol.errors import ErrorCode


async def join(groups: ConsumerGroups, group_id: str, request: Join) -> JoinResult:
    """JoinGroup of a consumer group that has members. It may be a classic group afterwards, with this member."""
    if groups.is_going(group_id):
        return JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
    happened = groups.happen(group_id, request)
    error = await happened.written.wait()
    assert isinstance(happened.answer, JoinResult)
    return happened.answer if error is ErrorCode.NONE else JoinResult(error, request.member_id)


async def sync(groups: ConsumerGroups, group_id: str, request: Sync) -> SyncResult:
    """SyncGroup of a consumer group."""
    happened = groups.happen(group_id, request)
    error = await happened.written.wait()
    assert isinstance(happened.answer, SyncResult)
    return happened.answer if error is ErrorCode.NONE else SyncResult(error)


def heartbeat(groups: ConsumerGroups, group_id: str, request: ClassicHeartbeat) -> ErrorCode:
    """Heartbeat of a member of a consumer group. It is told nothing that a crash could take back, so it does not wait
    for the disk."""
    happened = groups.happen(group_id, request)
    if happened.is_refused:
        return happened.written.error
    assert isinstance(happened.answer, HeartbeatResult)
    return happened.answer.error
