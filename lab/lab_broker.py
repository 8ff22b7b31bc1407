"""`LabBroker`: one broker of the lab, from its start to its close, through as many lives as a test gives it.

Always true: it serves in the event loop that runs it, or it is down; its address, its disk and its clock go from one
life to the next. What it has written to a disk of the lab goes when it closes.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Self

import msgspec

from eosin.lab.behaviours import is_before_producer_fenced, markers_after_ms
from eosin.lab.clock.lab_clock import ClockError, LabClock
from eosin.lab.common.errors import LabError, PortTakenError
from eosin.lab.common.values import ConnectionInWork
from eosin.lab.crash.endpoints import LabEndpoints, Ports
from eosin.lab.crash.lab_markers import LabMarkers, MarkerDelay
from eosin.lab.disk.faults import CallFaults, Luck
from eosin.lab.disk.faulty_files import FaultyFiles
from eosin.lab.disk.lab_directory import new_cluster_id, prepare_directory, prepare_disk
from eosin.lab.disk.lab_disk import LabDisk
from eosin.lab.disk.lab_flusher import LabFlusher
from eosin.lab.disk.lying_files import Stopped
from eosin.lab.disk.points import COMPLETE, DISK, INNER_POINTS, MARKER, PREPARED, Moment, Points
from eosin.lab.faults.armed_rules import ArmedRules, FaultHooks
from eosin.lab.history.hooks import RecordingHooks
from eosin.lab.history.occurrences import CRASH
from eosin.lab.history.occurrences import MARKER as MARKER_WRITTEN
from eosin.lab.history.recording import OFF, Recording
from eosin.lab.inside import Inside
from eosin.lab.inside_client import InsideClient
from eosin.lab.network.lab_network import LabNetwork, NetworkHooks
from eosin.lab.nodes.lab_nodes import LabNodes
from eosin.lab.operations import Operations
from eosin.lab.options import FROZEN, FSYNC, LAB, LAB_DIR, MEMORY, BrokerOptions, text_of
from eosin.network.request_hooks import HookChain, RequestHooks
from eosin.node.node import Given, Node
from eosin.node.running import RunningNode
from eosin.protocol.names import TopicPartition
from eosin.runtime.chance import SystemChance
from eosin.settings.start_error import AddressInUse, StartError
from eosin.storage.results.log_results import Marker

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot
    from eosin.node.observability import MountedHttp

log = logging.getLogger(__name__)

_SEEDS: Final = 2**32
CLOSE_S: Final = 2.0
"""Longest time that a close may take."""
_TURNS: Final = 100
"""Turns of the event loop in which what is under way comes to rest, unless a rule holds it."""


class LeaveLoop(Protocol):
    """Has the event loop left, and another one begin."""

    def __call__(
        self, then: Callable[[], Coroutine[Any, Any, None]], transports: list[asyncio.Transport], *, is_asked: bool
    ) -> None:
        """Begin with `then`; the loop that is left has these transports. `is_asked` if the call in progress wants
        it."""


class LabBroker:
    """A broker that serves, or is down between two lives (`Life`)."""

    def __init__(
        self,
        options: BrokerOptions,
        leave_loop: LeaveLoop | None = None,
        points: Points | None = None,
        http: "MountedHttp | None" = None,
    ) -> None:
        """Use `start`."""
        self._options = options
        self._http: Final = http
        self._leave_loop: Final = leave_loop
        self._ports: Final = Ports()
        self._clock: Final = _clock_of(options)
        self._recording: Final = None if options.record == OFF else Recording(self._clock, level=options.record)
        self.rules: Final = ArmedRules(seed=_seed_of(options), wire=self._clock.wire, virtual=self._clock)
        """The rules of scripted faults, in all of its lives."""
        self.rules.crash = self._crash_by_rule
        luck = cache(lambda: random.Random(f"{self.rules.seed}/network"))
        self.network: Final = LabNetwork(lambda: luck().random())
        """The network to it, in all of its lives."""
        self.nodes: Final = LabNodes(options.nodes, self.network)
        """The nodes in front of it, likewise."""
        self._points: Final[Points] = self.rules if points is None else points
        self._disk: LabDisk | None = self._new_disk() if options.disk == LAB else None
        self._files: FaultyFiles | None = None
        """Its real files, where it has some."""
        if options.disk not in (LAB, MEMORY):
            self._files = FaultyFiles(options.disk, self._disk_luck())
        self.rules.points.update(_points_of(options))
        self._endpoints: LabEndpoints | None = None
        self._node: RunningNode | None = None
        self._inside: Inside | None = None
        self._anew: dict[str, int] | None = None
        """Topics beside the first ones of a life that begins anew."""
        self.is_up = False
        """True while it serves, starts or stops."""
        self._is_closed = False
        self.bootstrap = ""
        """HOST:PORT for clients, of each node."""
        self._client: InsideClient | None = None
        self._operations: Operations | None = None

    @classmethod
    async def start(
        cls,
        options: BrokerOptions,
        *,
        leave_loop: LeaveLoop | None = None,
        snapshot: "Snapshot | None" = None,
        points: Points | None = None,
        http: "MountedHttp | None" = None,
    ) -> Self:
        """Start it, with its topics. Without `leave_loop` it cannot crash. At `points` rules fire. The console and the
        metrics of each life go to `http`. Raises LabError."""
        broker = cls(options, leave_loop, points, http)
        if snapshot is not None:
            broker._disk = broker._disk_from(snapshot)
        await broker._begin()
        return broker

    @property
    def options(self) -> BrokerOptions:
        """With the settings of its present life."""
        return self._options

    @property
    def operations(self) -> Operations:
        """All that a test may ask of it, in all of its lives."""
        assert self._operations is not None, "it has started"
        return self._operations

    @property
    def node(self) -> RunningNode:
        """The broker of its present life."""
        assert self._node is not None, "it runs"
        return self._node

    @property
    def inside(self) -> Inside:
        """All that only it knows."""
        assert self._inside is not None, "it has started"
        return self._inside

    @property
    def disk(self) -> LabDisk:
        """The disk that it has now. Raises LabError where that is none of the lab's."""
        if self._disk is None:
            raise self._no_disk()
        return self._disk

    @property
    def files(self) -> CallFaults:
        """The disk that it has now, or its real files. Raises LabError where it has neither."""
        found = self._disk or self._files
        if found is None:
            raise self._no_disk()
        return found

    def _no_disk(self) -> LabError:
        if self._options.disk == MEMORY:
            return LabError(f'a broker with disk="{MEMORY}" keeps nothing: leave out disk and durability')
        return LabError(
            f"the files in {self._options.disk} are real: a crash, a loss of power and a copy need the lab's own disk,"
            " so leave out disk"
        )

    def has_room_again(self) -> None:
        """Look at once whether records may be taken again."""
        if self._node is not None:
            self._node.logs.space.check()

    # One life -------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Begin a life. Raises LabError."""
        options, disk = self._options, self._disk
        before = self._inside
        if self._anew is not None:
            options = msgspec.structs.replace(options, topics={**options.topics, **self._anew})
            self._anew = before = None
            if self._recording is not None:
                self._recording.clear()
        config = options.config()
        self._endpoints = LabEndpoints(config, self._ports, self.nodes.closed_listeners())
        delay = MarkerDelay(markers_after_ms(options.behaviour))
        given: Given = {
            "endpoints": self._endpoints,
            "first_topics": options.first_topics,
            "clock": self._clock,
            "session_clock": self._clock.sessions,
            "wire_clock": self._clock.wire,
            "hooks": self._hooks(),
            "markers": lambda targets: LabMarkers(
                self.nodes.markers(targets),
                points=self._points,
                find_id=self._find_id,
                delay=delay,
                written=None if self._recording is None else self._marker_written,
            ),
        }
        if self._http is not None:
            config = replace(config, eosin_console_enable=True)
            given["http"] = self._http
        if disk is not None:
            prepare_disk(disk, LAB_DIR, config)
            disk.on_stop = self._stopped_by_disk
            given["disk"] = disk
            if options.durability == FSYNC:
                given["flusher"] = LabFlusher(self._points, disk.sync_ms)
            disk.watch = partial(_reach_disk, self._points)
        elif self._files is not None:
            prepare_directory(options.disk, config)
            given["disk"] = self._files
            if options.durability == FSYNC:  # each file by itself, and not a journal for all of them
                given["flusher"] = LabFlusher(self._points, self._files.sync_ms)
        elif config.eosin_cluster_id is None:
            config = replace(config, eosin_cluster_id=new_cluster_id())
        self.is_up = True
        if self._http is not None:
            self._http.application = None
        try:
            node = await Node(config, self.nodes.part_at, **given).start()
        except StartError as refused:
            self.is_up = False
            if isinstance(refused, AddressInUse):
                raise PortTakenError(refused.without_option) from None
            raise LabError(str(refused)) from None
        self._node = node
        self.nodes.begin_life(node, self._endpoints)
        self.bootstrap = self.bootstrap or ",".join(node.addresses[: options.nodes])
        self._inside = Inside(node, self._clock, self._recording, before)
        self._inside.rules = self.rules
        self._inside.marker_delay = delay
        if self._operations is None or self._client is None:
            self._client = InsideClient(node)
            self._operations = Operations(self._client, self._inside, life=self)
            self._operations.rules = self.rules
            self._operations.network = self.network
            self._operations.nodes = self.nodes
        else:
            self._client.follow(node)
            self._operations.follow(self._inside)

    def _hooks(self) -> RequestHooks:
        hooks: RequestHooks = NetworkHooks(self.network, FaultHooks(self.rules))
        if is_before_producer_fenced(self._options.behaviour):
            from eosin.lab.earlier_errors import EarlierErrors

            hooks = HookChain((hooks, EarlierErrors()))
        if self._recording is not None:
            hooks = recorder = RecordingHooks(self._recording, hooks, nodes=self.nodes.by_listener)
            self.rules.on_event = recorder.fired
            self.rules.on_failure = recorder.failed
        return hooks

    @property
    def complaints(self) -> list[str]:
        """The reasons for which a test fails that has used it, once it is closed."""
        return self.rules.complaints

    async def close(self) -> list[ConnectionInWork]:
        """Stop it. Returns the connections whose requests it has not answered, after a warning in the log."""
        if self._is_closed:
            return []
        self._is_closed = True
        left: list[ConnectionInWork] = []
        if self.is_up:
            left = [each for each in await self.operations.connections() if each.waits_for]
            for each in left:
                log.warning("the broker is closed while %s", each)
            await self._end()
        self._clock.forget_timers()  # the thread's event loop, which goes on, would keep them until they are due
        self._ports.release()
        return left

    async def _end(self) -> None:
        """End a life in order."""
        self.is_up = False
        assert self._node is not None
        self.rules.end()
        self.nodes.end_life()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._node.shutdown()
        except TimeoutError:
            log.warning("the broker was not closed within %g s", CLOSE_S)

    def _find_id(self, producer_id: int) -> str | None:
        """The transactional id of a producer; in a start as the life before knew it."""
        return None if self._inside is None else self._inside.find_id(producer_id)

    def _marker_written(self, marker: Marker, partitions: Sequence[TopicPartition]) -> None:
        assert self._recording is not None, "it records"
        self._recording.record(
            MARKER_WRITTEN,
            transactional_id=self._find_id(marker.producer_id),
            partitions=partitions,
            detail=f"{'commit' if marker.commit else 'abort'} epoch {marker.producer_epoch}",
        )

    # From life to life ----------------------------------------------------------------------------------------------

    async def crash(self, *, power: bool, restart: bool, settings: dict[str, str] | None = None) -> None:
        """End without a stop, as `kill -9` does, or with `power` as a loss of power does; then start again. Raises
        LabError."""
        self._check_up()
        disk = self.disk
        self._change(settings)
        disk.stop()
        self._die(power=power, restart=restart, is_asked=True)
        await asyncio.Future()  # until the loop is left

    def crash_here(self, *, power: bool = False, restart_after_ms: float = 0) -> NoReturn:
        """Crash in the middle of whatever calls this, in the loop. Raises LabError if it cannot crash."""
        if self.is_up:
            self.disk.stop()
            self._die(power=power, restart_after_ms=restart_after_ms)
        raise Stopped

    def _crash_by_rule(self, power: bool, restart_after_ms: float) -> NoReturn:
        self.crash_here(power=power, restart_after_ms=restart_after_ms)

    def _stopped_by_disk(self) -> None:
        """The disk has refused a call for good, in the middle of it."""
        self._die()

    def _die(
        self,
        *,
        power: bool = False,
        restart: bool = True,
        restart_after_ms: float = 0,
        snapshot: "Snapshot | None" = None,
        is_asked: bool = False,
    ) -> None:
        if not self.is_up:
            return
        if self._leave_loop is None:
            raise LabError("this broker has no thread of its own, and cannot crash")
        from eosin.lab.crash.burial import hang_up

        self.is_up = False
        if self._recording is not None and snapshot is None:
            self._recording.record(CRASH, detail="the power is lost" if power else "")
        self._ports.is_kept = True
        transports: list[asyncio.Transport] = []
        if self._node is not None:
            self._node.is_stopping = True
            transports = _transports_of(self._node)
            for connection in self._node.host.connections:
                connection.stop_beginning()
        if self._endpoints is not None:
            self._endpoints.abandon()
        hang_up(transports)
        self.rules.end()
        self.nodes.end_life()
        after = partial(self._come_back, power=power, restart=restart, after_ms=restart_after_ms, snapshot=snapshot)
        self._leave_loop(after, transports, is_asked=is_asked)

    async def _come_back(
        self, *, power: bool, restart: bool, after_ms: float, snapshot: "Snapshot | None" = None
    ) -> None:
        """The next process, on what is left of the disk."""
        self._node = None
        self._clock.forget_timers()
        disk = self.disk
        if snapshot is not None:
            self._disk = self._disk_from(snapshot)
        else:
            self._disk = disk.power_loss() if power else disk.killed()
        if not restart:
            return
        if after_ms > 0:
            await asyncio.sleep(after_ms / 1000)
        try:
            await self._begin()
        except LabError as refused:
            log.error("the broker does not come back: %s", refused)
            raise

    async def stop(self) -> None:
        """Stop it in order; `start` starts it again. Raises LabError."""
        self._check_up()
        self._check_keeps()
        await self._rest()  # the markers that are kept back on purpose
        self._ports.is_kept = True
        await self._end()
        self._node = None

    async def start_again(self, settings: dict[str, str] | None = None) -> None:
        """Start it after a stop or a crash, with these settings beside those that it had. Raises LabError."""
        if self.is_up:
            raise LabError("the broker runs already: stop() or crash(restart=False) comes before start()")
        self._change(settings)
        await self._begin()

    def check_settings(self, settings: dict[str, str]) -> None:
        """Raise LabError for settings with which it could not start."""
        self._changed(settings).config()

    def _change(self, settings: dict[str, str] | None) -> None:
        """Have the next life use these settings. Raises LabError."""
        if settings:
            self.check_settings(settings)
            self._options = self._changed(settings)

    def _changed(self, settings: dict[str, str]) -> BrokerOptions:
        words = {name: text_of(value) for name, value in settings.items()}
        return msgspec.structs.replace(self._options, settings={**self._options.settings, **words})

    def _check_up(self) -> None:
        if not self.is_up:
            raise LabError("the broker does not run: start() starts it again")

    def _check_keeps(self) -> None:
        if self._options.disk == MEMORY:
            raise LabError(
                f'a broker with disk="{MEMORY}" keeps nothing: leave out disk and durability for one that does'
            )

    # Snapshots ------------------------------------------------------------------------------------------------------

    async def snapshot(self) -> "Snapshot":
        """All that its disk has, once what is under way has come to rest. Raises LabError."""
        from eosin.lab.crash.snapshot import Snapshot

        disk = self.disk
        if self.is_up:
            await self._rest()
        return Snapshot.of(disk, LAB_DIR, self._clock.now_ms(), self.nodes.table.state())

    async def restore(self, snapshot: "Snapshot") -> None:
        """Go on from a snapshot: connections are reset. Raises LabError."""
        disk = self.disk
        if not self.is_up:
            self._disk = self._disk_from(snapshot)
            await self._begin()
            return
        disk.stop()
        self._die(snapshot=snapshot, is_asked=True)
        await asyncio.Future()  # until the loop is left

    async def begin_anew(self, topics: dict[str, int]) -> None:
        """Go on as an empty broker, with these topics before it serves anybody. Raises LabError."""
        from eosin.lab.crash.snapshot import Snapshot

        if self._disk is None:
            raise self._no_disk()
        self._anew = topics
        await self.restore(Snapshot({}, [], 0))

    async def _rest(self) -> None:
        assert self._inside is not None
        with self._inside.marker_delay.skipped():
            for _ in range(_TURNS):
                await asyncio.sleep(0)
                if not self._inside.has_markers_to_write():
                    return

    def _new_disk(self) -> LabDisk:
        return LabDisk(self._clock.now_ms, luck=self._disk_luck())

    def _disk_luck(self) -> Luck:
        """The luck of a disk; a generator has 2.5 KB, which most brokers do without."""
        return cache(lambda: random.Random(f"{self.rules.seed}/disk"))

    def _disk_from(self, snapshot: "Snapshot") -> LabDisk:
        if self._disk is None:
            raise self._no_disk()
        disk = self._new_disk()
        ahead_ms = snapshot.now_ms - self._clock.now_ms()
        if ahead_ms > 0:
            self._clock.jump_wall(ahead_ms)
        snapshot.put_on(disk, LAB_DIR)
        self.nodes.adopt(snapshot.nodes)
        return disk


def _points_of(options: BrokerOptions) -> Collection[str]:
    """The points inside a broker with these options."""
    every = INNER_POINTS if options.durability == FSYNC else (DISK, PREPARED, MARKER, COMPLETE)
    # Threads call real files, too, and rules fire in the event loop alone.
    return [each for each in every if each != DISK or options.disk == LAB]


def _reach_disk(points: Points, call: str, path: str) -> None:
    if points.watches(DISK):
        points.reached(Moment(DISK, call=call, path=path))


def _clock_of(options: BrokerOptions) -> LabClock:
    """Raises LabError."""
    try:
        return LabClock(at_ms=options.clock_at, is_frozen=options.clock == FROZEN)
    except ClockError as error:
        raise LabError(str(error)) from None


def _transports_of(node: RunningNode) -> list[asyncio.Transport]:
    """The sockets' transports of all connections."""
    found: list[asyncio.Transport] = []
    for layer in node.host.layers:
        raw = getattr(layer, "raw", None)
        if raw is not None:
            found.append(raw)
    for connection in node.host.connections:
        transport = connection.transport
        raw = getattr(transport, "raw", transport)
        if raw is not None:
            found.append(raw)
    return found


def _seed_of(options: BrokerOptions) -> int:
    return SystemChance().below(_SEEDS) if options.seed is None else options.seed
