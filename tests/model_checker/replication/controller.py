"""The controller, as small as it can be: registrations, elections, the ISR and the ELR, by the rules of Apache Kafka's
(cluster.md 2.4, 2.7, 4.11, 4.12). It is no code of ours: it is what ours must be right beside."""

from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.protocol.errors import ErrorCode
from model_checker.replication.values import NO_LEADER, Bounds, Change, Controller, Registered


def registered(state: Controller, node: int, bounds: Bounds, *, clean: bool) -> Controller:
    """A new incarnation. The broker leaves what its old one was in first. `clean`: nothing of it is lost."""
    state = fenced(state, node, bounds) if clean else _left(_fence(state, node), node, bounds, keeps_elr=False)
    epoch = state.newest_epoch + 1
    return _with_broker(state, node, Registered(epoch, fenced=True))._replace(newest_epoch=epoch)


def fenced(state: Controller, node: int, bounds: Bounds) -> Controller:
    """A session has ended."""
    return _left(_fence(state, node), node, bounds, keeps_elr=True)


def unfenced(state: Controller, node: int) -> Controller:
    """A broker is ready; a partition without a leader may have one now."""
    state = _with_broker(state, node, state.brokers[node]._replace(fenced=False))
    if state.leader != NO_LEADER:
        return state
    leader = _candidate(state, state.isr)
    return state if leader == NO_LEADER else _elected(state, leader, state.isr, state.elr)


def moved(state: Controller, node: int) -> Controller:
    """Another replica in sync leads from now on, or the same one in a new leader epoch."""
    return _elected(state, node, state.isr, state.elr)


def may_lead(state: Controller, node: int) -> bool:
    """Whether an election may choose it."""
    return node in state.isr and not state.brokers[node].fenced


def altered(state: Controller, asked: Change, bounds: Bounds) -> tuple[Controller, IsrChangeResult]:
    """AlterPartition."""
    change = asked.change
    if state.brokers[asked.leader].epoch != asked.incarnation:
        return state, IsrChangeResult(ErrorCode.STALE_BROKER_EPOCH)
    if state.leader != asked.leader or state.leader_epoch != change.leader_epoch:
        return state, IsrChangeResult(ErrorCode.FENCED_LEADER_EPOCH)
    if state.partition_epoch != change.partition_epoch:
        return state, IsrChangeResult(ErrorCode.INVALID_UPDATE_VERSION)
    for node, told_epoch in change.isr:
        broker = state.brokers[node]
        if broker.fenced or told_epoch not in (-1, broker.epoch):
            return state, IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)
    isr = tuple(sorted(change.node_ids))
    state = state._replace(
        isr=isr, elr=_elr(state, isr, bounds, keeps=True, gone=-1), partition_epoch=state.partition_epoch + 1
    )
    return state, IsrChangeResult(ErrorCode.NONE, state.leader_epoch, state.partition_epoch, isr)


def _left(state: Controller, node: int, bounds: Bounds, *, keeps_elr: bool) -> Controller:
    """A broker leaves leaderships and the ISR; without ELR its last member stays, as the only one that may lead."""
    isr = tuple(each for each in state.isr if each != node)
    if not isr and not bounds.elr:
        isr = state.isr
    elr = _elr(state, isr, bounds, keeps=keeps_elr, gone=node)
    if state.leader == node:
        return _elected(state, _candidate(state._replace(elr=elr), tuple(set(isr) - {node})), isr, elr)
    if (isr, elr) == (state.isr, state.elr):
        return state
    return state._replace(isr=isr, elr=elr, partition_epoch=state.partition_epoch + 1)


def _elr(state: Controller, isr: tuple[int, ...], bounds: Bounds, *, keeps: bool, gone: int) -> tuple[int, ...]:
    """Who may lead beside the ISR: all that left it while it was large enough, until it is again (KIP-966)."""
    if not bounds.elr or len(isr) >= min(bounds.min_in_sync, len(state.replicas)):
        return ()
    eligible = (set(state.elr) | set(state.isr)) - set(isr)
    return tuple(sorted(eligible if keeps else eligible - {gone}))


def _candidate(state: Controller, isr: tuple[int, ...]) -> int:
    for node in (*sorted(isr), *state.elr):
        if not state.brokers[node].fenced:
            return node
    return NO_LEADER


def _elected(state: Controller, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> Controller:
    if leader != NO_LEADER and leader not in isr:
        isr, elr = (leader,), tuple(each for each in elr if each != leader)
    return state._replace(
        leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1, isr=isr, elr=elr
    )


def _fence(state: Controller, node: int) -> Controller:
    return _with_broker(state, node, state.brokers[node]._replace(fenced=True))


def _with_broker(state: Controller, node: int, broker: Registered) -> Controller:
    return state._replace(brokers=(*state.brokers[:node], broker, *state.brokers[node + 1 :]))
