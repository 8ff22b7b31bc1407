"""`DirectoryAssignments`: tells the controller in which directory a replica of this broker is, or that it is lost
(AssignReplicasToDirs v0; KIP-858, cluster.md 4.18).

Always true: one request is on its way, with at most 2250 partitions; the last word about a replica counts; a word is
repeated until the controller has taken it, or the image shows that it means nothing any more.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from eosin.client.errors import ClientError
from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicIdPartition, Uuid
from eosin.protocol.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

LOST_DIRECTORY: Final[Uuid] = (2).to_bytes(16, "big")
"""Says that a replica is gone: it cannot be elected, and leaves the ISR where others are in it."""
MAX_PARTITIONS: Final = 2250
"""In one request; Kafka's own limit."""
FIRST_BACKOFF_MS: Final = 100
LONGEST_BACKOFF_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 60_000
_MEANS_NOTHING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""Errors of a partition that is not there, or not this broker's: for good, if the image says the same."""

IsWanted = Callable[[TopicIdPartition, Uuid], bool]
"""True if the image has this broker among the replicas of a partition, and in another directory."""


class Assignment(NamedTuple):
    """A replica's directory, and who waits until the controller knows it."""

    directory_id: Uuid
    known: "asyncio.Future[None]"


class DirectoryAssignments:
    """The one sender of a broker."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        is_wanted: IsWanted,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """`channel` is for this purpose alone. `broker_epoch` tells the one of now."""
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._is_wanted = is_wanted
        self._clock = clock
        self._chance = chance
        self._waiting: dict[TopicIdPartition, Assignment] = {}
        self._sender: asyncio.Task[None] | None = None
        self._failures = 0

    def assign(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> "asyncio.Future[None]":
        """Tell that a replica is in a directory, or `LOST_DIRECTORY`. Assigning our own vouches for its content. The
        future is done when the controller has taken it, or when it means nothing any more."""
        key = TopicIdPartition(topic_id, partition)
        earlier = self._waiting.get(key)
        if earlier is not None and earlier.directory_id == directory_id:
            return earlier.known
        known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if earlier is not None:  # it never will be known, and whoever waits for it hears of the later one
            known.add_done_callback(lambda _: _finish(earlier.known))
        self._waiting[key] = Assignment(directory_id, known)
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())
        return known

    async def close(self) -> None:
        """Send nothing more; futures that are not done are cancelled."""
        sender = self._sender
        if sender is not None:
            sender.cancel()
            await asyncio.wait((sender,))
        for assignment in self._waiting.values():
            assignment.known.cancel()
        self._waiting.clear()
        await self._channel.close()

    async def _send(self) -> None:
        try:
            while self._waiting:
                batch = dict(list(self._waiting.items())[:MAX_PARTITIONS])
                if await self._exchange(batch):
                    self._failures = 0
                    continue
                self._failures += 1
                wait_ms = backoff_ms(
                    self._failures, first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS, chance=self._chance
                )
                await self._clock.sleep(wait_ms)
        finally:  # in the step that finds nothing to send, so that whoever asks next starts another
            self._sender = None

    async def _exchange(self, batch: dict[TopicIdPartition, Assignment]) -> bool:
        """Send one request; whether all of it was taken, or means nothing."""
        request = assignment_request(
            {partition: each.directory_id for partition, each in batch.items()},
            node_id=self._node_id,
            broker_epoch=self._broker_epoch(),
        )
        try:
            response: AssignReplicasToDirsResponse = await self._channel.request(
                ApiKey.ASSIGN_REPLICAS_TO_DIRS, request, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except (ControllerUnavailable, ClientError) as error:
            _LOG.warning("the controller cannot be told where replicas are: %s", error)
            return False
        if response.error_code != ErrorCode.NONE:
            if self._failures == 0:
                _LOG.warning("the controller does not take where replicas are: error %d", response.error_code)
            return False
        errors = partition_errors(response)
        is_taken = True
        for partition, assignment in batch.items():
            code = errors.get((assignment.directory_id, partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if code == ErrorCode.NONE or self._means_nothing(partition, assignment, code):
                self._assign(partition, assignment)
            else:
                is_taken = False
        return is_taken

    def _means_nothing(self, partition: TopicIdPartition, assignment: Assignment, error: int) -> bool:
        return error in _MEANS_NOTHING and not self._is_wanted(partition, assignment.directory_id)

    def _assign(self, partition: TopicIdPartition, assignment: Assignment) -> None:
        if self._waiting.get(partition) is assignment:
            del self._waiting[partition]
        _finish(assignment.known)


def assignment_request(
    directories: dict[TopicIdPartition, Uuid], *, node_id: int, broker_epoch: int
) -> AssignReplicasToDirsRequest:
    """The request that puts each replica into its directory."""
    tree: dict[Uuid, dict[Uuid, list[PartitionData]]] = {}
    for (topic_id, partition), directory_id in directories.items():
        tree.setdefault(directory_id, {}).setdefault(topic_id, []).append(PartitionData(partition))
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=tuple(
            DirectoryData(directory_id, tuple(TopicData(topic_id, tuple(each)) for topic_id, each in topics.items()))
            for directory_id, topics in tree.items()
        ),
    )


def partition_errors(response: AssignReplicasToDirsResponse) -> dict[tuple[Uuid, TopicIdPartition], int]:
    """The error of each replica, by the directory that it was put into."""
    return {
        (directory.id, TopicIdPartition(topic.topic_id, each.partition_index)): each.error_code
        for directory in response.directories
        for topic in directory.topics
        for each in topic.partitions
    }


def _finish(known: "asyncio.Future[None]") -> None:
    if not known.done():
        known.set_result(None)
