"""One run of a cluster: a seed's plan carried out to its end, with the judges of clients and of replicas."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from quorum_log import HOST

from eosin.protocol.names import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.settings.broker import BrokerConfig
from eosin.settings.quorum import RACK_AWARE
from simulation.broker import config_of
from simulation.clock import SimulatedClock
from simulation.cluster.controllers import CLUSTER_ID, CONTROLLERS, Controllers
from simulation.cluster.directed import DIRECTED, JUMP_BESIDE_LAG, Directed
from simulation.cluster.fabric import Fabric
from simulation.cluster.machines import PORT, ClusterMachine, host_of
from simulation.cluster.moments import Moments
from simulation.cluster.near_readers import NearReader, look_at_each
from simulation.cluster.plan import (
    ALONE,
    BROKERS,
    CUT_DELETION,
    MAKES_STALE,
    NEEDS_SYNCS,
    RACKS,
    TARDY_DEADLINE_S,
    TARDY_OVERSLEEPS,
    ClusterPlan,
)
from simulation.cluster.replicas import Replicas
from simulation.cluster.share_log import states_judged
from simulation.cluster.share_plan import share_settings
from simulation.cluster.shares import Shares
from simulation.cluster.world import ClusterWorld
from simulation.course import Course
from simulation.history import FinalState, History
from simulation.machine import LISTENER, Machine, Pace
from simulation.operator import Operator
from simulation.plan import FaultPlan
from simulation.run import FOLDERS

SESSION_TIMEOUT_MS = 500
CHECK_S = 0.02
"""How often the judge of replicas looks."""
LOOK_AFTER_S = 0.3
"""Somebody looks after the machines: a broker that has ended is started again after this."""
LATE_NEWS_MS = (50.0, 300.0)
"""How late a broker may hear of elections in turn; the session timeout is longer."""
LONGEST_TURNS_MS = 800.0
"""Elections in turn take so long at most that nobody need leave the ISR meanwhile."""
DISK_BYTES = 1 << 20
"""The size of a disk that is full."""
FULL_DISK_FENCE_MS = 300
"""After this a broker whose disk is full lets others lead."""
SUCCEEDED_S = 1.6
"""So long after its disk was full nobody leads: a broker looks at its disk twice a second."""
UNHURT_S = 5.0
"""A fault that needs every replica in sync waits for that no longer than this."""
CALM_S = 60.0
"""When faults are over, all replicas are in sync within this."""


class ClusterRun(Course):
    """A world with several machines."""

    max_steps = 4_000_000
    deadline_s = 120.0

    def __init__(self, plan: ClusterPlan, *, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(plan.clients, trace=trace)
        self.cluster = plan
        seed = f"{plan.clients.seed}/cluster"
        self.fabric = Fabric(self.scheduler, seed, delay_ms=plan.link_ms)
        self.controllers = Controllers.on(
            self.fabric,
            self.scheduler,
            seed,
            features=plan.features,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        self._machines = tuple(self._machine(node_id, seed) for node_id in BROKERS)
        self.world = ClusterWorld(
            machines=self._machines,
            network=self.network,
            history=self.history,
            seed=seed,
            clock=SimulatedClock(self.scheduler),
        )
        self.world.trace = self._trace
        if plan.is_tardy:
            self.world.oversleeps = TARDY_OVERSLEEPS
            self.deadline_s = TARDY_DEADLINE_S
        self.replicas = Replicas(self._machines, lambda: self.controllers.model.image)
        self._moments = Moments(self._machines, self.history, link_ms=plan.link_ms)
        self._directed = Directed(
            self._machines, self.controllers, self.fabric, chance=self._chance, link_ms=plan.link_ms
        )
        self._shares = Shares(
            self.world,
            self._machines,
            plan.shares,
            image=lambda: self.controllers.model.image,
            decide=self.controllers.write,
            min_isr=plan.min_isr,
        )
        kinds = self._kinds = {fault.kind for fault in plan.clients.faults}
        self._only_clocks_jump = kinds in ({"jump"}, {JUMP_BESIDE_LAG})
        """Then nobody leaves an ISR: sessions and lag are measured on clocks that nobody sets (cluster.md 8)."""
        self._only_disks_fill = kinds == {"full disk"}
        """Then whoever has a full disk is succeeded (cluster.md 4.19)."""
        self._only_most_are_killed = kinds in ({"all but one"}, {"power all but one"})
        """Then nothing is committed where too few replicas are in sync: leaders hear of it at once."""
        self._topics: set[str] = set()
        """What the operator has."""
        self._after_stop: dict[int, str] = {}
        self._is_held_down: set[int] = set()
        """Machines that nobody is to start for the time being."""
        self._changed = asyncio.Event()

    @property
    def machines(self) -> Sequence[Machine]:
        return self._machines

    def _machine(self, node_id: int, seed: str) -> ClusterMachine:
        plan = self.plan
        machine = ClusterMachine(
            self.scheduler,
            self.fabric,
            node_id,
            config=joined(config_of(plan), self.cluster, node_id),
            seed=seed,
            pace=Pace(sync_ms=plan.sync_ms),
        )
        machine.disk.cold, machine.disk.cold_work_ms = plan.cold, plan.sync_ms
        machine.changed = lambda: self._machine_changed(machine)
        return machine

    # The course of things -------------------------------------------------------------------------------------------

    def carry_out(self) -> History:
        if not self.cluster.shares:
            return super().carry_out()
        with self._shares.watched():
            return super().carry_out()

    async def _begin(self) -> None:
        for machine in self._machines:
            machine.start()
        self._looking = asyncio.create_task(self._keep_looking())
        await self._until(lambda: all(machine.is_unfenced for machine in self._machines))
        await self._shares.set_up()

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._changed.clear()
            await self._changed.wait()

    async def _keep_looking(self) -> None:
        while True:
            self.history.faults += self.replicas.look()
            self.history.faults += self.replicas.gone(self._topics)
            if self._only_clocks_jump and not self._is_over:
                self.history.faults += self.replicas.shrunk()
            if self._only_most_are_killed and not self._is_over:
                self.history.faults += self.replicas.committed_by_too_few(self.scheduler.now)
            await asyncio.sleep(CHECK_S)

    def _operator(self) -> Operator:
        waits_ms = self.deadline_s * 1000 if CUT_DELETION in self._kinds else None
        made = Operator(self.world, self.plan, replicas=len(BROKERS), min_isr=self.cluster.min_isr, timeout_ms=waits_ms)
        self._topics = made.has
        return made

    def _clients(self) -> list["asyncio.Task[None]"]:
        clients = super()._clients()
        self._readers += self._shares.start(lambda: self._is_over)
        near = [NearReader(self.world, number, racks=RACKS) for number in range(self.cluster.near_readers)]
        self._readers += [asyncio.create_task(each.run(lambda: self._is_over)) for each in near]
        return clients

    async def _settle(self) -> None:
        self.world.there.stall = self.world.back.stall = 0.0
        await super()._settle()
        await self._calm()
        await self._shares.bring_to_the_end()

    async def _calm(self) -> None:
        """Until every replica is in sync, and has everything."""
        try:
            async with asyncio.timeout(CALM_S):
                while self._unrest():
                    await self._some_time()
        except TimeoutError:
            self.history.faults.append(f"replicas never come into sync: {self._unrest()}")
        self.history.faults += self.replicas.look()
        self.history.faults += self.replicas.equal()

    async def _some_time(self) -> None:
        await asyncio.sleep(0.1)

    def _unrest(self) -> list[str]:
        found = []
        for topic in self.controllers.model.image.topics.values():
            for index, partition in topic.partitions.items():
                is_moving = partition.adding or partition.removing
                if partition.leader < 0 or is_moving or len(partition.isr) < len(partition.replicas):
                    found.append(f"{topic.name}-{index} {partition.leader} {partition.isr}")
        ends: dict[object, set[tuple[int, int]]] = {}
        for machine in self._machines:
            if machine.logs is None or not machine.is_unfenced:
                found.append(f"broker {machine.node_id} is not up")
                continue
            for name, log in machine.logs.logs.items():
                ends.setdefault(name, set()).add((log.high_watermark, log.log_end_offset))
        found += [f"{name} {sorted(each)}" for name, each in ends.items() if len(each) > 1]
        found += [f"{name} {sorted(each)}" for name, each in ends.items() if any(one != other for one, other in each)]
        return found

    async def _look_elsewhere(self, final: FinalState) -> None:
        self.history.faults += await look_at_each(self.world, final)
        if final is self.history.final_again:
            await self._shares.bring_to_the_end()
            self.history.faults += states_judged(self.replicas)

    async def _crash_again(self) -> None:
        for machine in self._machines:
            machine.crash(power=self.plan.durability == "fsync")
        for machine in self._machines:
            machine.start()
        await self._until(lambda: all(machine.is_unfenced for machine in self._machines))
        await self._calm()

    def _end(self) -> None:
        self._is_over = True
        for machine in self._machines:
            self._is_held_down.add(machine.node_id)
            machine.crash()
        self.controllers.process.kill()
        self.fabric.process.kill()

    # Machines -------------------------------------------------------------------------------------------------------

    def _machine_changed(self, machine: ClusterMachine) -> None:
        state = "unfenced" if machine.is_unfenced and machine.server else "listens" if machine.server else "down"
        self._note(f"broker {machine.node_id}: {state}")
        self._changed.set()
        if machine.process is None:
            self.network.call_later(LOOK_AFTER_S, self._look_after, machine)

    def _look_after(self, machine: ClusterMachine) -> None:
        if machine.node_id not in self._is_held_down:
            self._start(machine)

    def _start(self, machine: ClusterMachine) -> None:
        if machine.process is not None:
            return
        if machine.disk.is_stopped:
            machine.crash(power=self._after_stop.pop(machine.node_id, "kill") == "power")
        if machine.start_error is not None:
            self._note(f"broker {machine.node_id} did not start: {machine.start_error}")
        machine.start()

    # Faults ---------------------------------------------------------------------------------------------------------

    async def _misfortune(self) -> None:
        """One after the other; in some cases the next one comes before the last is over."""
        going_on = []
        for fault in self.plan.faults:
            await self._until_moment(self.history.moments + fault.after)
            if fault.kind in ALONE:
                await asyncio.gather(*going_on)
            going_on.append(asyncio.create_task(self._strike(fault)))
            if fault.number % 3 or fault.kind in ALONE:
                await going_on[-1]
        await asyncio.gather(*going_on)
        await self._heal()

    async def _strike(self, fault: FaultPlan) -> None:
        self._note(f"fault: {fault}")
        self.faults.append(fault.kind)
        self.history.may_be_stale |= fault.kind in MAKES_STALE
        seconds = fault.lasts_ms / 1000
        victim = self._machines[fault.number % len(self._machines)]
        match fault.kind:
            case "kill" | "power":
                await self._crash([victim], fault)
            case "kill all" | "power all":
                await self._crash(self._machines, fault)
            case "all but one" | "power all but one":
                await self._crash([each for each in self._machines if each is not victim], fault)
            case "pause":
                if victim.process is not None:
                    victim.process.paused_until = self.scheduler.now + seconds
                await asyncio.sleep(seconds)
            case "failed sync" | "failed call":
                await self._fail(victim, fault)
            case "restart":
                victim.ask_to_stop()
                await asyncio.sleep(seconds)
            case "isolate":
                others = [HOST, *(each.host for each in self._machines if each is not victim)]
                await self._cut(
                    [pair for other in others for pair in ((victim.host, other), (other, victim.host))], seconds
                )
            case "cut one way":
                source, target = self._chance.sample([HOST, *(each.host for each in self._machines)], 2)
                await self._cut([(source, target)], seconds)
            case "cut from controllers":
                await self._cut([(victim.host, HOST), (HOST, victim.host)], seconds)
            case "long cut":
                one, other = await self._moments.markers_on_their_way() or self._two_of_them()
                await self._cut([(one, other), (other, one)], seconds)
            case "cut deletion":
                cut_off = await self._moments.deletion_on_its_way() or victim.host
                await self._cut([(cut_off, HOST), (HOST, cut_off)], seconds)
            case "cut marker":
                await self._elect_who_lacks_a_marker(seconds)
            case "cut between brokers":
                one, other = self._two_of_them()
                await self._cut([(one, other), (other, one)], seconds)
            case "slow link":
                one, other = self._chance.sample([HOST, *(each.host for each in self._machines)], 2)
                self.fabric.route(one, other).delay_ms = fault.number * 10.0
                await asyncio.sleep(seconds)
                self.fabric.route(one, other).delay_ms = self.cluster.link_ms
            case "slow disk":
                victim.pace.stalls.append((self.scheduler.now, self.scheduler.now + seconds))
            case "stop at call":
                victim.disk.stop_after(fault.number)
                is_power = self.plan.durability == "fsync" and fault.number % 2
                self._after_stop[victim.node_id] = "power" if is_power else "kill"
            case "election":
                self._elect_another()
            case "elections in turn":
                await self._elect_in_turn(victim, fault)
            case "coordinators in turn":
                await self._elect_coordinators_in_turn(fault)
            case "snapshot":
                await self._replace_the_log(victim, fault)
            case "jump":
                victim.clock.ahead_ms += fault.number * (50 if fault.number % 2 else -50)
                self.history.ages_differ = not self._only_clocks_jump
            case "empty disk":
                await self._empty_the_disk(victim, fault)
            case "reassignment":
                await self._reassign(fault)
            case "full disk":
                await self._fill_the_disk(victim, fault)
            case "clients cut off":
                victim.gate.is_shut = True
                await asyncio.sleep(seconds)
                victim.gate.open()
            case kind if kind in DIRECTED:
                await self._directed.strike(kind, seconds)
            case "controller":
                self.controllers.fail_over()
            case "no controller":
                self.controllers.is_out = True
                await asyncio.sleep(seconds)
                self.controllers.fail_over()
            case _:
                raise AssertionError(fault.kind)

    async def _crash(self, victims: Sequence[ClusterMachine], fault: FaultPlan) -> None:
        power = fault.kind in NEEDS_SYNCS
        if fault.number % 2:  # first, much is written and nothing synced, on all machines or on all but one
            spared = self._chance.choice((None, *self._machines))
            for machine in self._machines:
                if machine is not spared:
                    machine.pace.stalls.append((self.scheduler.now, self.scheduler.now + 10.0))
            await self._until_moment(self.history.moments + fault.number // 4)
            for machine in self._machines:
                machine.pace.stalls.clear()
        for victim in victims:
            self._is_held_down.add(victim.node_id)
            if victim.process is not None:
                victim.crash(power=power)
        await asyncio.sleep(fault.lasts_ms / 1000)
        for victim in victims:
            self._is_held_down.discard(victim.node_id)
            self._start(victim)

    async def _fail(self, victim: ClusterMachine, fault: FaultPlan) -> None:
        """The disk fails in some files, for a time; then somebody repairs it, and starts the broker again."""
        calls = ("append", "append", "create", "rename", "truncate", "sync_directory", "read")
        call = "sync" if fault.kind == "failed sync" else self._chance.choice(calls)
        victim.disk.break_calls(call, self._chance.choice([*FOLDERS, "__", ""]))
        await asyncio.sleep(fault.lasts_ms / 1000)
        victim.disk.faults.clear()
        if victim.process is not None:
            victim.crash(power=fault.number % 2 == 0)
            self._start(victim)

    async def _empty_the_disk(self, victim: ClusterMachine, fault: FaultPlan) -> None:
        """A machine comes back with an empty disk, which has a directory id of its own. When the broker is registered
        again it counts as a copy no more, and anything may happen to the others."""
        for machine in self._machines:
            machine.disk.stop_at = None
        known = self.controllers.model.image.brokers[victim.node_id].log_dirs
        try:
            async with asyncio.timeout(UNHURT_S):
                while not (self.replicas.are_in_sync() and all(each.is_unfenced for each in self._machines)):
                    await self._some_time()
        except TimeoutError:
            self._note("nothing is emptied: not every replica is in sync")
            return
        self._is_held_down.add(victim.node_id)
        victim.crash(power=self.plan.durability == "fsync" and fault.number % 2 == 0)
        victim.replace_disk()
        await asyncio.sleep(fault.lasts_ms / 1000)
        self._is_held_down.discard(victim.node_id)
        self._start(victim)
        while self.controllers.model.image.brokers[victim.node_id].log_dirs == known:
            await self._some_time()

    async def _reassign(self, fault: FaultPlan) -> None:
        """Some partitions lose one replica; then others are to have it instead, which copies from scratch; half-way
        some are cancelled. In the end all are to be everywhere again."""
        partitions = [each for each in self._partitions() if self._chance.random() < 0.7]
        for step in range(2 + fault.number % 2):
            wanted: dict[TopicPartition, tuple[int, ...] | None] = {}
            for partition in partitions:
                target = self._chance.sample(BROKERS, self._chance.choice((2, 2, 3)))
                wanted[partition] = None if step and self._chance.random() < 0.3 else tuple(target)
            self.controllers.reassign(wanted)
            await asyncio.sleep(min(fault.lasts_ms, LONGEST_TURNS_MS) / 3 / 1000 * self._chance.random())
        self._spread(partitions)

    def _spread(self, partitions: Sequence[TopicPartition]) -> None:
        """Every broker is to have a replica, and the first one to lead is another one."""
        self.controllers.reassign({each: tuple(self._chance.sample(BROKERS, len(BROKERS))) for each in partitions})

    def _partitions(self) -> list[TopicPartition]:
        topics = self.controllers.model.image.topics.values()
        return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]

    async def _fill_the_disk(self, victim: ClusterMachine, fault: FaultPlan) -> None:
        """A disk has room for little more, of a broker that leads everything, or nothing, or some; later there is room
        again."""
        others = [machine.node_id for machine in self._machines if machine is not victim]
        wanted = ((victim.node_id,), others, ())[fault.number % 3]
        if wanted:
            self.controllers.move_leaders(
                lambda members: next((each for each in members if each in wanted), self._chance.choice(members))
            )
        victim.disk.total, victim.disk.space = DISK_BYTES, fault.number * 20
        over, full_since = self.scheduler.now + fault.lasts_ms / 1000, self.scheduler.now
        while self.scheduler.now < over:
            await asyncio.sleep(min(0.1, over - self.scheduler.now))
            if victim.logs is None or not victim.logs.space.is_full:
                full_since = self.scheduler.now
            elif self._only_disks_fill and self.scheduler.now - full_since > SUCCEEDED_S:
                self.history.faults += self.replicas.led_by(victim.node_id)
                full_since = over
        victim.disk.space = None

    async def _cut(self, ways: Sequence[tuple[str, str]], seconds: float) -> None:
        for way in ways:
            self.fabric.route(*way).is_cut = True
        await asyncio.sleep(seconds)
        for way in ways:
            self.fabric.route(*way).heal()

    def _two_of_them(self) -> Sequence[str]:
        return self._chance.sample([each.host for each in self._machines], 2)

    async def _elect_who_lacks_a_marker(self, seconds: float) -> None:
        """A marker is on its way from a leader to a replica in sync, which does not get it, and leads: so only those
        who know that it is not committed yet write it again."""
        lacking = await self._moments.marker_not_replicated()
        if lacking is None:
            self._elect_another()
            return
        one, other = lacking.leader.host, lacking.follower.host
        self.fabric.route(one, other).is_cut = True
        self._lead_from(lacking.follower, topics=lacking.topic.__eq__)
        await self._cut([(one, other), (other, one)], seconds)

    def _elect_another(self) -> None:
        """Leaderships move about, though nobody is ill."""
        self.controllers.move_leaders(self._chance.choice)

    async def _elect_in_turn(self, held_back: ClusterMachine, fault: FaultPlan) -> None:
        """Everything is led by one broker, then by one that cannot hear of it, or of any, then by one as at first; each
        hears of it at another time. So a leader's last records are on some replicas in sync, and it comes and goes
        before the others know."""
        others = [machine for machine in self._machines if machine is not held_back]
        unheard = others if fault.number % 2 else [self._chance.choice(others)]
        ways = [pair for each in unheard for pair in ((each.host, held_back.host), (held_back.host, each.host))]
        for machine in self._machines:
            self.fabric.route(HOST, machine.host).delay_ms = self._chance.choice((self.cluster.link_ms, *LATE_NEWS_MS))
        step = min(fault.lasts_ms, LONGEST_TURNS_MS) / 4 / 1000
        for way in ways:
            self.fabric.route(*way).is_cut = True
        for leader in (self._chance.choice(unheard), held_back, self._chance.choice(unheard)):
            self._lead_from(leader)
            await asyncio.sleep(step * (0.5 + self._chance.random()))
        await asyncio.sleep(step)
        for way in ways:
            self.fabric.route(*way).heal(at_once=True)
        for machine in self._machines:
            self.fabric.route(HOST, machine.host).delay_ms = self.cluster.link_ms

    async def _elect_coordinators_in_turn(self, fault: FaultPlan) -> None:
        """A broker that coordinates transactions is succeeded by a second, and that one by a third, which was cut off
        from the first and hears of the second when that is over. So what the first decided last is in the log that the
        second loads, and not in that of the third; but what the second makes of it in topics that it leads is on all
        three."""
        image = self.controllers.model.image
        led = [each for each in self._partitions() if each.topic == TRANSACTION_STATE_TOPIC]
        leaders = {image.topics[each.topic].partitions[each.partition].leader for each in led}
        machines = list(self._machines)
        first = next((each for each in machines if each.node_id in leaders), machines[0])
        machines.remove(first)
        second, third = self._chance.sample(machines, 2)
        step = min(fault.lasts_ms, LONGEST_TURNS_MS) / 4 / 1000
        ways = [self.fabric.route(*pair) for pair in ((first.host, third.host), (third.host, first.host))]
        news = self.fabric.route(HOST, third.host)
        for way in ways:
            way.is_cut = True
        await asyncio.sleep(step * self._chance.random())
        news.delay_ms = max(LATE_NEWS_MS)
        for leader in (second, third):
            self._lead_from(leader, topics=INTERNAL_TOPICS.__contains__)
            await asyncio.sleep(step * (0.5 + self._chance.random()))
        news.delay_ms = self.cluster.link_ms
        for way in ways:
            way.heal(at_once=True)

    def _lead_from(self, leader: ClusterMachine, *, topics: Callable[[str], bool] = lambda _: True) -> None:
        """One broker leads whatever it may."""
        self.controllers.move_leaders(
            lambda members: leader.node_id if leader.node_id in members else self._chance.choice(members),
            topics=topics,
        )

    async def _replace_the_log(self, starved: ClusterMachine, fault: FaultPlan) -> None:
        """One broker hears of no change for a time, in which leaders move, and then finds a snapshot in place of the
        log that it would have read."""
        self.controllers.starved.add(starved.node_id)
        for _ in range(fault.number % 3):
            await asyncio.sleep(min(fault.lasts_ms, LONGEST_TURNS_MS) / 3 / 1000)
            self._elect_another()
        self.controllers.compact()
        self.controllers.feed(starved.node_id)

    async def _heal(self) -> None:
        self._note("faults are over")
        self.fabric.heal()
        for machine in self._machines:
            machine.gate.open()
        if self.controllers.is_out:
            self.controllers.fail_over()
        for machine in self._machines:
            machine.disk.faults.clear()
            machine.disk.space = machine.disk.total = machine.disk.stop_at = None
        if not self.cluster.is_tardy:
            self.world.there.stall = self.world.back.stall = 0.0
        await self._until(lambda: all(machine.is_unfenced for machine in self._machines))
        # What waits for the sync of a marker on a slow disk is no transaction that never ends.
        held_until = max(machine.pace.held_until for machine in self._machines)
        await asyncio.sleep(max(0.0, held_until - self.scheduler.now))


def joined(config: BrokerConfig, plan: ClusterPlan, node_id: int) -> BrokerConfig:
    """The settings of one broker of the cluster: short times, internal topics on all brokers."""
    if plan.near_readers:
        config = replace(config, broker_rack=RACKS[node_id % len(RACKS)], replica_selector_class=RACK_AWARE)
    return replace(
        config,
        node_id=node_id,
        listeners=(f"{LISTENER}://{host_of(node_id)}:{PORT}",),
        controller_quorum_bootstrap_servers=tuple(f"{HOST}:{port}" for port in CONTROLLERS),
        controller_listener_names=("CONTROLLER",),
        eosin_cluster_id=CLUSTER_ID,
        broker_heartbeat_interval_ms=100,
        broker_session_timeout_ms=SESSION_TIMEOUT_MS,
        controller_quorum_request_timeout_ms=500,
        controller_quorum_fetch_timeout_ms=500,
        controller_socket_timeout_ms=1000,
        replica_lag_time_max_ms=600,
        replica_fetch_wait_max_ms=200,
        replica_fetch_backoff_ms=50,
        replica_high_watermark_checkpoint_interval_ms=200,
        num_replica_fetchers=plan.fetchers,
        offsets_topic_replication_factor=len(BROKERS),
        transaction_state_log_replication_factor=len(BROKERS),
        transaction_state_log_min_isr=2,
        eosin_controlled_shutdown_timeout_ms=3000,
        request_timeout_ms=1000,
        eosin_disk_full_fence_ms=FULL_DISK_FENCE_MS,
        **share_settings(plan.shares, config),
    )
