"""Derive the events of a consumer group of KIP-848, and their reasons, from its state before and after a decision
(console.md 2.1). Pure.

A rebalance begins with each group epoch, which a member, a departure or a topic has begun; the target of that epoch
follows, members give up what others are to have, and it is over when every member has come to the target.
"""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.consumer.rules.events import (
    ClassicHeartbeat,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimerKind,
    MembersLeft,
    MemberTimerFired,
    Upgrade,
)
from eosin.coordinator.groups.consumer.rules.group import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerMemberState,
)
from eosin.coordinator.groups.rules.events import Join
from eosin.observe.recorder.events import ClientIdentity, HistoryEvent
from eosin.observe.recorder.group_events import (
    EXPELLED,
    JOINED,
    LEFT,
    LOADED,
    REBALANCE,
    RECONCILED,
    REPLACED,
    REVOKING,
    TARGET,
    UPGRADED,
)
from eosin.observe.recorder.wording import client, clipped, duration, plural

_AWAY: Final = "it is away, and keeps its place until its session ends"
_CLOSED: Final = "closed, or unsubscribed"
_REMOVED: Final = "an administrator has removed it"
_SILENT: Final = "no heartbeat in its session (consumer.session.timeout.ms)"

_Departure = tuple[str, str, ConsumerMember]
"""The kind of a parting, its reason, and who has gone."""


def consumer_happened(
    before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent | None, now_ms: int
) -> Iterator[HistoryEvent]:
    """The events that a decision is, in order; none for what changes nothing that a person would ask about."""
    if event is None:
        yield _event(now_ms, LOADED, count=len(after.members))
        return
    if isinstance(event, Upgrade):
        yield _event(now_ms, UPGRADED, str(max(1, event.classic.generation_id)), count=len(event.classic.members))
    gone = list(_departures(before, after, event))
    for kind, why, member in gone:
        yield _event(now_ms, kind, f"{member.member_id}: {why}", who=_who(member))
    arrival = _arrival(before, after, event)
    if arrival is not None:
        kind, member = arrival
        yield _event(now_ms, kind, member.member_id, who=_who(member))
    if after.epoch > before.epoch:
        yield _event(now_ms, REBALANCE, _reason(before, after, event, gone, arrival))
    if after.assignment_epoch > before.assignment_epoch and after.members:
        yield _event(now_ms, TARGET, str(after.assignment_epoch), count=len(after.members))
    yield from _on_the_way(before, after, _speaker(event), now_ms)


def _departures(before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent) -> Iterator[_Departure]:
    match event:
        case ConsumerHeartbeat() if event.member_epoch < 0:
            member = before.members.get(event.member_id)
            if member is not None:
                yield LEFT, _AWAY if event.member_epoch == STATIC_LEAVE_EPOCH else _CLOSED, member
        case MemberTimerFired():
            member = before.members.get(event.timer.member_id)
            if member is not None and member.member_id not in after.members:
                yield EXPELLED, _expelled_because(event, member), member
        case MembersLeft():
            reasons = {each.member_id or each.instance_id: each.reason for each in event.members}
            for member_id, member in before.members.items():
                if member_id not in after.members:
                    yield LEFT, reasons.get(member_id) or reasons.get(member.instance_id) or _REMOVED, member
        case _:
            return


def _expelled_because(event: MemberTimerFired, member: ConsumerMember) -> str:
    if event.timer.kind is ConsumerTimerKind.SESSION:
        return _SILENT
    within = duration(member.rebalance_timeout_ms)
    if event.timer.kind is not ConsumerTimerKind.REBALANCE:
        return f"it did not join again, or fetch its partitions, within {within} (max.poll.interval.ms)"
    return f"it did not give up {plural(len(member.pending), 'partition')} within {within} (max.poll.interval.ms)"


def _arrival(before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent) -> tuple[str, ConsumerMember] | None:
    """A member that is new, and the way in which it came."""
    member = after.members.get(_speaker(event))
    if member is None or member.member_id in before.members:
        return None
    is_back = member.instance_id is not None and member.instance_id in before.instances
    return REPLACED if is_back else JOINED, member


def _speaker(event: ConsumerEvent) -> str:
    """The member that has sent a request; empty if none has."""
    match event:
        case ConsumerHeartbeat() | ClassicHeartbeat():
            return event.member_id
        case Upgrade():
            return event.heartbeat.member_id
        case Join():
            return event.member_id or event.fresh_member_id
        case _:
            return ""


def _reason(
    before: ConsumerGroup,
    after: ConsumerGroup,
    event: ConsumerEvent,
    gone: list[_Departure],
    arrival: tuple[str, ConsumerMember] | None,
) -> str:
    """The reason of a group epoch, as the clause after `because`."""
    if gone:
        kind, why, member = gone[0]
        others = f" and {plural(len(gone) - 1, 'other')}" if len(gone) > 1 else ""
        verb = "left" if kind == LEFT else "was expelled"
        return clipped(f"{client(_who(member))}{others} {verb}: {why}")
    if arrival is not None:
        back = "came back under a new id" if arrival[0] == REPLACED else "joined"
        return clipped(f"{client(_who(arrival[1]))} {back}")
    new = after.members.get(_speaker(event))
    if new is not None:
        old = before.members.get(new.member_id)
        if old is not None and (old.topics, old.regex) != (new.topics, new.regex):
            return clipped(f"{client(_who(new))} is subscribed to something else now")
        return "a topic that its members read has come, gone or grown"
    return "other topics match a regular expression of its members"


def _on_the_way(before: ConsumerGroup, after: ConsumerGroup, member_id: str, now_ms: int) -> Iterator[HistoryEvent]:
    """The news of the member that spoke: it is to give something up, or is the last that has come to the target."""
    old, new = before.members.get(member_id), after.members.get(member_id)
    if new is None or new is old:
        return
    revoking = ConsumerMemberState.UNREVOKED_PARTITIONS
    if new.state is revoking and (old is None or old.pending != new.pending):
        what = f"{member_id}: {plural(len(new.pending), 'partition')}"
        yield _event(now_ms, REVOKING, what, count=new.rebalance_timeout_ms, who=_who(new))
    was_there = old is not None and old.is_reconciled(before.assignment_epoch)
    if (
        new.is_reconciled(after.assignment_epoch)
        and (not was_there or after.assignment_epoch > before.assignment_epoch)
        and after.state is ConsumerGroupState.STABLE
    ):
        yield _event(now_ms, RECONCILED, str(after.assignment_epoch), count=len(after.members))


def _who(member: ConsumerMember) -> ClientIdentity:
    called = f"{member.client_id}/{member.instance_id}" if member.instance_id else member.client_id
    return ClientIdentity(client_id=called, peer=member.client_host.lstrip("/"))


def _event(at_ms: int, kind: str, what: str = "", *, count: int = 0, who: ClientIdentity | None = None) -> HistoryEvent:
    return HistoryEvent(at_ms, kind, -1, -1, what, count, who)
