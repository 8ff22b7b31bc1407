"""The paths about the broker itself: its lives, its clock, its disk, and snapshots of it."""

import base64
import binascii
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from eosin.lab.clock.values import Advanced, ClockState, Due
from eosin.lab.clock_api import total_ms
from eosin.lab.common.errors import LabError, NotIdleError
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import BAD_REQUEST, BROKER_DOWN, NOT_IDLE, WAIT_OVER, WaitOver
from eosin.lab.http.hosts import Lab
from eosin.lab.http.values import (
    NOT_READY,
    AddressForClients,
    Advance,
    Bandwidth,
    Base64,
    CarriedOut,
    ConnectionCount,
    Count,
    Crash,
    DiskFail,
    DiskFull,
    DiskSlow,
    DiskStop,
    DiskTear,
    Flow,
    Jump,
    LabSeen,
    Latency,
    NewSettings,
    Partition,
    Ready,
    Restart,
    Settle,
    SnapshotNamed,
    SnapshotSeen,
)
from eosin.lab.operations import Operations
from eosin.lab.options import LAB, texts_of
from eosin.runtime.version import VERSION

_ADVERTISED: Final = "advertised.listeners"


# Lives ----------------------------------------------------------------------------------------------------------------


async def root(lab: Lab) -> LabSeen:
    """The broker at this moment."""
    broker, options = lab.broker, lab.held.broker.options
    clock = await broker.call(Operations.clock_state)
    return LabSeen(
        VERSION,
        broker.bootstrap,
        lab.is_up,
        await broker.call(Operations.fault_seed),
        clock.now_ms,
        clock.rate,
        options.durability,
        options.disk,
        options.behaviour,
        options.nodes,
    )


async def ready(lab: Lab) -> Ready:
    """Tell if the broker runs."""
    return Ready(lab.is_up)


async def crash(lab: Lab, body: Crash) -> CarriedOut:
    """End the broker as `kill -9` or a loss of power does, and start it again."""
    await lab.broker.crash(power=body.power, restart=body.restart)
    return CarriedOut()


async def restart(lab: Lab, body: Restart) -> CarriedOut:
    """Stop the broker in order and start it again, with other settings if there are any."""
    await lab.broker.restart(clean=body.clean, settings=body.settings)
    return CarriedOut()


async def stop(lab: Lab) -> CarriedOut:
    """Stop the broker in order; until a start nobody listens at its address."""
    await lab.broker.stop()
    return CarriedOut()


async def start(lab: Lab, body: NewSettings) -> CarriedOut:
    """Start the broker after a stop, or after a crash without a restart."""
    await lab.broker.call(Operations.start, texts_of(body.settings))
    return CarriedOut()


async def reset(lab: Lab, body: NewSettings) -> CarriedOut:
    """Have an empty broker at the same address, without faults and history, with its first topics."""
    await begin_anew(lab, {})
    if body.settings:
        await lab.broker.restart(settings=body.settings)
        if lab.held.broker.options.record != "off":
            await lab.broker.history.clear()
    return CarriedOut()


async def begin_anew(lab: Lab, topics: dict[str, int]) -> None:
    """The same, with these topics too, before any client can have them made."""
    await lab.broker.call(Operations.fault_complaints, True)
    await _plain_network(lab)
    await lab.broker.call(Operations.begin_anew, topics)
    lab.instances.clear()


async def _plain_network(lab: Lab) -> None:
    await lab.broker.network.heal()
    await lab.broker.network.latency(0)
    await lab.broker.network.bandwidth(None)


async def advertise(lab: Lab, body: AddressForClients) -> CarriedOut:
    """Have clients find the broker, or a node of it, at this address; it starts again with it, and lets in those that
    have waited once each node has one."""
    # Those who wait are not answered before it: a stop in order would wait for them.
    is_clean = lab.held.broker.options.disk != LAB
    options = lab.held.broker.options
    before = filter(None, options.settings.get(_ADVERTISED, "").split(","))
    told = {each.partition("://")[0]: each for each in before} | {body.listener: f"{body.listener}://{body.address}"}
    await lab.broker.restart(clean=is_clean, settings={_ADVERTISED: ",".join(told.values())})
    if len(told) >= options.nodes:
        await lab.broker.network.heal()
    return CarriedOut()


async def settle(lab: Lab, body: Settle) -> CarriedOut:
    """Wait until the broker has nothing to do."""
    try:
        await lab.broker.settle(quiet_ms=body.quiet_ms, timeout=body.timeout_ms / 1000)
    except NotIdleError as late:
        raise WaitOver(str(late)) from None
    return CarriedOut()


# Clock ----------------------------------------------------------------------------------------------------------------


async def clock(lab: Lab) -> ClockState:
    """The broker's time, and how it flows."""
    return await lab.broker.call(Operations.clock_state)


async def advance(lab: Lab, body: Advance) -> Advanced:
    """Jump ahead; what has happened in the jump."""
    if body.to_ms is not None:
        return await lab.broker.call(Operations.advance_to, body.to_ms, body.sessions)
    by_ms = total_ms(ms=body.ms, seconds=body.seconds, minutes=body.minutes, hours=body.hours, days=body.days)
    return await lab.broker.call(Operations.advance, by_ms, body.sessions)


async def freeze(lab: Lab) -> ClockState:
    """Let time stand still."""
    await lab.broker.call(Operations.freeze_clock)
    return await clock(lab)


async def flow(lab: Lab, body: Flow) -> ClockState:
    """Let time flow, 0.1 to 100 times as fast as real time."""
    await lab.broker.call(Operations.flow_clock, body.rate)
    return await clock(lab)


async def jump(lab: Lab, body: Jump) -> ClockState:
    """Set the time of day forward, and move no timer."""
    await lab.broker.call(Operations.jump_wall, body.ms)
    return await clock(lab)


async def deadlines(lab: Lab, query: Count) -> list[Due]:
    """List what time brings next."""
    return await lab.broker.call(Operations.next_deadlines, query.count)


# Disk -----------------------------------------------------------------------------------------------------------------


async def disk_full(lab: Lab, body: DiskFull) -> CarriedOut:
    """Leave so much room on the disk."""
    await lab.broker.call(Operations.disk_full, body.after_bytes)
    return CarriedOut()


async def disk_free(lab: Lab) -> CarriedOut:
    """Leave as much room as anybody wants."""
    await lab.broker.call(Operations.disk_free)
    return CarriedOut()


async def disk_fail(lab: Lab, body: DiskFail) -> CarriedOut:
    """Have the next calls of a kind fail."""
    await lab.broker.call(Operations.disk_fail, body.call, body.path, body.error, body.times)
    return CarriedOut()


async def disk_tear(lab: Lab, body: DiskTear) -> CarriedOut:
    """Have the next append to a file leave a part of it."""
    await lab.broker.call(Operations.disk_tear, body.path, body.keep)
    return CarriedOut()


async def disk_slow(lab: Lab, body: DiskSlow) -> CarriedOut:
    """Have each sync take so long."""
    await lab.broker.call(Operations.disk_slow, body.call, body.ms, body.jitter)
    return CarriedOut()


async def disk_stop(lab: Lab, body: DiskStop) -> CarriedOut:
    """Crash half-way through a later call to the disk."""
    await lab.broker.call(Operations.disk_stop_at, body.call)
    return CarriedOut()


async def disk_lose(lab: Lab) -> CarriedOut:
    """Have the next loss of power take all that was not synced."""
    await lab.broker.call(Operations.disk_lose_unsynced)
    return CarriedOut()


async def disk_heal(lab: Lab) -> CarriedOut:
    """End all faults of the disk."""
    await lab.broker.call(Operations.disk_heal)
    return CarriedOut()


# Network --------------------------------------------------------------------------------------------------------------


async def network_partition(lab: Lab, body: Partition) -> ConnectionCount:
    """Cut clients off: nothing passes until the network heals."""
    match = {name: value for name, value in msgspec.to_builtins(body).items() if name != "refuse"}
    return ConnectionCount(await lab.broker.call(Operations.network_partition, match, body.refuse))


async def network_heal(lab: Lab) -> CarriedOut:
    """End all cuts; what was under way arrives."""
    await lab.broker.network.heal()
    return CarriedOut()


async def network_latency(lab: Lab, body: Latency) -> CarriedOut:
    """Have each request arrive late."""
    await lab.broker.network.latency(body.ms, body.jitter)
    return CarriedOut()


async def network_bandwidth(lab: Lab, body: Bandwidth) -> CarriedOut:
    """Let so many bytes pass in a second."""
    await lab.broker.network.bandwidth(body.bytes_per_s)
    return CarriedOut()


async def network_reset(lab: Lab) -> ConnectionCount:
    """Reset all connections."""
    return ConnectionCount(await lab.broker.network.reset_all())


# Snapshots ------------------------------------------------------------------------------------------------------------


async def keep_snapshot(lab: Lab) -> SnapshotSeen:
    """Keep a copy of all that is on the broker's disk."""
    return _kept(lab, await lab.broker.snapshot())


async def state(lab: Lab, body: SnapshotNamed) -> CarriedOut:
    """Go on from a snapshot; connections are reset."""
    await lab.broker.restore(lab.snapshot(body.snapshot))
    return CarriedOut()


async def download(lab: Lab, snapshot: str) -> Base64:
    """A snapshot as a tar of a data directory, in base64."""
    return Base64(base64.b64encode(_tar_of(lab.snapshot(snapshot))).decode())


async def upload(lab: Lab, body: Base64) -> SnapshotSeen:
    """Keep a snapshot that was saved before."""
    try:
        data = base64.b64decode(body.base64, validate=True)
    except (binascii.Error, ValueError):
        raise LabError("base64 holds the tar of a snapshot, as GET /snapshots/{snapshot}/file has it") from None
    return _kept(lab, _snapshot_in(data))


def _tar_of(snapshot: Snapshot) -> bytes:
    with tempfile.TemporaryDirectory(prefix="eosin-lab-") as folder:
        path = Path(folder, "snapshot")
        snapshot.save(path)
        return path.read_bytes()


def _snapshot_in(tar: bytes) -> Snapshot:
    with tempfile.TemporaryDirectory(prefix="eosin-lab-") as folder:
        path = Path(folder, "snapshot")
        path.write_bytes(tar)
        try:
            return Snapshot.load(path)
        except LabError:
            raise LabError("this is no snapshot of a broker: GET /snapshots/{snapshot}/file has one") from None


def _kept(lab: Lab, snapshot: Snapshot) -> SnapshotSeen:
    return SnapshotSeen(lab.keep(snapshot), snapshot.now_ms, sum(map(len, snapshot.files.values())))


ENDPOINTS: Final = (
    ControlPath("GET", "/", root),
    ControlPath("GET", "/readyz", ready, also={NOT_READY: "the broker does not run"}),
    ControlPath("PUT", "/advertise", advertise, in_batch=False, errors=(BROKER_DOWN,)),
    ControlPath("POST", "/broker/crash", crash, in_batch=False, errors=(BROKER_DOWN,)),
    ControlPath("POST", "/broker/restart", restart, in_batch=False, errors=(BROKER_DOWN,)),
    ControlPath("POST", "/broker/stop", stop, in_batch=False, errors=(BAD_REQUEST, BROKER_DOWN)),
    ControlPath("POST", "/broker/start", start, in_batch=False),
    ControlPath("POST", "/broker/reset", reset, in_batch=False),
    ControlPath("POST", "/broker/settle", settle, in_batch=False, errors=(WAIT_OVER,)),
    ControlPath("PUT", "/broker/state", state, in_batch=False),
    ControlPath("GET", "/clock", clock),
    ControlPath("POST", "/clock/advance", advance, errors=(NOT_IDLE,)),
    ControlPath("POST", "/clock/freeze", freeze),
    ControlPath("POST", "/clock/flow", flow),
    ControlPath("POST", "/clock/jump", jump),
    ControlPath("GET", "/clock/deadlines", deadlines),
    ControlPath("POST", "/disk/full", disk_full),
    ControlPath("POST", "/disk/free", disk_free, errors=(BAD_REQUEST,)),
    ControlPath("POST", "/disk/fail", disk_fail),
    ControlPath("POST", "/disk/tear", disk_tear),
    ControlPath("POST", "/disk/slow", disk_slow),
    ControlPath("POST", "/disk/stop", disk_stop),
    ControlPath("POST", "/disk/lose", disk_lose, errors=(BAD_REQUEST,)),
    ControlPath("POST", "/disk/heal", disk_heal, errors=(BAD_REQUEST,)),
    ControlPath("POST", "/network/partition", network_partition),
    ControlPath("POST", "/network/heal", network_heal),
    ControlPath("POST", "/network/latency", network_latency),
    ControlPath("POST", "/network/bandwidth", network_bandwidth),
    ControlPath("POST", "/network/reset", network_reset),
    ControlPath("POST", "/snapshots", keep_snapshot, status=201, errors=(BAD_REQUEST,)),
    ControlPath("GET", "/snapshots/{snapshot}/file", download),
    ControlPath("POST", "/snapshots/file", upload, status=201),
)
