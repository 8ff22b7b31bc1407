"""A broker of the test's own, at an address: a process, or, for a test with the mark `virtual`, in the world of that.

`VirtualBroker` is the broker of a simulated machine without its faults: the code from `Connection` to the disk, in an
event loop of its own, reached through the virtual network. It can be stopped, killed and started again with its files.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from asked_broker import KILLED, STOPPED, Restartable, broker_of_ours, restartable_broker
from simulation.loop import Process
from simulation.machine import LISTENER, Machine, Pace
from virtual_time import VirtualLoop

from eosin.node.configuration import load_config
from eosin.node.running import RunningNode
from eosin.settings.broker import BrokerConfig

HOST: Final = "127.0.0.1"
POWER_LOST: Final = "power"
"""An end of the whole machine, beside those of `asked_broker`: only a `VirtualBroker` comes to it."""
DISK_BYTES: Final = 1 << 40
SECTOR_BYTES: Final = 512
"""What a loss of power keeps or loses as a whole, where no simulation makes sectors smaller."""
SMALL: Final[Mapping[str, str]] = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "eosin.disk.reserve.bytes": "0",
    "eosin.journal.size.bytes": "65536",
}
"""A broker that lives for one test has no use for fifty partitions, and holds no megabytes back in memory."""


class OwnBroker(Protocol):
    """A broker that an asynchronous test may restart; it keeps its address and its files."""

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""

    async def restart(self, how: str = STOPPED) -> None:
        """End it so, start it again, and wait until it serves."""


class VirtualBroker:
    """An `OwnBroker` of the world of the running test. The end of the test is its end, too."""

    def __init__(self, settings: Mapping[str, str], *, durability: str = "os") -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "only a test with the mark `virtual` has virtual brokers"
        self._loop = loop
        host, port = at = HOST, loop.network.free_port()
        self.address = f"{host}:{port}"
        told = {"advertised.listeners": f"{LISTENER}://{self.address}"}
        config = load_config(flags={"eosin.durability": durability, **told, **SMALL, **settings}).config
        self._machine = _MachineInWorld(loop, replace(config, listeners=()), at)
        loop.network.listen(host, port, self._machine.accepted)

    @property
    def server(self) -> RunningNode:
        """The broker that serves."""
        assert self._machine.server is not None
        return self._machine.server

    async def start(self) -> None:
        """Start, and wait until it serves."""
        machine = self._machine
        ready = self._loop.create_future()
        machine.changed = lambda: None if ready.done() else ready.set_result(None)
        machine.start()
        await ready
        if machine.start_error is not None:
            raise machine.start_error

    async def restart(self, how: str = STOPPED) -> None:
        """End it so, start it again, and wait until it serves."""
        machine = self._machine
        process = machine.process
        assert process is not None
        if how in (KILLED, POWER_LOST):
            machine.crash(power=how == POWER_LOST)
        else:
            stopped = self._loop.create_future()
            machine.stop(lambda: stopped.set_result(None))
            await stopped
        self._loop.network.forget(process)
        await self.start()


class _MachineInWorld(Machine):
    """A machine in the world of a test, which tells clients the address where the test finds it."""

    def __init__(self, loop: VirtualLoop, config: BrokerConfig, address: tuple[str, int]) -> None:
        super().__init__(loop.scheduler, config=config, seed=f"{address}", pace=Pace())
        self._loop = loop
        self.address = address
        self.disk.total = DISK_BYTES
        self.disk.sector_bytes = SECTOR_BYTES

    def _new_process(self) -> Process:
        return self._loop.new_process(f"broker {self.address}, start {self.starts}")

    def accepted(self) -> "tuple[Process, asyncio.BaseProtocol] | None":
        """The process and the protocol of a new connection; None while nobody serves."""
        if self.server is None or self.process is None:
            return None
        connection = self.accept()
        return None if connection is None else (self.process, connection)


class _InThread:
    """A `Restartable` as an `OwnBroker`."""

    def __init__(self, broker: Restartable) -> None:
        self._broker = broker
        self.address = broker.address

    async def restart(self, how: str = STOPPED) -> None:
        await asyncio.to_thread(self._broker.restart, how)


@asynccontextmanager
async def own_broker(
    data_dir: Path, settings: Mapping[str, str] | None = None, *, durability: str = "os", asked: bool = False
) -> AsyncIterator[OwnBroker]:
    """A fresh Eosin with these settings; with `asked` the other broker that stands for it, where there is one."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):
        broker = VirtualBroker(settings or {}, durability=durability)
        await broker.start()
        yield broker
        return
    started = restartable_broker if asked else broker_of_ours
    with started(data_dir, settings, durability=durability) as process:
        yield _InThread(process)
