"""A simulated machine: a disk, a clock, and at most one broker process, which can be stopped, killed and started again.

The broker is the whole one, from `ServerConnection` to the disk; only its sockets and threads are missing.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from endpoints import NoSockets

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.network.connection import ServerConnection
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.runtime.chance import SeededChance
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.settings.start_error import StartError
from eosin.storage.disk.flusher import Ended, Work, outcome
from eosin.storage.journal.flusher import JournalFlusher
from simulation.clock import SimulatedClock
from simulation.gate import Gate
from simulation.loop import Process, Scheduler
from simulation.tuning import SECTOR_BYTES

LISTENER = "PLAINTEXT"


@dataclass
class Pace:
    """How slow this machine's disk is, in milliseconds."""

    sync_ms: float = 5.0
    """How long a sync takes at most."""
    stalls: list[tuple[float, float]] = field(default_factory=list)
    """(begin, end) in seconds of the world: syncs that begin in between end no sooner."""
    held_until: float = 0.0
    """When the last sync ends that a stall holds up, though the stall be over."""


class SimulatedFlusher(JournalFlusher):
    """The group commit that a broker runs with, on threads that are simulated: each piece of work reaches the disk at
    some moment after it was asked for, and its end is heard of some time later."""

    def __init__(self, process: Process, chance: random.Random, pace: Pace) -> None:
        super().__init__(threads=0)
        self._process = process
        self._chance = chance
        self._pace = pace

    def _submit(self, work: Work, ended: Ended) -> None:
        self._under_way += 1
        now, lasts = self._process.time(), self._chance.random() * self._pace.sync_ms / 1000
        for begin, end in self._pace.stalls:
            if begin <= now < end:
                lasts += end - now
                self._pace.held_until = max(self._pace.held_until, now + lasts)
        before = self._chance.choice((0.0, self._chance.random(), 1.0)) * lasts
        self._process.call_later(before, self._do, work, ended, lasts - before)

    def _submit_group(self, work: Work, ended: Ended) -> None:
        self._submit(work, ended)

    def _do(self, work: Work, ended: Ended, rest: float) -> None:
        self._process.call_later(rest, self._done, ended, outcome(work))

    def _done(self, ended: Ended, error: OSError | None) -> None:
        self._results.append((ended, error))
        self._deliver()


class Machine:
    """One machine of the world. Everything here is called from outside of the broker's process."""

    name = "the broker"
    address = ("localhost", 9092)
    """That it tells clients."""

    def __init__(self, scheduler: Scheduler, *, config: BrokerConfig, seed: str, pace: Pace) -> None:
        self.scheduler = scheduler
        self.config = config
        self.pace = pace
        self.clock = SimulatedClock(scheduler)
        self.chance = random.Random(f"{seed}/machine")
        self.disk = LyingDisk(self.clock.now_ms, chance=random.Random(f"{seed}/disk"), sector_bytes=SECTOR_BYTES)
        self.gate = Gate()
        """Between clients and this machine."""
        self.server: RunningNode | None = None
        """The broker that serves."""
        self.process: Process | None = None
        """The process that runs, which may still be starting."""
        self.starts = 0
        self.start_error: BaseException | None = None
        """Why the last start failed."""
        self.changed: Callable[[], None] = lambda: None
        """Called when a broker begins or ceases to serve."""
        self.peers: dict[Callable[[], None], None] = {}
        """What to call when the process ends: the other ends of its connections hear of it."""

    # Starting and ending --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a broker. It serves some time later."""
        assert self.process is None, "one broker at a time"
        self.starts += 1
        self.start_error = None
        process = self.process = self._new_process()
        self.pace.held_until = 0.0
        self.disk.on_stop = self._ended
        flusher = None
        if self.config.eosin_durability == "fsync":
            flusher = SimulatedFlusher(process, self.chance, self.pace)
        node = Node.of(
            self.config,
            clock=self.clock,
            chance=SeededChance(self.chance.getrandbits(64)),
            disk=self.disk,
            flusher=flusher,
            endpoints=NoSockets(Listener(LISTENER, *self.address), self._listening),
        )
        process.call_soon(self._startup, process, node)

    def _new_process(self) -> Process:
        return Process(self.scheduler, f"broker {self.starts}")  # type: ignore[abstract]

    def _listening(self, server: RunningNode) -> None:
        """The broker may have connections; its start goes on."""

    def _startup(self, process: Process, node: Node) -> None:
        task = process.create_task(node.start())
        task.add_done_callback(lambda ended: self._started(process, ended))

    def _started(self, process: Process, task: "asyncio.Task[RunningNode]") -> None:
        error = task.exception()
        if error is None:
            self.server = task.result()
            self.changed()
        else:
            if not isinstance(error, StartError):
                self.scheduler.report(process, {"message": "the start failed", "exception": error})
            self.start_error = error
            self.crash()

    def stop(self, then: Callable[[], None]) -> None:
        """Stop the broker cleanly; `then` is called when it has ended."""
        process, server = self.process, self.server
        assert process is not None
        assert server is not None
        self.server = None
        self.changed()

        def stopped(task: "asyncio.Task[bool]") -> None:
            if task.exception() is not None:
                self.scheduler.report(process, {"message": "the stop failed", "exception": task.exception()})
            self.crash()
            then()

        def begin() -> None:
            process.create_task(server.shutdown()).add_done_callback(stopped)

        process.call_soon(begin)

    def crash(self, *, power: bool = False) -> None:
        """End the broker's process now, or, with `power`, the whole machine."""
        if self.process is not None:
            self._ended()
        self.disk = self.disk.power_loss() if power else self.disk.killed()

    def _ended(self) -> None:
        """The process is no more. It may be in the middle of a callback."""
        process, self.process, self.server = self.process, None, None
        assert process is not None
        self.disk.stop()
        process.kill()
        peers, self.peers = self.peers, {}
        for peer in peers:
            peer()
        self.changed()

    # Connections ----------------------------------------------------------------------------------------------------

    def accept(self) -> "ServerConnection | None":
        """A connection of the broker that serves, whose transport is still missing."""
        if self.server is None or self.process is None or self.server.is_stopping:
            return None
        return ServerConnection(self.server.host, LISTENER, self.process)
