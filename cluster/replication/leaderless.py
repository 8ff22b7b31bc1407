"""`LeaderlessPartitions`: what the log says of partitions that nobody leads and of which this broker has a copy.

The controllers elect nobody whose copy they do not know to be complete, however many machines have every record. So
the log tells how far each copy reaches that can be asked, whom the controllers wait for, and what lets another one
lead (cluster.md 4.18). Always true: a partition is told once for each time that it has no leader, when that has lasted
`PATIENCE_MS`; one look tells of `MAX_REPORTED`, and of more by their number.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from eosin.cluster.replication.directories import copies_elsewhere, directory_of
from eosin.model.cluster import NO_LEADER
from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta, PartitionRegistration
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.cluster.replication")

PATIENCE_MS: Final = 10_000
"""Elections take less, and so do brokers that restart."""
MAX_REPORTED: Final = 10


class LogEnds(Protocol):
    """Asks other brokers where their logs end: `PeerLogEnds`."""

    async def fetch(self, node_id: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The log ends that broker `node_id` tells; none of those that it does not."""


class LeaderlessPartitions:
    """The copies of this broker that are of no use at the moment."""

    def __init__(
        self,
        node_id: int,
        image: "ClusterImage",
        *,
        directory_id: Uuid,
        log: "Callable[[TopicPartition], PartitionLog | None]",
        ends: LogEnds,
        clock: Clock,
    ) -> None:
        """`log` gives the log of a replica that this broker holds; None for one that could not be opened."""
        self._node_id = node_id
        self._image = image
        self._directory_id = directory_id
        self._log = log
        self._ends = ends
        self._clock = clock
        self._since: dict[TopicPartition, int] = {}
        """Since when nobody leads them, of those that were not told yet."""
        for topic in image.topics.values():
            for index, registration in topic.partitions.items():
                self._judge(TopicPartition(topic.name, index), None, registration)

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        self._image = delta.after
        for partition, before, after in delta.partitions_changed:
            self._judge(partition, before, after)

    def _judge(
        self,
        partition: TopicPartition,
        before: "PartitionRegistration | None",
        after: "PartitionRegistration | None",
    ) -> None:
        if not self._is_idle(after):
            self._since.pop(partition, None)
        elif not self._is_idle(before):
            self._since[partition] = self._clock.elapsed_ms()

    def _is_idle(self, registration: "PartitionRegistration | None") -> bool:
        return registration is not None and registration.leader == NO_LEADER and self._node_id in registration.replicas

    async def check(self) -> None:
        """Tell of those that nobody has led for long enough. To be called again and again; costs nothing while every
        partition has a leader."""
        if not self._since:
            return
        due_ms = self._clock.elapsed_ms() - PATIENCE_MS
        due = [partition for partition, since_ms in self._since.items() if since_ms <= due_ms]
        for partition in due:
            del self._since[partition]
        told = {partition: found for partition in due[:MAX_REPORTED] if (found := self._image.partition(*partition))}
        ends = await self._request(told)
        for partition, registration in told.items():
            if self._is_idle(self._image.partition(*partition)):
                self._log_election(partition, registration, ends)
        if len(due) > MAX_REPORTED:
            _LOG.error(
                "%d more partitions have no leader and a copy on this broker: eosin cluster describe --partitions shows"
                " how far each copy reaches",
                len(due) - MAX_REPORTED,
            )

    async def _request(
        self, partitions: "Mapping[TopicPartition, PartitionRegistration]"
    ) -> Mapping[int, Mapping[TopicPartition, int]]:
        """By broker, where its copies end."""
        wanted: dict[int, list[TopicPartition]] = {}
        for partition, registration in partitions.items():
            for node_id in copies_elsewhere(registration, self._node_id, self._image.brokers):
                wanted.setdefault(node_id, []).append(partition)
        answers = await asyncio.gather(*(self._ends.fetch(node_id, asked) for node_id, asked in wanted.items()))
        return dict(zip(wanted, answers, strict=True))

    def _log_election(
        self,
        partition: TopicPartition,
        registration: "PartitionRegistration",
        ends: Mapping[int, Mapping[TopicPartition, int]],
    ) -> None:
        log = self._log(partition)
        own = None if log is None or log.failure is not None else log.log_end_offset
        told = {node_id: of_node[partition] for node_id, of_node in ends.items() if partition in of_node}
        is_ours = directory_of(registration, self._node_id) == self._directory_id
        if is_ours and self._node_id in (registration.isr or registration.elr):
            return  # the controllers may elect it: they are about to, or say themselves what is wrong
        _LOG.error("%s", sentence(partition, registration, self._node_id, own=own, is_ours=is_ours, told=told))


def sentence(
    partition: TopicPartition,
    registration: "PartitionRegistration",
    node_id: int,
    *,
    own: int | None,
    is_ours: bool,
    told: Mapping[int, int],
) -> str:
    """Describes what is known of the copies of a partition that nobody leads. `own` is the end of the copy here, None
    for none that can be read; `is_ours` whether the cluster has it in this broker's directory; `told` are the ends of
    others."""
    complete = registration.isr or registration.elr
    waits = f"{_named(complete)}, known to be complete" if complete else "a complete copy"
    if own is None:
        here = "The copy on this broker cannot be read"
    elif is_ours and all(end <= own for end in told.values()):
        here = f"This broker has a complete copy, as far as others can be asked, up to {own}, and is not electable"
    elif is_ours:
        here = f"This broker has a copy up to {own}, and is not electable"
    else:
        here = f"This broker has what it could copy since it lost its own, up to {own}, and is not electable"
    others = [f"broker {node} has one up to {end}" for node, end in told.items()]
    silent = [node for node in registration.replicas if node != node_id and node not in told]
    if silent:
        others.append(f"{_named(silent)} cannot be asked")
    copies = "; ".join((here, ", ".join(others) or "nobody has another"))
    return (
        f"{partition} has no leader: the controllers wait for {waits}. {copies}. If no complete copy returns, an"
        " unclean election lets the first replica lead that runs, and what only others had is gone"
        f" (kafka-leader-election.sh --election-type unclean --topic {partition.topic}"
        f" --partition {partition.partition})"
    )


def _named(nodes: Collection[int]) -> str:
    return f"broker{'s' * (len(nodes) > 1)} {', '.join(map(str, nodes))}"
