"""The actions of a person about what a sentence says: a clause or two, with the command to type (console.md
3). Pure."""

from collections.abc import Mapping
from typing import Final

from eosin.observe.explain.facts import TransactionFacts
from eosin.observe.recorder.events import Cause, EventKind, Notable, TransactionHistory
from eosin.observe.recorder.wording import typed
from eosin.protocol.errors import ErrorCode

DISK_FULL: Final = "no space left"
"""Begins the reason of a Produce that was refused for want of space."""

_RESTART: Final = "Restart the producer with the same transactional.id"
_FENCED: Final[Mapping[str, str]] = {
    Cause.SUCCESSOR: "The fenced instance cannot go on: stop it, or give it a transactional.id of its own if both shall"
    " run.",
    Cause.OWN_REINIT: f"{_RESTART}: what the old epoch had open is aborted, so send it again.",
    Cause.OWN_END: f"It goes on with its present epoch; if the application stopped at this error: {_RESTART.lower()}.",
    Cause.OPERATOR: f"{_RESTART}; what was open is aborted, so it sends that again.",
    Cause.ADMIN_FENCE: f"{_RESTART}, unless it was fenced for good; what was open is aborted, so it sends that again.",
    Cause.HEALED: f"{_RESTART}; what hung is aborted, so it sends that again.",
    Cause.EXHAUSTED: f"{_RESTART}: it gets the new producer id.",
    Cause.EXPIRED: f"{_RESTART}: it is introduced anew. A longer transactional.id.expiration.ms keeps idle ids.",
    Cause.UNKNOWN_ID: f"{_RESTART}: it gets a producer id of its own.",
    Cause.RESTART: f"{_RESTART}: it gets a new epoch.",
}
_TIMED_OUT: Final[Mapping[str, str]] = {
    "disk_full": "Make room on the broker's disk (retention.bytes, `eosin topics delete`); if the producer has stopped,"
    " restart it then with the same transactional.id. More time would not have helped.",
    "broker_down": "If the producer has stopped: restart it with the same transactional.id; it sends again what was"
    " aborted. More time would have helped only beyond the time the broker was down.",
    "client_gone": f"{_RESTART}: it begins after its last commit. More time would not have helped.",
    "": "The producer may abort and go on, or is restarted with the same transactional.id; a longer"
    " transaction.timeout.ms gives it more time.",
}


def remedy(notable: Notable, circumstance: str) -> str:
    """The action after a fence or after the end of a transaction; `circumstance` is what kept it from its end in
    time."""
    if notable.kind is EventKind.TIMEOUT or notable.cause == Cause.TIMEOUT:
        return _TIMED_OUT[circumstance]
    if notable.kind is EventKind.OPERATOR:
        return _FENCED[Cause.OPERATOR]
    if notable.kind is EventKind.HEALED:
        return _FENCED[Cause.HEALED]
    if notable.kind is EventKind.EXPIRED:
        return _FENCED[Cause.EXPIRED]
    return _FENCED.get(notable.cause, "")


def force_terminate(facts: TransactionFacts) -> str:
    """The command that ends an open transaction, and what is lost by it, as a clause."""
    command = f"`eosin transactions force-terminate {typed(facts.transactional_id)}`"
    return f"{command} aborts it now, what it has written is lost"


def disk_full_of(history: TransactionHistory, since_ms: int, until_ms: int) -> Notable | None:
    """The refusals for want of space between two times; None if there were none."""
    return next(
        (
            each
            for each in reversed(history.notable)
            if each.kind is EventKind.REFUSED
            and each.error == ErrorCode.KAFKA_STORAGE_ERROR.name
            and each.what.startswith(DISK_FULL)
            and since_ms <= each.latest_ms
            and each.at_ms <= until_ms
        ),
        None,
    )
