"""The names of timers in words of the broker's users, and what is due next."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from eosin.coordinator.groups.rules.events import TimerKind, TimerName
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.lab.clock.lab_clock import LabClock
from eosin.lab.clock.timeline import LabTimer
from eosin.lab.clock.values import Due

TRANSACTION_TIMEOUT: Final = "the timeout"
_WORDS: Final = {
    "Deadlines._wake": "the timeout of a transaction",
    "Deadlines._arm": "a look at the timeouts of transactions",
    "MemberTimers._check": "a look at the sessions of members of consumer groups",
    "RepeatedWork._round": "the expiry of transactional ids",
    "GroupCoordinator._expire": "the expiry of committed offsets",
    "TransactionCoordinator._deadline_passed": "the timeout of a transaction",
}
_MEMBERS: Final = {
    TimerKind.SESSION: "the session of member {} of group",
    TimerKind.PENDING: "the time to join for member {} of group",
    TimerKind.SYNC: "the time to sync for members of group",
}
_GROUPS: Final = "the time to join in the rebalance of group"


def words_of(name: str) -> str:
    """The work behind a timer's name, in words."""
    return _WORDS.get(name, name)


def upcoming(clock: LabClock, transactions: Iterable[Txn], count: int) -> list[Due]:
    """The next `count` things that time brings, by their time."""
    found = [
        Due(TRANSACTION_TIMEOUT, txn.transactional_id, txn.start_ms + txn.timeout_ms)
        for txn in transactions
        if txn.state is TransactionState.ONGOING and not txn.never_times_out
    ]
    for timer in clock.line.pending():
        if not timer.name.startswith("Deadlines."):
            found.append(Due(words_of(timer.name), "", clock.to_day_ms(timer.due_ms)))
    session_now_ms, now_ms = clock.session_line.now_ms, clock.now_ms()
    for timer in clock.session_line.pending():
        what, group_id = _member_of(timer)
        found.append(Due(what, group_id, int(now_ms + timer.due_ms - session_now_ms)))
    return sorted(found, key=lambda each: each.at_ms)[:count]


def _member_of(timer: LabTimer) -> tuple[str, str]:
    """The words for a timer of a group, and the group."""
    arguments = timer.callback.args if isinstance(timer.callback, partial) else ()
    match arguments:
        case ((str() as group_id, TimerName(kind, member_id)), *_):
            return _MEMBERS.get(kind, _GROUPS).format(member_id), group_id
    return words_of(timer.name), ""
