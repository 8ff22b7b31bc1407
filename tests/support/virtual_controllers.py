"""The controllers of a cluster in a virtual test: the model of `fake_controller.py`, at addresses of its network.

What it stands for is Apache Kafka's: `tests/cluster/quorum/test_fake_controller.py` holds it against a recording, and
`tests/clusters` has a test of each kind with a real one.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from quorum_log import HOST
from simulation.cluster.controllers import CLUSTER_ID, CONTROLLERS, ControllerConnection, Controllers
from simulation.loop import Process
from virtual_time import VirtualLoop

from eosin.protocol.types import Message

FEATURES: Final = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}


class VirtualControllers:
    """Three of them, one of which is active."""

    cluster_id: Final = CLUSTER_ID
    address: Final = ",".join(f"{HOST}:{node_id}" for node_id in CONTROLLERS)
    """The addresses of all, as `controller.quorum.bootstrap.servers` wants them."""

    def __init__(self, *, session_timeout_ms: int = 3000, features: Mapping[str, int] | None = None) -> None:
        """`features` go over the levels of FEATURES."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "without the mark `virtual`, ask a real controller (kraft_node.py)"
        self._loop = loop
        process = loop.new_process("controllers")
        self.quorum = Controllers(
            process, "virtual", features={**FEATURES, **(features or {})}, session_timeout_ms=session_timeout_ms
        )
        for node_id in CONTROLLERS:
            loop.network.listen(HOST, node_id, lambda of=node_id: self._accept(of))

    def _accept(self, node_id: int) -> tuple[Process, ControllerConnection] | None:
        return None if self.quorum.is_out else (self.quorum.process, ControllerConnection(self.quorum, node_id))

    def write(self, *records: Message) -> None:
        """Have the controllers decide what a test says."""
        self.quorum.write(records)

    def stop(self) -> None:
        """All of them go away: connections end, and new ones are refused, until `succeed`."""
        self.quorum.is_out = True
        self._loop.network.forget(self.quorum.process)

    def succeed(self) -> None:
        """They are there again, and another one becomes active."""
        self.quorum.fail_over()
