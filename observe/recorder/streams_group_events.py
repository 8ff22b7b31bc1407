"""Derive the events of a streams group of KIP-1071, and their reasons, from its state before and after a decision
(console.md 2.1). Pure.

A rebalance begins with each group epoch, as in a consumer group; besides members and topics, the topology has news: all
its topics are there, or some are missing.
"""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind, MemberTimerFired
from eosin.coordinator.groups.streams.rules.events import StreamsEvent, StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import (
    StreamsGroup,
    StreamsGroupState,
    StreamsMember,
    StreamsMemberState,
)
from eosin.observe.recorder.events import ClientIdentity, HistoryEvent
from eosin.observe.recorder.group_events import (
    EXPELLED,
    JOINED,
    LEFT,
    LOADED,
    NOT_READY,
    READY,
    REBALANCE,
    RECONCILED,
    REVOKING,
    TARGET,
)
from eosin.observe.recorder.wording import client, clipped, duration, plural

_CLOSED: Final = "closed"
_SILENT: Final = "no heartbeat in its session (streams.session.timeout.ms)"

_Departure = tuple[str, str, StreamsMember]
"""The kind of a parting, its reason, and who has gone."""


def streams_happened(
    before: StreamsGroup, after: StreamsGroup, event: StreamsEvent | None, now_ms: int
) -> Iterator[HistoryEvent]:
    """The events that a decision is, in order; none for what changes nothing that a person would ask about."""
    if event is None:
        yield _event(now_ms, LOADED, count=len(after.members))
        return
    gone, arrived = _departed(before, after, event), _arrived(before, after, event)
    if gone is not None:
        kind, why, member = gone
        yield _event(now_ms, kind, f"{member.member_id}: {why}", who=_who(member))
    if arrived is not None:
        yield _event(now_ms, JOINED, arrived.member_id, who=_who(arrived))
    yield from _of_topology(before, after, now_ms)
    if after.epoch > before.epoch:
        yield _event(now_ms, REBALANCE, _reason(before, after, event, gone, arrived))
    if after.assignment_epoch > before.assignment_epoch and after.members:
        yield _event(now_ms, TARGET, str(after.assignment_epoch), count=len(after.members))
    yield from _on_the_way(before, after, event, now_ms)


def _of_topology(before: StreamsGroup, after: StreamsGroup, now_ms: int) -> Iterator[HistoryEvent]:
    """The news that tasks can be dealt out now, or cannot."""
    detail = "" if after.configured is None else after.configured.detail
    earlier = "" if before.configured is None else before.configured.detail
    if after.is_ready and not before.is_ready and after.topology is not None:
        yield _event(now_ms, READY, str(after.topology.epoch))
    elif detail and detail != earlier:
        yield _event(now_ms, NOT_READY, clipped(detail))


def _departed(before: StreamsGroup, after: StreamsGroup, event: StreamsEvent) -> _Departure | None:
    match event:
        case StreamsHeartbeat():
            member = before.members.get(event.member_id)
        case MemberTimerFired():
            member = before.members.get(event.timer.member_id)
        case _:
            return None
    if member is None or member.member_id in after.members:
        return None
    if isinstance(event, StreamsHeartbeat):
        return LEFT, _CLOSED, member
    if event.timer.kind is ConsumerTimerKind.SESSION:
        return EXPELLED, _SILENT, member
    pending = len([*member.pending.active, *member.pending.standby])
    within = duration(member.rebalance_timeout_ms)
    return EXPELLED, f"it did not give up {plural(pending, 'task')} within {within} (max.poll.interval.ms)", member


def _arrived(before: StreamsGroup, after: StreamsGroup, event: StreamsEvent) -> StreamsMember | None:
    if not isinstance(event, StreamsHeartbeat) or event.member_id in before.members:
        return None
    return after.members.get(event.member_id)


def _reason(
    before: StreamsGroup,
    after: StreamsGroup,
    event: StreamsEvent,
    gone: _Departure | None,
    arrived: StreamsMember | None,
) -> str:
    """The reason of a group epoch, as the clause after `because`."""
    if gone is not None:
        kind, why, member = gone
        return clipped(f"{client(_who(member))} {'left' if kind == LEFT else 'was expelled'}: {why}")
    if arrived is not None:
        return clipped(f"{client(_who(arrived))} joined")
    if after.is_ready != before.is_ready:
        return "the topics of its topology are all there" if after.is_ready else "topics of its topology are missing"
    if before.metadata_hash != after.metadata_hash:
        return "a topic of its topology has come, gone or grown"
    new = after.members.get(event.member_id) if isinstance(event, StreamsHeartbeat) else None
    old = None if new is None else before.members.get(new.member_id)
    if new is not None and old is not None and _described(old) != _described(new):
        return clipped(f"{client(_who(new))} describes itself otherwise: another topology, process, endpoint or rack")
    return "its settings have changed (streams.num.standby.replicas)"


def _described(member: StreamsMember) -> tuple[object, ...]:
    return (member.topology_epoch, member.process_id, member.endpoint, member.rack_id, member.tags)


def _on_the_way(before: StreamsGroup, after: StreamsGroup, event: StreamsEvent, now_ms: int) -> Iterator[HistoryEvent]:
    """The news of the member that spoke: it is to give something up, or is the last that has come to the target."""
    member_id = event.member_id if isinstance(event, StreamsHeartbeat) else ""
    old, new = before.members.get(member_id), after.members.get(member_id)
    if new is None or new is old:
        return
    if new.state is StreamsMemberState.UNREVOKED_TASKS and (old is None or old.pending != new.pending):
        what = f"{member_id}: {plural(len([*new.pending.active, *new.pending.standby]), 'task')}"
        yield _event(now_ms, REVOKING, what, count=new.rebalance_timeout_ms, who=_who(new))
    was_there = old is not None and old.is_reconciled(before.assignment_epoch)
    is_news = not was_there or after.assignment_epoch > before.assignment_epoch
    if is_news and after.state is StreamsGroupState.STABLE:
        yield _event(now_ms, RECONCILED, str(after.assignment_epoch), count=len(after.members))


def _who(member: StreamsMember) -> ClientIdentity:
    return ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/"))


def _event(at_ms: int, kind: str, what: str = "", *, count: int = 0, who: ClientIdentity | None = None) -> HistoryEvent:
    return HistoryEvent(at_ms, kind, -1, -1, what, count, who)
