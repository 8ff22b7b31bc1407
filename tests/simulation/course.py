"""What every run is, whatever its machines: a seed's clients, what they do while faults strike, and what the world
looks like when all is over."""

import asyncio
import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from simulation.apps import App, follow, watch, write_plainly
from simulation.broker import complaints
from simulation.client import World
from simulation.history import FinalState, History
from simulation.look import look
from simulation.loop import OutOfSteps, Process, Scheduler
from simulation.machine import Machine
from simulation.operator import Operator
from simulation.plan import FaultPlan, Plan
from simulation.tuning import tuned
from simulation.two_phase import DatabaseApp

MOMENTS_S = 0.5
"""A fault that waits for clients waits no longer than this."""
SETTLE_S = 0.5
"""What a broker has begun when the last timeout has passed has ended by then."""


class Course:
    """A world and its inhabitants."""

    max_steps = 400_000
    deadline_s = 300.0
    """When faults are over, every call is answered within this."""
    world: World

    def __init__(self, plan: Plan, *, trace: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.history = History()
        self.history.ids_expire = plan.expires
        self.history.recovers = plan.recovers
        self.scheduler = Scheduler(report=self._report, max_steps=self.max_steps)
        self.network = Process(self.scheduler, "network")  # type: ignore[abstract]
        self._trace = None if trace is None else self._traced(trace)
        self._chance = random.Random(f"{plan.seed}/faults")
        self.faults: list[str] = []
        """The kinds of those that have struck."""
        self._is_over = False

    @property
    @abstractmethod
    def machines(self) -> Sequence[Machine]:
        """All of them."""

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
                self._end()
                self.network.kill()
        return self.history

    def _report(self, process: Process, context: dict[str, Any]) -> None:
        self.history.faults.append(f"{process.name}: {context.get('message')}: {context.get('exception')!r}")

    # The course of things -------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self._begin()
        operator = self._operator()
        await operator.create_topics()
        self._set_network()
        clients = [*self._clients(), asyncio.create_task(operator.delete_topics())]
        nemesis = asyncio.create_task(self._misfortune())
        done, pending = await asyncio.wait((*clients, nemesis), timeout=self.deadline_s)
        for task in done:
            task.result()
        if pending:
            self.history.unanswered += list(self.world.waiting.values()) or ["a client has not ended"]
            return
        self._is_over = True
        try:
            async with asyncio.timeout(self.deadline_s):
                await asyncio.gather(*self._readers)
                await self._settle()
                self.history.final = await look(self.world, self.plan, self.history)
                await self._look_elsewhere(self.history.final)
                self._note("the last crash")
                await self._crash_again()
                self.history.final_again = await look(self.world, self.plan, self.history)
                await self._look_elsewhere(self.history.final_again)
        except TimeoutError:
            self.history.unanswered += list(self.world.waiting.values()) or ["the end is not reached"]

    @abstractmethod
    async def _begin(self) -> None:
        """Start the machines."""

    @abstractmethod
    async def _crash_again(self) -> None:
        """When all is over: everything ends at once, and begins again."""

    @abstractmethod
    def _end(self) -> None:
        """Nothing runs any more."""

    async def _look_elsewhere(self, final: FinalState) -> None:
        """Whoever else could have been asked, shows the same."""

    def _operator(self) -> Operator:
        return Operator(self.world, self.plan)

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

    @abstractmethod
    async def _strike(self, fault: FaultPlan) -> None:
        """A fault."""

    @abstractmethod
    async def _heal(self) -> None:
        """Faults are over."""

    def _note(self, text: str) -> None:
        if self._trace is not None:
            self._trace(text)
