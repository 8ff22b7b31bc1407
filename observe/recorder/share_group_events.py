"""Derive the events of a share group of KIP-932, and their reasons, from its state before and after a decision
(console.md 2.1). Pure.

A rebalance begins with each group epoch; the target of that epoch follows, and members come to it one by one, without
waiting for each other.
"""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.share.rules.events import SessionEnded, ShareEvent, ShareHeartbeat, StatesWanted
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.observe.recorder.events import ClientIdentity, HistoryEvent
from eosin.observe.recorder.group_events import EXPELLED, JOINED, LEFT, LOADED, REBALANCE, TARGET
from eosin.observe.recorder.wording import client, clipped

_CLOSED: Final = "closed, or unsubscribed"
_SILENT: Final = "no heartbeat in its session (share.session.timeout.ms)"


def share_happened(
    before: ShareGroup, after: ShareGroup, event: ShareEvent | None, now_ms: int
) -> Iterator[HistoryEvent]:
    """The events that a decision is, in order; none for what changes nothing that a person would ask about."""
    if event is None:
        yield _event(now_ms, LOADED, count=len(after.members))
        return
    gone = _departed(before, after, event)
    if gone is not None:
        kind, why, member = gone
        yield _event(now_ms, kind, f"{member.member_id}: {why}", who=_who(member))
    arrived = _arrived(before, after, event)
    if arrived is not None:
        yield _event(now_ms, JOINED, arrived.member_id, who=_who(arrived))
    if after.epoch > before.epoch:
        yield _event(now_ms, REBALANCE, _reason(before, after, event, gone, arrived))
    if after.assignment_epoch > before.assignment_epoch and after.members:
        yield _event(now_ms, TARGET, str(after.assignment_epoch), count=len(after.members))


_Departure = tuple[str, str, ShareMember]
"""The kind of a parting, its reason, and who has gone."""


def _departed(before: ShareGroup, after: ShareGroup, event: ShareEvent) -> _Departure | None:
    member = before.members.get(event.member_id) if isinstance(event, ShareHeartbeat | SessionEnded) else None
    if member is None or member.member_id in after.members:
        return None
    return (EXPELLED, _SILENT, member) if isinstance(event, SessionEnded) else (LEFT, _CLOSED, member)


def _arrived(before: ShareGroup, after: ShareGroup, event: ShareEvent) -> ShareMember | None:
    if not isinstance(event, ShareHeartbeat) or event.member_id in before.members:
        return None
    return after.members.get(event.member_id)


def _reason(
    before: ShareGroup, after: ShareGroup, event: ShareEvent, gone: _Departure | None, arrived: ShareMember | None
) -> str:
    """The reason of a group epoch, as the clause after `because`."""
    if gone is not None:
        kind, why, member = gone
        return clipped(f"{client(_who(member))} {'left' if kind == LEFT else 'was expelled'}: {why}")
    if arrived is not None:
        return clipped(f"{client(_who(arrived))} joined")
    if isinstance(event, StatesWanted):
        return "an administrator has moved its offsets"
    new = after.members.get(event.member_id) if isinstance(event, ShareHeartbeat) else None
    old = None if new is None else before.members.get(new.member_id)
    if new is not None and old is not None and old.topics != new.topics:
        return clipped(f"{client(_who(new))} is subscribed to something else now")
    if before.metadata_hash == after.metadata_hash:
        return "more of its partitions can be read: their states are initialized"
    return "a topic that its members read has come, gone or grown"


def _who(member: ShareMember) -> ClientIdentity:
    return ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/"))


def _event(at_ms: int, kind: str, what: str = "", *, count: int = 0, who: ClientIdentity | None = None) -> HistoryEvent:
    return HistoryEvent(at_ms, kind, -1, -1, what, count, who)
