"""Moments for which a fault waits: something is on its way between two machines, and a cut holds it there."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from eosin.protocol.names import INTERNAL_TOPICS
from eosin.storage.log.partition_log import PartitionLog
from simulation.cluster.machines import ClusterMachine, host_of
from simulation.history import NEVER, History

MARKERS_SOON_S: Final = 1.0
"""A fault that waits for markers begins when they are on their way, or after this."""
DELETION_SOON_S: Final = 2.0
"""The same for the deletion of a topic."""
LOOKS: Final = 10
"""So often somebody looks in the time that a message between machines takes at most."""
_Found = TypeVar("_Found")


class LackingReplica(NamedTuple):
    """A replica to which a marker is on its way."""

    topic: str
    leader: ClusterMachine
    """Of the partition in which the marker is."""
    follower: ClusterMachine
    """Whoever lacks it."""


class Moments:
    """What is on its way in a run."""

    def __init__(self, machines: Sequence[ClusterMachine], history: History, *, link_ms: float) -> None:
        """`link_ms`: how long a message between machines takes at most."""
        self._machines = machines
        self._history = history
        self._look_s = link_ms / (1000 * LOOKS)

    async def markers_on_their_way(self) -> tuple[str, str] | None:
        """Wait until a broker has sent another one markers that are not there yet: the hosts of both. None when that
        does not come soon."""
        return await self._soon(self._markers_on_their_way, MARKERS_SOON_S)

    async def deletion_on_its_way(self) -> str | None:
        """Wait until a broker has passed on the deletion of a topic, and has no answer yet: its host. None when that
        does not come soon."""
        return await self._soon(self._deletion_on_its_way, DELETION_SOON_S)

    async def marker_not_replicated(self) -> LackingReplica | None:
        """Wait until a leader has written a marker that a follower does not have yet. None when that does not come
        soon."""
        return await self._soon(self._marker_not_replicated, MARKERS_SOON_S)

    async def _soon(self, look: Callable[[], _Found | None], within_s: float) -> _Found | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while loop.time() < until:
            found = look()
            if found is not None:
                return found
            await asyncio.sleep(self._look_s)
        return None

    def _markers_on_their_way(self) -> tuple[str, str] | None:
        for machine in self._machines:
            for node_id in machine.sends_markers_to():
                return machine.host, host_of(node_id)
        return None

    def _deletion_on_its_way(self) -> str | None:
        deletions = self._history.deletions
        if deletions and deletions[-1].answered == NEVER:
            for machine in self._machines:
                if machine.passes_on():
                    return machine.host
        return None

    def _marker_not_replicated(self) -> LackingReplica | None:
        replicas = [(machine, machine.logs.logs) for machine in self._machines if machine.logs is not None]
        for leader, logs in replicas:
            for partition, log in logs.items():
                marker = _newest_marker(log)
                if marker is None or partition.topic in INTERNAL_TOPICS:
                    continue
                for follower, others in replicas:
                    other = others.get(partition)
                    if other is not None and other.log_end_offset <= marker:
                        return LackingReplica(partition.topic, leader, follower)
        return None


def _newest_marker(log: PartitionLog) -> int | None:
    """The offset of a leader's last marker that not all of those in sync are known to have; None for a follower."""
    unreplicated = log.producer_state.transactions._unreplicated
    return unreplicated[-1][0] if unreplicated and log._no_appends is None else None
