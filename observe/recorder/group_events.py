"""Derive the events of a consumer group and their reasons from its state before and after a decision (console.md 2.1).
Pure.

Whoever joined, left or was expelled is named by client id and host, with the member id; the reason of a rebalance is
one clause, which the sentences of `eosin explain` take over.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from eosin.coordinator.groups.rules.events import (
    BecameClassic,
    Event,
    GroupLoaded,
    Join,
    Leave,
    Rebalance,
    TimerFired,
    TimerKind,
    Unloaded,
)
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.ports import Requester
from eosin.observe.recorder.events import NO_TIME, ClientIdentity, HistoryEvent, identity_of
from eosin.observe.recorder.wording import client, clipped, duration
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

JOINED: Final = "joined"
LEFT: Final = "left"
EXPELLED: Final = "expelled"
REPLACED: Final = "replaced"
"""A static member came back under a new id (KIP-345)."""
REBALANCE: Final = "rebalance"
"""A join phase began."""
GENERATION: Final = "generation"
"""A join phase ended: the members of the generation that follows."""
STABLE: Final = "stable"
"""Every member has its assignment."""
TARGET: Final = "target"
"""Of a consumer group (KIP-848), as the next two: the partitions of each member at a group epoch are computed."""
REVOKING: Final = "revoking"
"""A member is to give up partitions; `count` is the time that it has for that, in ms."""
RECONCILED: Final = "reconciled"
"""Every member has come to the target."""
READY: Final = "ready"
"""Of a streams group (KIP-1071), as the next: all topics of its topology, whose epoch is told, are there."""
NOT_READY: Final = "not_ready"
"""Topics of its topology are missing, or have the wrong number of partitions."""
UPGRADED: Final = "upgraded"
"""A classic group has become a consumer group."""
DOWNGRADED: Final = "downgraded"
"""It is a classic group again."""
COMMITTED: Final = "offsets_committed"
"""In a transaction; likewise the next."""
DROPPED: Final = "offsets_dropped"
UNSTABLE: Final = "offsets_unstable"
"""A reader of stable offsets was told UNSTABLE_OFFSET_COMMIT."""
REFUSED: Final = "commit_refused"
"""Offsets were refused: of a member that is none any more, of another generation, of a producer that is fenced."""
REPEATING: Final = frozenset({UNSTABLE, REFUSED})
LOADED: Final = "loaded"
MOVED: Final = "moved"

_PREPARING: Final = GroupState.PREPARING_REBALANCE
_UNSAID: Final = "closed, or too long without a poll (max.poll.interval.ms)"
"""The reason of clients that leave without one: librdkafka does so in both cases."""


class GroupHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is kept of one group."""

    since_ms: int
    """The start of the recorder."""
    events: tuple[HistoryEvent, ...] = ()
    """Oldest first; `what` of a member's is its id, of a rebalance its reason."""
    left_out: int = 0
    """Older events that are not kept."""
    dropped_groups: int = 0
    """The number of groups that the recorder has dropped to save memory."""
    last_commit_ms: int = NO_TIME
    """The last commit of any of its offsets, as its coordinator has it; -1 for none."""


def happened(before: Group, after: Group, event: Event, now_ms: int) -> Iterator[HistoryEvent]:
    """The events that a decision is, in order; none for what changes nothing that a person would ask about."""
    if type(event) is GroupLoaded:
        yield _event(now_ms, LOADED, count=len(after.members))
        return
    if type(event) is Unloaded:
        yield _event(now_ms, MOVED)
        return
    if type(event) is BecameClassic:
        yield _event(now_ms, DOWNGRADED, str(after.generation_id), count=len(after.members))
    gone, new = _changed(before, after)
    for member in gone:
        kind, why = _parting(event, member, new)
        if kind is not None:
            yield _event(now_ms, kind, f"{member.member_id}: {why}", who=_who(member))
    for member in new:
        kind = REPLACED if any(each.instance_id == member.instance_id for each in gone if each.instance_id) else JOINED
        yield _event(now_ms, kind, member.member_id, who=_who(member))
    is_next = after.generation_id > before.generation_id
    if before.state is not _PREPARING and (after.state is _PREPARING or (is_next and before.state is not after.state)):
        yield _event(now_ms, REBALANCE, _reason(before, event, gone, new))
    if is_next:
        yield _event(now_ms, GENERATION, str(after.generation_id), count=len(after.members))
    if after.state is GroupState.STABLE and before.state is GroupState.COMPLETING_REBALANCE:
        yield _event(now_ms, STABLE, str(after.generation_id), count=len(after.members))


def _changed(before: Group, after: Group) -> tuple[list[Member], list[Member]]:
    """Members that are gone, and new ones."""
    old, now = before.members, after.members
    if old is now:
        return [], []
    gone = [member for name, member in old.items() if name not in now]
    if len(now) == len(old) - len(gone):
        return gone, []
    return gone, [member for name, member in now.items() if name not in old]


def _parting(event: Event, member: Member, new: list[Member]) -> tuple[str | None, str]:
    """The way a member has gone, and the reason."""
    if type(event) is TimerFired:
        if event.timer.kind is TimerKind.SESSION and event.timer.member_id == member.member_id:
            return EXPELLED, _silence(member)
        if event.timer.kind is TimerKind.SYNC:
            return EXPELLED, "it never fetched its assignment"
        return EXPELLED, f"it did not join again within {duration(member.rebalance_timeout_ms)} (max.poll.interval.ms)"
    if type(event) is Leave:
        for leaving in event.members:
            if leaving.member_id == member.member_id or leaving.instance_id == member.instance_id is not None:
                by = "" if leaving.member_id else "an administrator has removed it"
                return LEFT, leaving.reason or by or _UNSAID
    if new:
        return None, ""  # a static member that came back
    return EXPELLED, "it did not join again in time"


def _silence(member: Member) -> str:
    if member.is_new:
        return "it was lost before its first rebalance was over"
    return f"no heartbeat for {duration(member.session_timeout_ms)} (session.timeout.ms)"


def _reason(before: Group, event: Event, gone: list[Member], new: list[Member]) -> str:
    """The reason of a rebalance, as the clause after `because`."""
    if type(event) is Rebalance:
        return "an operator wanted it"
    if type(event) is BecameClassic:
        return "it is a classic group again, since its last member of the consumer protocol has gone"
    if gone and not (new and type(event) is Join):
        kind, why = _parting(event, gone[0], new)
        others = f" and {len(gone) - 1} others" if len(gone) > 1 else ""
        verb = "left" if kind == LEFT else "was expelled"
        return clipped(f"{client(_who(gone[0]))}{others} {verb}: {why}")
    if new:
        back = "came back under a new id" if gone else "joined"
        return clipped(f"{client(_who(new[0]))} {back}")
    if type(event) is Join and (member := before.members.get(event.member_id)) is not None:
        if member.protocols != event.protocols:
            return clipped(f"{client(_who(member))} joined again with another subscription")
        return clipped(f"{client(_who(member))}, its leader, joined again: something that it watches has changed")
    return "its assignment could not be stored" if type(event) is not Join else "a member joined again"


def _who(member: Member) -> ClientIdentity:
    called = f"{member.client_id}/{member.instance_id}" if member.instance_id else member.client_id
    return ClientIdentity(client_id=called, peer=member.client_host.lstrip("/"))


def _event(at_ms: int, kind: str, what: str = "", *, count: int = 0, who: ClientIdentity | None = None) -> HistoryEvent:
    return HistoryEvent(at_ms, kind, -1, -1, what, count, who)


def offsets_event(now_ms: int, producer_id: int, producer_epoch: int, *, commit: bool, partitions: int) -> HistoryEvent:
    """A transaction with offsets of the group is over."""
    return HistoryEvent(now_ms, COMMITTED if commit else DROPPED, producer_id, producer_epoch, "", partitions)


def unstable_event(partitions: Sequence[TopicPartition], who: Requester | None, now_ms: int) -> HistoryEvent:
    """A reader waits for offsets of a transaction; all its tries are one event."""
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return HistoryEvent(now_ms, UNSTABLE, -1, -1, f"{partitions[0]}{more}", 1, identity_of(who), since_ms=now_ms)


def refused_event(
    error: ErrorCode,
    *,
    member_id: str,
    generation_id: int,
    pair: tuple[int, int] | None,
    who: Requester | None,
    now_ms: int,
) -> HistoryEvent:
    """A commit of offsets was refused."""
    of = [f"member {clipped(member_id)}"] if member_id else []
    of += [f"generation {generation_id}"] if generation_id >= 0 else []
    what = f"{', '.join(of) or 'no member'}: {error.name}"
    return HistoryEvent(now_ms, REFUSED, *(pair or (-1, -1)), what, 1, identity_of(who), since_ms=now_ms)


def rebalances(history: GroupHistory, since_ms: int) -> list[HistoryEvent]:
    """The rebalances that began at or after a time, as far as they are kept."""
    return [event for event in history.events if event.kind == REBALANCE and event.at_ms >= since_ms]


def last_rebalance(history: GroupHistory) -> tuple[HistoryEvent, HistoryEvent | None] | None:
    """The rebalance that began last, and the generation or epoch it led to, if it is over."""
    began: HistoryEvent | None = None
    over: HistoryEvent | None = None
    for event in history.events:
        if event.kind == REBALANCE:
            began, over = event, None
        elif event.kind in (GENERATION, RECONCILED) and began is not None and over is None:
            over = event
    return None if began is None else (began, over)
