"""Find the cause for which a pair is no longer accepted, from the coordinator's knowledge at the refusal (console.md
2.3). Pure."""

from typing import Final

from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.rules.state import NO_PRODUCER_ID, Txn
from eosin.observe.recorder.events import Cause, EventKind, Takeover
from eosin.observe.recorder.track import Track
from eosin.protocol.errors import ErrorCode

ADMIN_TIMEOUT_MS: Final = 1
"""The timeout in requests of admin clients that only want to fence."""
_ADMIN_CLIENT: Final = "adminclient-"
CONSOLE: Final = "eosin-console"
"""The console's client id."""
_OPERATORS: Final = (_ADMIN_CLIENT, "eosin-cli")
"""Beginnings of the client ids of Kafka's own tools and of `eosin transactions`; an application that fences has a name
of its own."""

FENCING: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors that say that a pair is out of date."""


def cause_of_takeover(owner: Requester | None, who: Requester | None, *, has_pair: bool, timeout_ms: int) -> Cause:
    """The cause for which an InitProducerId raises the pair of an id that has one."""
    client_id = "" if who is None else who.client_id or ""
    if timeout_ms <= ADMIN_TIMEOUT_MS and not has_pair:
        return Cause.OPERATOR if client_id.startswith(_OPERATORS) else Cause.ADMIN_FENCE
    if client_id == CONSOLE and not has_pair:
        return Cause.OPERATOR
    if client_id.startswith(_ADMIN_CLIENT):
        return Cause.ADMIN_FENCE
    if has_pair or (owner is not None and who is not None and owner.peer == who.peer and owner.client_id == client_id):
        return Cause.OWN_REINIT
    return Cause.SUCCESSOR


def cause_of_refusal(
    txn: Txn | None, track: Track | None, pair: tuple[int, int], *, timed_out: bool
) -> tuple[Cause, Takeover | None]:
    """The cause for which `pair` is refused as out of date, and the takeover that raised the epoch over it, if
    known."""
    takeovers = () if track is None else track.takeovers
    raised = next((each for each in takeovers if (each.producer_id, each.producer_epoch) > pair), None)
    if timed_out or (txn is not None and pair == txn.timed_out):
        by_time = next((each for each in reversed(takeovers) if each.cause is Cause.TIMEOUT), None)
        return Cause.TIMEOUT, by_time or raised
    if track is not None and (txn is None or (raised is None and txn.producer_id != pair[0])):
        last = next(
            (each for each in reversed(track.notable) if each.kind in (EventKind.EXPIRED, EventKind.HEALED)), None
        )
        if last is not None:
            return (Cause.EXPIRED if last.kind is EventKind.EXPIRED else Cause.HEALED), None
    if txn is None:
        return Cause.UNKNOWN_ID, None
    if raised is not None:
        return raised.cause, raised
    by_operator = None if track is None else _ended_by_operator(track, pair)
    if by_operator is not None:
        return Cause.OPERATOR, by_operator
    if pair[0] != NO_PRODUCER_ID and pair[0] == txn.previous_producer_id:
        return Cause.EXHAUSTED, None
    if pair[0] != txn.producer_id:
        return Cause.UNKNOWN_ID, None
    return (Cause.RESTART if track is None or track.owner is None else Cause.OWN_END), None


def _ended_by_operator(track: Track, pair: tuple[int, int]) -> Takeover | None:
    """The markers that an operator has written for the transaction of a pair, as what raised its epoch."""
    for each in reversed(track.notable):
        if each.kind is EventKind.OPERATOR and each.producer_id == pair[0] and each.producer_epoch >= pair[1]:
            return Takeover(each.at_ms, each.producer_id, each.producer_epoch, Cause.OPERATOR, each.who, each.at_ms)
    return None
