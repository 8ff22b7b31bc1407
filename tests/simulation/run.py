"""One run of one machine: a seed's plan carried out to its end, and what the world looks like then."""

import asyncio
from collections.abc import Callable, Sequence

from eosin.storage.journal.journal import FILE_PREFIX
from simulation.broker import config_of
from simulation.client import World
from simulation.course import Course
from simulation.machine import Machine, Pace
from simulation.plan import PARTITIONS, FaultPlan, Plan
from simulation.upkeep import remove_what_is_made_again

FOLDERS = tuple(f"{each.topic}-{each.partition}/" for each in PARTITIONS)
HEALING_STARTS = 10
"""So many starts put everything right that faults have left behind."""


class Run(Course):
    """A world with one machine."""

    def __init__(self, plan: Plan, *, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(plan, trace=trace)
        self.pace = Pace(sync_ms=plan.sync_ms)
        self.machine = Machine(self.scheduler, config=config_of(plan), seed=f"{plan.seed}", pace=self.pace)
        self.machine.disk.cold = plan.cold
        self.machine.disk.counts_room = False
        self.machine.disk.cold_work_ms = plan.sync_ms
        self.machine.changed = self._changed
        self.world = World(machine=self.machine, network=self.network, history=self.history, seed=f"{plan.seed}")
        self.world.trace = self._trace
        self._up = asyncio.Event()
        self._after_stop = "kill"

    @property
    def machines(self) -> Sequence[Machine]:
        return (self.machine,)

    async def _begin(self) -> None:
        self.machine.start()
        await self._up.wait()

    async def _crash_again(self) -> None:
        self.machine.crash(power=self.plan.durability == "fsync")
        self.machine.start()
        await self._up.wait()
        await asyncio.sleep(0.2)

    def _end(self) -> None:
        self.machine.crash()

    # Faults ---------------------------------------------------------------------------------------------------------

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
                        machine.disk.stop_after(fault.number)
                        self._after_stop = fault.kind
                    await asyncio.sleep(seconds)
                    self._start()
            case "restart":
                if machine.server is not None:
                    machine.stop(self._tidy if fault.number % 3 == 0 else lambda: None)
                    await asyncio.sleep(seconds)
            case "stop at call":
                disk.stop_after(fault.number)
                self._after_stop = "power" if self.plan.durability == "fsync" and fault.number % 2 else "kill"
            case "failed sync":
                part = self._chance.choice([*FOLDERS, "__", FILE_PREFIX])
                disk.break_calls("sync", part)
                await asyncio.sleep(seconds)
                disk.faults.clear()
                if machine.process is not None:
                    machine.crash(power=fault.number % 2 == 0)
                    self._start()
            case "failed call":
                call = self._chance.choice(
                    ("append", "append", "write", "create", "rename", "truncate", "sync_directory", "read")
                )
                part = self._chance.choice([*FOLDERS, "__", ""])
                disk.break_calls(call, part)
                await asyncio.sleep(seconds)
                disk.faults.clear()
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
        self.machine.disk.faults.clear()
        self.machine.disk.space = None
        self.machine.disk.stop_at = None
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
