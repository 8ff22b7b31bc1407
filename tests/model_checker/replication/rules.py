"""What must be true of every state, and how it is said that it is not."""

from typing import Final

from model_checker.replication.values import NO_LEADER, Bounds, Record, Replica, State
from model_checker.violation import Violation

COMMITTED: Final = "what is committed is never lost"
EQUAL: Final = "logs are equal below their high watermarks"
DURABLE: Final = "a leader's high watermark does not pass its durable end"
JUSTIFIED: Final = "what is committed is durable on every replica in sync"
ONE_LEADER: Final = "a leader epoch has one leader"
COMES_TO_REST: Final = "in the end every replica has everything, and it is committed"

RULES: Final = {
    COMMITTED: "whoever leads in the newest leader epoch has all that any leader ever called committed, at its offsets",
    EQUAL: "two logs hold the same records up to the lower of their high watermarks",
    DURABLE: "the leader counts itself by what it would still have after a crash",
    JUSTIFIED: "when a leader calls a record committed, all replicas that may be elected have it, durably, and at least"
    " as many as min.insync.replicas asks for",
    ONE_LEADER: "no two brokers lead in the same leader epoch, and none twice with a stop in between",
    COMES_TO_REST: "from every state, without new faults, all replicas come to be in sync, equal and fully committed",
}


def committed_now(state: State, replica: Replica, high_watermark: int, bounds: Bounds) -> tuple[Record, ...]:
    """A leader moves its high watermark up: everything committed so far, with that. Raises Violation."""
    prefix = replica.log[:high_watermark]
    shorter = min(len(prefix), len(state.committed))
    if prefix[:shorter] != state.committed[:shorter]:
        raise Violation(COMMITTED, f"{prefix} is called committed, and {state.committed} was")
    if high_watermark > replica.durable_end:
        raise Violation(DURABLE, f"{high_watermark} is called committed, and durable is {replica.durable_end}")
    _check_copies(state, replica, prefix, bounds)
    return max(prefix, state.committed, key=len)


def _check_copies(state: State, replica: Replica, prefix: tuple[Record, ...], bounds: Bounds) -> None:
    """Whether enough replicas have `prefix` durably. A leader that another one has replaced may not know it yet: the
    replicas in sync are not its own any more."""
    have = {
        node for node, each in enumerate(state.replicas) if each.log[: min(len(prefix), each.durable_end)] == prefix
    }
    controller = state.controller
    enough = min(bounds.min_in_sync, len(controller.replicas))
    is_newest = replica.led is not None and replica.led.leader_epoch == controller.leader_epoch
    if is_newest and not have.issuperset((*controller.isr, *controller.elr)):
        raise Violation(
            JUSTIFIED, f"{prefix} is called committed; {sorted(have)} have it, in sync are {controller.isr}"
        )
    if not bounds.losses and len(have) < enough:
        raise Violation(JUSTIFIED, f"{prefix} is called committed; {sorted(have)} have it, at least {enough} must")


def check(state: State) -> None:
    """Raises Violation when the state breaks a rule."""
    leaders: dict[int, int] = {}
    for node, replica in enumerate(state.replicas):
        if replica.led is None:
            continue
        epoch = replica.led.leader_epoch
        if epoch in leaders:
            raise Violation(ONE_LEADER, f"brokers {leaders[epoch]} and {node} lead in epoch {epoch}")
        leaders[epoch] = node
        if replica.high_watermark > replica.durable_end:
            what = f"broker {node} leads with high watermark {replica.high_watermark}, durable is {replica.durable_end}"
            raise Violation(DURABLE, what)
    newest = state.controller.leader_epoch
    if newest in leaders:
        log = state.replicas[leaders[newest]].log
        if log[: len(state.committed)] != state.committed:
            raise Violation(COMMITTED, f"leader {leaders[newest]} of epoch {newest} has {log}, not {state.committed}")
    for first in range(len(state.replicas)):
        for second in range(first):
            _check_equal(first, second, state)


def _check_equal(first: int, second: int, state: State) -> None:
    one, other = state.replicas[first], state.replicas[second]
    both = min(one.high_watermark, other.high_watermark)
    if one.log[:both] != other.log[:both]:
        raise Violation(EQUAL, f"below {both} broker {first} has {one.log[:both]}, broker {second} {other.log[:both]}")


def unfinished(state: State) -> Violation | None:
    """What is wrong with a state in which nothing more happens by itself."""
    controller = state.controller
    if controller.leader == NO_LEADER:
        # All copies that are known to be whole are gone with a disk: no program can help.
        return None if not any((*controller.isr, *controller.elr)) else _not_at_rest("nobody leads")
    leader = state.replicas[controller.leader]
    if leader.high_watermark != len(leader.log):
        return _not_at_rest(f"the leader has {leader.log}, committed are {leader.high_watermark}")
    for node, replica in enumerate(state.replicas):
        if replica.log != leader.log:
            return _not_at_rest(f"broker {node} has {replica.log}, the leader {leader.log}")
        if replica.high_watermark != len(leader.log):
            return _not_at_rest(f"broker {node} has high watermark {replica.high_watermark}")
    if controller.isr != controller.replicas:
        return _not_at_rest(f"in sync are only {controller.isr}")
    return None


def _not_at_rest(what: str) -> Violation:
    return Violation(COMES_TO_REST, what)
