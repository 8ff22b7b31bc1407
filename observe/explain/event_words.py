"""Each event of a timeline in words, for who has never seen its kind (console.md 3). Pure.

The words follow the time and stand before who did it, so none of them says either.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from eosin.observe.recorder import group_events as groups
from eosin.observe.recorder.events import Cause, EventKind, HistoryEvent
from eosin.observe.recorder.wording import duration, name, plural

_ENDS: Final = {
    "commit": "the transaction is committed",
    "abort": "the transaction is aborted, as its producer asked",
    "timeout": "the transaction is aborted: it ran out of time",
    "fenced": "the transaction of this instance is aborted: another one has taken over",
    "operator": "the transaction is ended by an operator",
}
_RAISED: Final[Mapping[str, str]] = {
    Cause.SUCCESSOR: "a new instance takes the id over",
    Cause.OWN_REINIT: "the producer introduces itself again",
    Cause.TIMEOUT: "the coordinator aborts the transaction at its deadline",
    Cause.OPERATOR: "an operator fences the producer",
    Cause.ADMIN_FENCE: "an admin client raises the epoch, probably to fence the producer",
}
_FENCED: Final[Mapping[str, str]] = {
    Cause.SUCCESSOR: "a new instance has taken over",
    Cause.OWN_REINIT: "it has introduced itself again since",
    Cause.OWN_END: "the epoch is one of its own past",
    Cause.TIMEOUT: "its transaction had run out of time",
    Cause.OPERATOR: "an operator has fenced it, or ended its transaction",
    Cause.ADMIN_FENCE: "an admin client has probably fenced it",
    Cause.HEALED: "its transaction hung and was aborted",
    Cause.EXHAUSTED: "the epochs of its producer id were used up",
    Cause.EXPIRED: "the id had been forgotten",
    Cause.UNKNOWN_ID: "this producer id was never seen with the id",
    Cause.RESTART: "it was out of date before this broker began to record",
}


def in_words(events: Iterable[HistoryEvent]) -> tuple[HistoryEvent, ...]:
    """The same events, each with its words."""
    return tuple(replace(each, words=said(each)) for each in events)


def said(event: HistoryEvent) -> str:
    """The meaning of an event in words; its name and its own text if this broker does not know its kind."""
    found = _of_a_transaction(event) or _of_a_group(event)
    return found or f"{event.kind.replace('_', ' ')} {event.what}".strip()


def _of_a_transaction(event: HistoryEvent) -> str:
    first, _, rest = event.what.partition(" ")
    count = event.count
    match event.kind:
        case EventKind.INIT:
            return f"the producer introduces itself: epoch {event.producer_epoch}"
        case EventKind.BEGIN:
            return f"a transaction begins{_within(count)}"
        case EventKind.ADD:
            return f"it grows to {plural(count, 'partition')}"
        case EventKind.PREPARED:
            return f"the decision to {event.what or 'end it'} is durable; markers follow"
        case EventKind.MARKER_REFUSED:
            times = f" {plural(count, 'time')}" if count > 1 else ""
            return f"{name(first)} has refused its marker{times}: {rest}"
        case EventKind.DISCONNECTED:
            return "the last connection of its producer closes, with the transaction open"
        case EventKind.WAITED:
            return f"a request ({event.what}) waited {duration(count)} for what was under way, in vain"
        case "complete":
            return f"{_ENDS.get(event.what, f'the transaction is over: {event.what}')}{_within(count)}"
        case "epoch_raised":
            return f"{_RAISED.get(first, 'the epoch is raised')}: epoch {event.producer_epoch}"
        case EventKind.TIMEOUT:
            return "the transaction has run out of time, and the coordinator aborts it"
        case EventKind.FENCED:
            why = _FENCED.get(first, first)
            return f"refused{f' with {rest}' if rest else ''}{_times(count)}: {why}"
        case EventKind.REFUSED:
            return f"refused with {event.what}{_times(count)}"
        case EventKind.OPERATOR:
            return f"an operator {event.what}"
        case EventKind.HEALED:
            return f"a hanging transaction is aborted in {event.what}: no coordinator knows of it"
        case EventKind.EXPIRED:
            unused = f" after {duration(int(event.what))} unused" if event.what.isdigit() else ""
            return f"the id is forgotten{unused}"
        case _:
            return ""


def _of_a_group(event: HistoryEvent) -> str:
    member, _, why = event.what.partition(": ")
    match event.kind:
        case groups.JOINED:
            return f"a member joins: {name(member)}"
        case groups.LEFT:
            return f"a member leaves: {why or member}"
        case groups.EXPELLED:
            return f"a member is expelled: {why or member}"
        case groups.REPLACED:
            return f"a static member is back under a new id: {name(member)}"
        case groups.REBALANCE:
            return f"a rebalance begins because {event.what}"
        case groups.GENERATION:
            return f"generation {event.what} begins, with {plural(event.count, 'member')}"
        case groups.STABLE:
            return f"every member of generation {event.what} has its partitions"
        case groups.TARGET:
            return f"the partitions of {plural(event.count, 'member')} at epoch {event.what} are decided"
        case groups.REVOKING:
            return f"a member is to give up {why}, within {duration(event.count)}"
        case groups.RECONCILED:
            return f"every member has its partitions of epoch {event.what}"
        case groups.READY:
            return f"the topics of topology {event.what} are all there: tasks can be dealt out"
        case groups.NOT_READY:
            return f"no tasks are dealt out: {event.what}"
        case groups.UPGRADED:
            return f"it becomes a consumer group, with {plural(event.count, 'member')} at epoch {event.what}"
        case groups.DOWNGRADED:
            return f"it becomes a classic group, with {plural(event.count, 'member')} at generation {event.what}"
        case groups.COMMITTED:
            return f"a transaction commits offsets of {plural(event.count, 'partition')}"
        case groups.DROPPED:
            return f"a transaction is aborted, and its offsets of {plural(event.count, 'partition')} with it"
        case groups.UNSTABLE:
            told = "a reader is told UNSTABLE_OFFSET_COMMIT for"
            return f"{told} {event.what}: offsets of an open transaction{_repeated(event)}"
        case groups.REFUSED:
            of, _, error = event.what.rpartition(": ")
            return f"a commit of offsets is refused with {error}: {of}{_repeated(event)}"
        case groups.LOADED:
            return f"this broker reads the group from its log: {plural(event.count, 'member')}"
        case groups.MOVED:
            return "another broker coordinates the group from now on"
        case _:
            return ""


def _within(count: int) -> str:
    return f", {plural(count, 'partition')}" if count > 0 else ""


def _times(count: int) -> str:
    return f", {plural(count, 'time')}" if count > 1 else ""


def _repeated(event: HistoryEvent) -> str:
    if event.count < 2:
        return ""
    return f", {plural(event.count, 'time')} within {duration(event.at_ms - event.since_ms)}"
