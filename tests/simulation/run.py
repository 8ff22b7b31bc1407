"""One run: a seed's plan carried out to its end, and what the world looks like then."""

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Any

from eosin.storage.journal.journal import FILE_PREFIX
from simulation.apps import App, follow, watch, write_plainly
from simulation.broker import complaints, config_of
from simulation.client import World
from simulation.history import History
from simulation.look import look
from simulation.loop import OutOfSteps, Process, Scheduler
from simulation.machine import Machine, Pace
from simulation.operator import Operator
from simulation.plan import PARTITIONS, FaultPlan, Plan
from simulation.tuning import tuned
from simulation.two_phase import DatabaseApp
from simulation.upkeep import remove_what_is_made_again

DEADLINE_S = 300.0
"""When faults are over, every call is answered within this."""
MOMENTS_S = 0.5
"""A fault that waits for clients waits no longer than this."""
FOLDERS = tuple(f"{each.topic}-{each.partition}/" for each in PARTITIONS)
HEALING_STARTS = 10
"""So many starts put everything right that faults have left behind."""
SETTLE_S = 0.5
"""What a broker has begun when the last timeout has passed has ended by then."""


class Run:
    """A world and its inhabitants."""

    def __init__(self, plan: Plan, *, trace: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.history = History()
        self.scheduler = Scheduler(report=self._report, max_steps=400_000)
        self.network = Process(self.scheduler, "network")  # type: ignore[abstract]
        self.pace = Pace(sync_ms=plan.sync_ms)
        self.machine = Machine(self.scheduler, config=config_of(plan), seed=f"{plan.seed}", pace=self.pace)
        self.machine.disk.cold = plan.cold
        self.machine.disk.cold_work_ms = plan.sync_ms
        self.machine.changed = self._changed
        self.world = World(machine=self.machine, network=self.network, history=self.history, seed=f"{plan.seed}")
        self.world.trace = None if trace is None else self._traced(trace)
        self._trace = self.world.trace
        self._chance = random.Random(f"{plan.seed}/faults")
        self.faults: list[str] = []
        """The kinds of those that have struck."""
        self._is_over = False
        self._up = asyncio.Event()
        self._after_stop = "kill"

    def _traced(self, trace: Callable[[str], None]) -> Callable[[str], None]:
        return lambda text: trace(f"{self.scheduler.now * 1000:10.3f} {text}")

    def carry_out(self) -> History:
        """To the end."""
        with complaints(self.history), tuned(few_epochs=self.plan.few_epochs):
            main = self.network.create_task(self._main())
            try:
                self.scheduler.run(main)
            except (OutOfSteps, RuntimeError) as error:
                self.history.faults.append(f"the run does not end: {error}")
            except Exception as error:  # noqa: BLE001 - what a client cannot bear is the broker's fault
                self.history.faults.append(f"a client cannot go on: {error!r}")
            finally:
                self.machine.crash()
                self.network.kill()
        return self.history

    def _report(self, process: Process, context: dict[str, Any]) -> None:
        self.history.faults.append(f"{process.name}: {context.get('message')}: {context.get('exception')!r}")

    # The course of things -------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        self.machine.start()
        await self._up.wait()
        operator = Operator(self.world, self.plan)
        await operator.create_topics()
        self._set_network()
        clients = [*self._clients(), asyncio.create_task(operator.delete_topics())]
        nemesis = asyncio.create_task(self._misfortune())
        done, pending = await asyncio.wait((*clients, nemesis), timeout=DEADLINE_S)
        for task in done:
            task.result()
        if pending:
            self.history.unanswered += list(self.world.waiting.values()) or ["a client has not ended"]
            return
        self._is_over = True
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.gather(*self._readers)
                await self._settle()
                self.history.final = await look(self.world, self.plan, self.history)
                self._note("the last crash")
                self.machine.crash(power=self.plan.durability == "fsync")
                self.machine.start()
                await self._up.wait()
                await asyncio.sleep(0.2)
                self.history.final_again = await look(self.world, self.plan, self.history)
        except TimeoutError:
            self.history.unanswered += list(self.world.waiting.values()) or ["the end is not reached"]

    async def _settle(self) -> None:
        """Until the last request of a producer that is gone has arrived, and what it has opened has timed out."""
        world = self.world
        arrived = max(world.there.latest, world.there_in_time.latest)
        timeout_ms = max((instance.timeout_ms for app in self.plan.apps for instance in app.instances), default=0)
        await asyncio.sleep(max(0.0, arrived - self.scheduler.now) + timeout_ms / 1000 + SETTLE_S)

    def _clients(self) -> list["asyncio.Task[None]"]:
        def over() -> bool:
            return all(task.done() for task in writers)

        writers: list[asyncio.Task[None]] = []
        copiers: list[asyncio.Task[None]] = []
        for plan in self.plan.apps:
            if plan.decides:
                writers.append(asyncio.create_task(DatabaseApp(self.world, plan).run()))
                continue
            app = App(self.world, plan, targets=self.plan.targets, is_over=over)
            (copiers if plan.sources else writers).append(asyncio.create_task(app.run()))
            if plan.sources:
                self.history.copying[plan.name] = plan.sources
        if self.plan.idempotent:
            writers.append(asyncio.create_task(write_plainly(self.world, self.plan.idempotent)))
        if self.plan.watchers:
            copiers.append(asyncio.create_task(watch(self.world, self.plan.watchers, is_over=over)))
        self._readers = [
            asyncio.create_task(follow(self.world, number, is_over=lambda: self._is_over))
            for number in range(self.plan.readers)
        ]
        return [*writers, *copiers]

    def _set_network(self) -> None:
        for link in (self.world.there, self.world.there_in_time, self.world.back):
            link.delay_ms = self.plan.delay_ms
        self.world.there.stall, self.world.there.stall_ms = self.plan.stall, 3000.0
        self.world.back.stall, self.world.back.stall_ms = self.plan.stall, 3000.0

    # Faults ---------------------------------------------------------------------------------------------------------

    async def _misfortune(self) -> None:
        for fault in self.plan.faults:
            await self._until_moment(self.history.moments + fault.after)
            await self._strike(fault)
        await self._heal()

    async def _until_moment(self, moment: int) -> None:
        """Wait until clients have got so far; but not for ever, for they may wait for something to happen."""
        come = asyncio.Event()
        self.history.alarm = moment, come.set
        try:
            async with asyncio.timeout(MOMENTS_S):
                await come.wait()
        except TimeoutError:
            pass

    async def _strike(self, fault: FaultPlan) -> None:
        self._note(f"fault: {fault}")
        self.faults.append(fault.kind)
        machine, disk, seconds = self.machine, self.machine.disk, fault.lasts_ms / 1000
        match fault.kind:
            case "power" | "kill":
                if fault.number % 2:  # first, much is written and nothing synced
                    self.pace.stalls.append((self.scheduler.now, self.scheduler.now + 10.0))
                    await self._until_moment(self.history.moments + fault.number // 4)
                    self.pace.stalls.clear()
                if machine.process is not None:
                    machine.crash(power=fault.kind == "power")
                    if fault.number % 3 == 0:  # and once more, while it starts
                        machine.disk.calls_left = fault.number
                        self._after_stop = fault.kind
                    await asyncio.sleep(seconds)
                    self._start()
            case "restart":
                if machine.server is not None:
                    machine.stop(self._tidy if fault.number % 3 == 0 else lambda: None)
                    await asyncio.sleep(seconds)
            case "stop at call":
                disk.calls_left = fault.number
                self._after_stop = "power" if self.plan.durability == "fsync" and fault.number % 2 else "kill"
            case "failed sync":
                part = self._chance.choice([*FOLDERS, "__", FILE_PREFIX])
                disk.failing["sync", part] = errno.EIO
                await asyncio.sleep(seconds)
                disk.failing.clear()
                if machine.process is not None:
                    machine.crash(power=fault.number % 2 == 0)
                    self._start()
            case "failed call":
                call = self._chance.choice(
                    ("append", "append", "write", "create", "rename", "truncate", "sync_directory", "read")
                )
                part = self._chance.choice([*FOLDERS, "__", ""])
                disk.failing[call, part] = errno.EIO
                await asyncio.sleep(seconds)
                disk.failing.clear()
                if machine.process is not None:
                    machine.crash(power=fault.number % 2 == 0)
                    self._start()
            case "full disk":
                disk.space = fault.number * 20
                await asyncio.sleep(seconds)
                machine.disk.space = disk.space = None
            case "slow disk":
                self.pace.stalls.append((self.scheduler.now, self.scheduler.now + seconds))
            case "slow network":
                self.world.there.stall, self.world.there.stall_ms = 0.3, fault.lasts_ms * 10
                await asyncio.sleep(seconds)
                self._set_network()
            case "jump":
                machine.clock.ahead_ms += fault.number * 50
            case _:
                raise AssertionError(fault.kind)

    def _tidy(self) -> None:
        self._note("somebody removes what the next start makes again")
        remove_what_is_made_again(self.machine.disk, self._chance)

    def _changed(self) -> None:
        machine = self.machine
        self._note("the broker serves" if machine.server is not None else "the broker does not serve")
        if machine.server is not None:
            self._up.set()
            return
        self._up.clear()
        # Somebody looks after the machine: a broker that has ended is started again, sooner or later.
        self.network.call_later(0.3, self._look_after)

    def _look_after(self) -> None:
        if self.machine.process is None:
            self._start()

    def _start(self) -> None:
        if self.machine.process is None:
            if self.machine.disk.is_stopped:
                self.machine.crash(power=self._after_stop == "power")
            self.machine.start()

    async def _heal(self) -> None:
        """Faults are over. Logs that have failed need another start."""
        self._note("faults are over")
        self.machine.disk.failing.clear()
        self.machine.disk.space = None
        self.machine.disk.calls_left = None
        self.world.there.stall = self.world.back.stall = 0.0
        for _ in range(HEALING_STARTS):
            await self._up.wait()
            server = self.machine.server
            if server is None:
                continue
            offline = [
                (log.topic_partition, log.failure) for _, log in server.services.partitions.hosted() if log.failure
            ]
            if not offline:
                return
            self.machine.crash()
            self._start()
        self.history.faults.append(f"offline for good: {offline}")

    def _note(self, text: str) -> None:
        if self._trace is not None:
            self._trace(text)
