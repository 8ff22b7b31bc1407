"""The names of timers in words of the broker's users, and what is due next."""

from collections.abc import Iterable, Iterator
from typing import Final

from eosin.coordinator.groups.consumer.member_timers import MemberTimers
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.rules.events import TimerKind
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.lab.clock.lab_clock import LabClock
from eosin.lab.clock.timeline import LabTimer
from eosin.lab.clock.values import Due

TRANSACTION_TIMEOUT: Final = "the timeout"
_WORDS: Final = {
    "Deadlines._wake": "the timeout of a transaction",
    "Deadlines._arm": "a look at the timeouts of transactions",
    "MemberTimers._check": "a look at the sessions of members of groups",
    "RepeatedWork._round": "the expiry of transactional ids",
    "GroupCoordinator._expire": "the expiry of committed offsets",
    "TransactionCoordinator._deadline_passed": "the timeout of a transaction",
}
_OF_GROUPS: Final = {
    TimerKind.SESSION: "the session",
    TimerKind.PENDING: "the time to join",
    TimerKind.JOIN: "the time to join in the rebalance",
    TimerKind.SYNC: "the time to sync",
    ConsumerTimerKind.SESSION: "the session",
    ConsumerTimerKind.REBALANCE: "the time to give up what another one is to have",
    ConsumerTimerKind.JOIN: "the time to join",
    ConsumerTimerKind.SYNC: "the time to sync",
}


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
        for what, group_id, due_ms in _of_groups(timer):
            found.append(Due(what, group_id, int(now_ms + due_ms - session_now_ms)))
    return sorted(found, key=lambda each: each.at_ms)[:count]


def _of_groups(timer: LabTimer) -> Iterator[tuple[str, str, float]]:
    """The words for what a timer stands for, the group that it is of, and when it is due."""
    timers = getattr(timer.callback, "__self__", None)
    if not isinstance(timers, MemberTimers):
        yield words_of(timer.name), "", timer.due_ms
        return
    for key, due_ms in timers.running():
        whose = f"member {key.member_id} of group" if key.member_id else "group"
        yield f"{_OF_GROUPS[key.kind]} of {whose}", key.group_id, due_ms
