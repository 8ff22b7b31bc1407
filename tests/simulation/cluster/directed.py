"""Faults that bring a cluster into one state and strike there: what others meet by chance, and seldom. Each has runs of
its own (`ONLY`)."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from quorum_log import HOST

from eosin.coordinator.transactions.log.loader import StateReplay
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.names import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.scan import sound_batches
from simulation.cluster.controllers import Controllers
from simulation.cluster.fabric import Fabric
from simulation.cluster.machines import ClusterMachine

UNSEEN_LAG: Final = "unseen lag"
CUT_DECISION: Final = "cut decision"
DEPOSED: Final = "deposed unheard"
JUMP_BESIDE_LAG: Final = "jump beside lag"
PAUSE_AT_REST: Final = "pause at rest"
TO_AND_FRO: Final = "coordinators to and fro"
DIRECTED: Final = frozenset({UNSEEN_LAG, CUT_DECISION, DEPOSED, JUMP_BESIDE_LAG, PAUSE_AT_REST, TO_AND_FRO})
"""Unseen lag: a follower is cut off from a leader while no controller decides, and leads as soon as one does. Cut
decision: a transaction is decided in a log that only the second coordinator has, and the third ends it without. Deposed
unheard: a coordinator remembers a transaction that is over, the next one is begun at its successor and ended at itself.
Jump beside lag: a leader's clock is set again and again while a follower is a little behind. Pause at rest: a leader
whose followers have everything stands still for longer than its session. Coordinators to and fro: the internal topics
go from one broker to another and back, many times."""

LAGS_S: Final = 1.2
"""Longer than `replica.lag.time.max.ms`, and a half of it."""
ACKNOWLEDGED_S: Final = 0.4
"""Time in which clients go on where they should not."""
STANDS_STILL_S: Final = 1.0
"""Longer than the session timeout."""
SOON_S: Final = 0.5
"""What is waited for comes within this, or does not come."""
DECIDED_S: Final = 5.0
"""The same for a decision that is on its way."""
ACTS_S: Final = 0.1
"""Time for a coordinator to write markers."""
UNANSWERED_S: Final = 0.12
"""A fetch of metadata that is under way is answered within this."""
BEGUN_SOON_S: Final = 4.0
"""Time for a client to find the successor, and to begin a transaction there."""
COMES_BACK_S: Final = 12.0
"""Time for it to find nobody but the one that is deposed, and for the third coordinator to give the transaction up."""
BEHIND_MS: Final = 150.0
JUMPS: Final = 6
JUMP_MS: Final = 2000
JUMP_EACH_S: Final = 0.3
"""Half of `replica.lag.time.max.ms`: as often a leader looks."""
LOOK_S: Final = 0.0005
_Found = TypeVar("_Found")


class Directed:
    """Carries such faults out."""

    def __init__(
        self,
        machines: Sequence[ClusterMachine],
        controllers: Controllers,
        fabric: Fabric,
        *,
        chance: random.Random,
        link_ms: float,
    ) -> None:
        self._machines = machines
        self._controllers = controllers
        self._fabric = fabric
        self._chance = chance
        self._link_ms = link_ms

    async def strike(self, kind: str, seconds: float) -> None:
        """Do what one of `DIRECTED` says."""
        match kind:
            case "unseen lag":
                await self._lag_unseen()
            case "cut decision":
                await self._cut_a_decision()
            case "deposed unheard":
                await self._depose_unheard()
            case "jump beside lag":
                await self._jump_beside_lag()
            case "pause at rest":
                await self._pause_at_rest(seconds)
            case "coordinators to and fro":
                await self._to_and_fro()

    # Each ---------------------------------------------------------------------------------------------------------

    async def _lag_unseen(self) -> None:
        leader = self._one_that_leads(lambda topic: topic not in INTERNAL_TOPICS)
        lagging = self._another(leader)
        self._cut(leader, lagging)
        self._controllers.is_out = True
        await asyncio.sleep(LAGS_S + ACKNOWLEDGED_S)
        self._controllers.fail_over()
        self._lead_from(lagging, lambda topic: topic not in INTERNAL_TOPICS)
        await asyncio.sleep(ACKNOWLEDGED_S)
        self._heal(leader, lagging)

    async def _cut_a_decision(self) -> None:
        """The second coordinator reaches some of the transaction's partitions, and not those of the first; the third
        hears of the second when it is elected itself. No client tells it what was decided."""
        third = self._chance.choice(self._machines)
        others = [each for each in self._machines if each is not third]
        self._controllers.starved.add(third.node_id)
        await asyncio.sleep(UNANSWERED_S)
        found = await _soon(lambda: [each for each in others if self._decided(each, third)], DECIDED_S)
        first = self._chance.choice(found or others)
        (second,) = (each for each in others if each is not first)
        txn = self._decided(first, third)
        self._cut(first, third)
        if txn is not None and await _soon(lambda: self._decided(first, third, second), ACTS_S):
            self._cut(first, second)
            for machine in self._machines:
                machine.gate.is_shut = True
            self._lead_from(second, INTERNAL_TOPICS.__contains__)
            await asyncio.sleep(ACTS_S + 4 * self._link_ms / 1000)
            self._lead_from(third, INTERNAL_TOPICS.__contains__)
            self._controllers.feed(third.node_id)
            await asyncio.sleep(ACTS_S)
            self._heal(first, second)
            self._heal(first, third)
            await asyncio.sleep(txn.timeout_ms / 1000 + 2 * ACKNOWLEDGED_S)
            for machine in self._machines:
                machine.gate.open()
        else:
            self._controllers.feed(third.node_id)
            self._heal(first, third)

    async def _depose_unheard(self) -> None:
        """Clients speak the first protocol, whose epochs stay: nothing else tells the two transactions apart."""
        first = self._one_that_leads(TRANSACTION_STATE_TOPIC.__eq__)
        second, third = self._chance.sample([each for each in self._machines if each is not first], 2)
        found = await _soon(lambda: _over(first), SOON_S)
        if found is None:
            return
        first.gate.is_shut = True
        ways = [self._fabric.route(*pair) for pair in ((HOST, first.host), (first.host, HOST))]
        for way in ways:
            way.is_cut = True
        self._lead_from(second, INTERNAL_TOPICS.__contains__)
        if await _soon(lambda: self._ended_at(second, third, found), BEGUN_SOON_S):
            self._cut(second, third)
            self._lead_from(third, INTERNAL_TOPICS.__contains__)
            first.gate.lose()
            for machine in self._machines:
                machine.gate.is_shut = machine is not first
            await asyncio.sleep(COMES_BACK_S)
            self._heal(second, third)
        for machine in self._machines:
            machine.gate.open()
        for way in ways:
            way.heal(at_once=True)

    async def _jump_beside_lag(self) -> None:
        leader = self._one_that_leads(lambda topic: topic not in INTERNAL_TOPICS)
        route = self._fabric.route(leader.host, self._another(leader).host)
        route.delay_ms = BEHIND_MS
        await asyncio.sleep(JUMP_EACH_S)
        for _ in range(JUMPS):
            leader.clock.ahead_ms += JUMP_MS
            await asyncio.sleep(JUMP_EACH_S * (0.7 + 0.6 * self._chance.random()))
        route.delay_ms = self._link_ms

    async def _pause_at_rest(self, seconds: float) -> None:
        found = await _soon(lambda: [each for each in self._machines if _rests(each)], SOON_S)
        leader = self._chance.choice(found or list(self._machines))
        if leader.process is not None:
            leader.process.paused_until = leader.process.time() + STANDS_STILL_S + seconds
        await asyncio.sleep(STANDS_STILL_S + seconds)

    async def _to_and_fro(self) -> None:
        one, other = self._chance.sample(list(self._machines), 2)
        for _ in range(4 + self._chance.randrange(8)):
            self._lead_from(one, INTERNAL_TOPICS.__contains__)
            await asyncio.sleep(self._chance.choice((0.005, 0.05, 0.3)) * (0.5 + self._chance.random()))
            one, other = other, one

    # Steps --------------------------------------------------------------------------------------------------------

    def _decided(self, first: ClusterMachine, third: ClusterMachine, *others: ClusterMachine) -> Txn | None:
        """A transaction that the first coordinator, whose log the others have whole, has decided to commit, what the
        third has not heard of, and that lies in partitions that the first leads, and in others."""
        here = set(self._led_by(first, lambda topic: topic not in INTERNAL_TOPICS))
        for partition in self._led_by(first, TRANSACTION_STATE_TOPIC.__eq__):
            for txn in _not_replicated(partition, third, first, *others):
                is_decided = txn.state is TransactionState.PREPARE_COMMIT
                if is_decided and txn.partitions & here and txn.partitions - here:
                    return txn
        return None

    def _ended_at(self, second: ClusterMachine, third: ClusterMachine, ids: frozenset[str]) -> bool:
        """True if the second coordinator has decided to commit what one of the ids has begun since, and the third has
        not heard of it."""
        return any(
            txn.state is TransactionState.PREPARE_COMMIT and txn.transactional_id in ids
            for partition in self._led_by(second, TRANSACTION_STATE_TOPIC.__eq__)
            for txn in _not_replicated(partition, third, second)
        )

    def _one_that_leads(self, topics: Callable[[str], bool]) -> ClusterMachine:
        leading = [each for each in self._machines if self._led_by(each, topics)]
        return self._chance.choice(leading or list(self._machines))

    def _another(self, machine: ClusterMachine) -> ClusterMachine:
        return self._chance.choice([each for each in self._machines if each is not machine])

    def _led_by(self, machine: ClusterMachine, topics: Callable[[str], bool]) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, index)
            for topic in self._controllers.model.image.topics.values()
            if topics(topic.name)
            for index, partition in topic.partitions.items()
            if partition.leader == machine.node_id
        ]

    def _lead_from(self, leader: ClusterMachine, topics: Callable[[str], bool]) -> None:
        self._controllers.move_leaders(
            lambda members: leader.node_id if leader.node_id in members else self._chance.choice(members),
            topics=topics,
        )

    def _cut(self, one: ClusterMachine, other: ClusterMachine) -> None:
        for way in ((one.host, other.host), (other.host, one.host)):
            self._fabric.route(*way).is_cut = True

    def _heal(self, one: ClusterMachine, other: ClusterMachine) -> None:
        for way in ((one.host, other.host), (other.host, one.host)):
            self._fabric.route(*way).heal(at_once=True)


async def _soon(look: Callable[[], _Found | None], within_s: float) -> _Found | None:
    for _ in range(int(within_s / LOOK_S)):
        found = look()
        if found:
            return found
        await asyncio.sleep(LOOK_S)
    return None


def _not_replicated(partition: TopicPartition, lacking: ClusterMachine, *having: ClusterMachine) -> Iterable[Txn]:
    """The transactions whose records are in all of the logs, and not in the one that is lacking them."""
    logs = [None if each.logs is None else each.logs.logs.get(partition) for each in (lacking, *having)]
    theirs, ours, *others = logs
    if theirs is None or ours is None or theirs.log_end_offset >= ours.log_end_offset:
        return ()
    if any(each is None or each.log_end_offset != ours.log_end_offset for each in others):
        return ()
    replayed = StateReplay()
    for run in ours.runs(theirs.log_end_offset):
        for head in sound_batches(run):
            replayed.apply(run, head)
    return replayed.txns().values()


def _over(machine: ClusterMachine) -> frozenset[str]:
    """The ids of transactions that a coordinator knows to be committed, and after which it has heard of nothing."""
    entries = {} if machine.server is None else machine.server.services.transactions._entries
    return frozenset(
        key
        for key, entry in entries.items()
        if entry.txn.state is TransactionState.COMPLETE_COMMIT and entry.request is None and not entry.waiting
    )


def _rests(machine: ClusterMachine) -> bool:
    """True if it leads something, and all that its followers have of that rests (cluster.md 4.9)."""
    leading = None if machine.server is None else machine.server.services.led_partitions
    known = [] if leading is None else [each for led in leading._led.values() for each in led.known.values()]
    return bool(known) and all(each._place is not None for each in known)
