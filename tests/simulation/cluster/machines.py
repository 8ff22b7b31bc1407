"""Machines of a cluster: each a whole broker that joins."""

import asyncio

from eosin.cluster.membership.envelopes import LANES
from eosin.network.connection import ServerConnection
from eosin.node.joined_node import JoinedNode
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.settings.broker import BrokerConfig
from eosin.settings.start_error import StartError
from eosin.storage.manager import LogManager
from simulation.cluster.fabric import Fabric, HostProcess, Listening
from simulation.loop import Process, Scheduler
from simulation.machine import LISTENER, Machine, Pace

PORT = 9092


def host_of(node_id: int) -> str:
    """The name of a broker's machine in the network."""
    return f"broker-{node_id}"


class JoinedMachine(Machine):
    """One machine, whose broker comes back after a stop or a crash only when it is started."""

    def __init__(
        self,
        scheduler: Scheduler,
        node_id: int,
        address: tuple[str, int],
        *,
        config: BrokerConfig,
        seed: str,
        pace: Pace,
    ) -> None:
        super().__init__(scheduler, config=config, seed=f"{seed}/{node_id}", pace=pace)
        self.node_id = node_id
        self.address = address
        self.is_stopping = False
        self.is_unfenced = False
        """Whether its start has come to an end."""
        self._stop = asyncio.Event()

    def _new_process(self) -> Process:
        self._stop = asyncio.Event()
        self.is_stopping = self.is_unfenced = False
        return self._networked(f"broker {self.node_id} ({self.starts})")

    def _networked(self, name: str) -> Process:
        """A process that reaches controllers and other brokers."""
        raise NotImplementedError

    def _listening(self, server: RunningNode) -> None:
        self.server = server
        self.changed()

    @property
    def logs(self) -> LogManager | None:
        """The replicas of the broker that listens."""
        return None if self.server is None else self.server.logs

    def sends_markers_to(self) -> list[int]:
        """The brokers to which markers of this one are on their way."""
        part = None if self.server is None else self.server.part
        targets = part.other_brokers._targets if isinstance(part, JoinedNode) else {}
        return [node_id for node_id, target in targets.items() if target._sending]

    def passes_on(self) -> bool:
        """True if a client's request is on its way from this broker to the controllers."""
        part = None if self.server is None else self.server.part
        return isinstance(part, JoinedNode) and len(part._joining.envelopes._idle) < LANES

    def _startup(self, process: Process, node: Node) -> None:
        task = process.create_task(self._serve(node))
        task.add_done_callback(lambda ended: self._served(process, ended))

    async def _serve(self, node: Node) -> None:
        server = await node.start()
        self.is_unfenced = True
        self.changed()
        await server.stopped(self._stop)
        self.server = None
        self.changed()
        await server.shutdown()

    def _served(self, process: Process, task: "asyncio.Task[None]") -> None:
        """The process ends: after a clean stop, a start that failed, or when it was no member any more."""
        error = task.exception()
        if error is not None:
            if not isinstance(error, StartError):
                self.scheduler.report(process, {"message": "the broker has ended", "exception": error})
            self.start_error = error
        self.crash()

    def replace_disk(self) -> None:
        """Somebody puts an empty disk into the machine, while it is off."""
        assert self.process is None
        self.disk = self.disk.replaced()

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        if self.process is not None:
            self.is_stopping = True
            self.process.call_soon(self._stop.set)


class ClusterMachine(JoinedMachine):
    """One in a network that others may cut."""

    def __init__(
        self, scheduler: Scheduler, fabric: Fabric, node_id: int, *, config: BrokerConfig, seed: str, pace: Pace
    ) -> None:
        super().__init__(scheduler, node_id, (host_of(node_id), PORT), config=config, seed=seed, pace=pace)
        self.host = self.name = host_of(node_id)
        self._fabric = fabric
        fabric.accepts[self.host, PORT] = self._accept

    def _accept(self) -> Listening | None:
        server, process = self.server, self.process
        if server is None or process is None or server.is_stopping:
            return None
        return Listening(process, lambda: ServerConnection(server.host, LISTENER, process))

    def _networked(self, name: str) -> Process:
        return HostProcess(self.scheduler, name, host=self.host, fabric=self._fabric)  # type: ignore[abstract]
