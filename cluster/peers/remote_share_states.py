"""`ShareStateRoutes`: the states of share partitions at their coordinators, on this broker or another (KIP-932;
share-state.md 6).

Always true: the coordinator of a state is the broker that leads its partition of `__share_group_state` in the image of
now, so nobody has to be asked for it; what is asked for in one turn of the event loop, of one group, goes to a broker
in one request; at most `MAX_IN_FLIGHT` requests are on their way to it; when another broker leads such a partition, no
answer about it is waited for any more. An answer that does not come is COORDINATOR_NOT_AVAILABLE: the request may have
been carried out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.client.errors import known_code
from eosin.cluster.peers.connections import OtherBroker, Peers, PeerUnreachable
from eosin.cluster.peers.remote_markers import led_no_more
from eosin.coordinator.share_state.partitions import state_partition
from eosin.coordinator.share_state.rules.write_errors import of_state
from eosin.coordinator.share_states import (
    DeliveryState,
    SharePartition,
    ShareState,
    ShareStateStore,
    ShareStateSummary,
    StateBatch,
)
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, TopicPartition, Uuid
from eosin.protocol.schemas import delete_share_group_state as deletion
from eosin.protocol.schemas import initialize_share_group_state as initialization
from eosin.protocol.schemas import read_share_group_state as reading
from eosin.protocol.schemas import read_share_group_state_summary as summing_up
from eosin.protocol.schemas import write_share_group_state as writing
from eosin.protocol.types import Message

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ImageDelta
    from eosin.model.cluster import Cluster

_LOG: Final = logging.getLogger("eosin.cluster.peers")

MAX_IN_FLIGHT: Final = 5
"""Requests on their way to one broker."""
MAX_PARTITIONS: Final = 100
"""Share partitions of one request."""
ANY_EPOCH: Final = -1
WANTED_AGAIN_S: Final = 1.0
"""After so long a topic that is missing is wanted once more: a controller that refuses it is a line in the log."""


class StateRequest(NamedTuple):
    """One of the requests about states: all of them name share partitions of one group, by topic."""

    key: ApiKey
    request: type[Message]
    topic: type[Message]


INITIALIZE: Final = StateRequest(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initialization.InitializeShareGroupStateRequest,
    initialization.InitializeStateData,
)
READ: Final = StateRequest(ApiKey.READ_SHARE_GROUP_STATE, reading.ReadShareGroupStateRequest, reading.ReadStateData)
WRITE: Final = StateRequest(ApiKey.WRITE_SHARE_GROUP_STATE, writing.WriteShareGroupStateRequest, writing.WriteStateData)
DELETE: Final = StateRequest(
    ApiKey.DELETE_SHARE_GROUP_STATE, deletion.DeleteShareGroupStateRequest, deletion.DeleteStateData
)
SUMMARY: Final = StateRequest(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    summing_up.ReadShareGroupStateSummaryRequest,
    summing_up.ReadStateSummaryData,
)


class _PendingPart(NamedTuple):
    partition: SharePartition
    part: Message
    """The share partition's part of the request."""
    answer: "asyncio.Future[Any]"
    """The share partition's part of the response, or an error."""


class RemoteShareCoordinator:
    """The share coordinator of one other broker."""

    def __init__(self, peer: OtherBroker) -> None:
        self._peer = peer
        self._waiting: dict[tuple[StateRequest, str], list[_PendingPart]] = {}
        self._sending: dict[asyncio.Task[None], Sequence[_PendingPart]] = {}
        self._is_scheduled = False

    async def request(self, request: StateRequest, partition: SharePartition, part: Message) -> Any:
        """The share partition's part of the response, whatever error is in it; else why there is none."""
        loop = asyncio.get_running_loop()
        asked = _PendingPart(partition, part, loop.create_future())
        self._waiting.setdefault((request, partition.group_id), []).append(asked)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._send)
        return await asked.answer

    def coordinates_no_more(self, is_moved: Callable[[SharePartition], bool]) -> None:
        """Other brokers coordinate such share partitions now: if one of them is asked about, wait for nothing any
        more."""
        waiting = [each for some in self._waiting.values() for each in some]
        on_their_way = (each for some in self._sending.values() for each in some)
        if not any(is_moved(each.partition) for each in (*waiting, *on_their_way)):
            return
        self._waiting.clear()
        _settle(waiting, ErrorCode.NOT_COORDINATOR)
        self._peer.give_up("it does not coordinate the share partition any more")

    async def close(self) -> None:
        """Ask for nothing more; whoever waits hears that the coordinator was not reached."""
        waiting, self._waiting = self._waiting, {}  # first: the end of a request sends the next one
        for some in waiting.values():
            _settle(some, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _send(self) -> None:
        self._is_scheduled = False
        while self._waiting and len(self._sending) < MAX_IN_FLIGHT:
            (request, group_id), some = next(iter(self._waiting.items()))
            del self._waiting[request, group_id]
            wanted = [each for each in some if not each.answer.done()]  # others have given up
            batch, left = wanted[:MAX_PARTITIONS], wanted[MAX_PARTITIONS:]
            if left:
                self._waiting[request, group_id] = left
            if batch:
                task = asyncio.get_running_loop().create_task(self._exchange(request, group_id, batch))
                self._sending[task] = batch
                task.add_done_callback(self._sent)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        del self._sending[task]
        self._send()

    async def _exchange(self, request: StateRequest, group_id: str, batch: Sequence[_PendingPart]) -> None:
        try:
            response, _ = await self._peer.request(request.key, request.request(group_id, _topics(request, batch)))
        except PeerUnreachable:
            _settle(batch, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        except asyncio.CancelledError:
            _settle(batch, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            raise
        found = {(topic.topic_id, each.partition): each for topic in response.results for each in topic.partitions}
        for asked in batch:
            if not asked.answer.done():
                told = found.get((asked.partition.topic_id, asked.partition.partition))
                asked.answer.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE if told is None else told)


def _topics(request: StateRequest, batch: Iterable[_PendingPart]) -> tuple[Message, ...]:
    topics: dict[Uuid, list[Message]] = {}
    for asked in batch:
        topics.setdefault(asked.partition.topic_id, []).append(asked.part)
    return tuple(request.topic(topic_id, tuple(parts)) for topic_id, parts in topics.items())


def _settle(some: Iterable[_PendingPart], error: ErrorCode) -> None:
    for asked in some:
        if not asked.answer.done():
            asked.answer.set_result(error)


class RemoteShareCoordinators:
    """The share coordinators of the other brokers."""

    def __init__(self, cluster: "Cluster", peers: Peers) -> None:
        """`peers` are asked for nothing else: a coordinator whose log is not committed keeps them waiting."""
        self._cluster = cluster
        self._peers = peers
        self._remote: dict[int, RemoteShareCoordinator] = {}
        self._refused: set[ErrorCode] = set()
        self._wanted_s = -WANTED_AGAIN_S
        """The time of the event loop when the topic was wanted last."""

    def coordinator(self, partition: SharePartition) -> RemoteShareCoordinator | ErrorCode | None:
        """The broker that coordinates a share partition; None for this one."""
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._wanted_s + WANTED_AGAIN_S:
                self._wanted_s = now_s
                self._cluster.want_internal_topic(SHARE_GROUP_STATE_TOPIC)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = state_partition(partition, topic.partitions)
        leader = self._cluster.leader_of(TopicPartition(SHARE_GROUP_STATE_TOPIC, number))
        if leader == self._cluster.node_id:
            return None
        if leader is None or leader == NO_LEADER:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        remote = self._remote.get(leader)
        if remote is None:
            remote = self._remote[leader] = RemoteShareCoordinator(self._peers.peer(leader))
        return remote

    def error_of(self, partition: SharePartition, told: Any) -> ErrorCode:
        """The error in a share partition's part of a response, or in place of one. A topic that the coordinator does
        not know, and this broker does, is one that it has not heard of yet."""
        if isinstance(told, ErrorCode):
            return told
        error = known_code(told.error_code) if told.error_code else ErrorCode.NONE
        if error is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self._cluster.topic_by_id(partition.topic_id)
            is_here = topic is not None and partition.partition < topic.partitions
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_here else error
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and error not in self._refused:
            self._refused.add(error)
            _LOG.error(
                "another broker refuses requests about states of share groups (%s): this broker's principal needs"
                " CLUSTER_ACTION on the cluster",
                told.error_message or error.name,
            )
        return of_state(error)

    def apply(self, delta: "ImageDelta") -> None:
        """Wait for no broker that coordinates share partitions no more about which it was asked."""
        self._peers.apply(delta)
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None or not self._remote:
            return
        for node_id, partitions in led_no_more(delta).items():
            moved = {index for name, index in partitions if name == SHARE_GROUP_STATE_TOPIC}
            if moved and (remote := self._remote.get(node_id)) is not None:
                remote.coordinates_no_more(_among(moved, topic.partitions))

    async def close(self) -> None:
        """Ask for nothing more."""
        for remote in self._remote.values():
            await remote.close()
        await self._peers.close()


def _among(partitions: Set[int], count: int) -> Callable[[SharePartition], bool]:
    """A check if the state of a share partition is in one of these partitions of `__share_group_state`, of so many."""
    return lambda partition: state_partition(partition, count) in partitions


class ShareStateRoutes:
    """Every share coordinator of the cluster (`ShareStateStore`); each call is one attempt."""

    def __init__(self, remote: RemoteShareCoordinators, local: Callable[[], ShareStateStore]) -> None:
        """`local` gives this broker's own, which is made when it is asked for first."""
        self._remote = remote
        self._local = local

    async def initialize(self, partition: SharePartition, *, state_epoch: int, start_offset: int) -> ErrorCode:
        """See `ShareStateStore`."""
        found = self._remote.coordinator(partition)
        if found is None:
            return await self._local().initialize(partition, state_epoch=state_epoch, start_offset=start_offset)
        part = initialization.InitializeStatePartition(partition.partition, state_epoch, start_offset)
        return self._error(partition, await _part_of_response(found, INITIALIZE, partition, part))

    async def read(self, partition: SharePartition, *, leader_epoch: int) -> ShareState | ErrorCode:
        """See `ShareStateStore`."""
        found = self._remote.coordinator(partition)
        if found is None:
            return await self._local().read(partition, leader_epoch=leader_epoch)
        told = await _part_of_response(
            found, READ, partition, reading.ReadStatePartition(partition.partition, leader_epoch)
        )
        error = self._error(partition, told)
        if error:
            return error
        try:
            batches = tuple(
                StateBatch(each.first_offset, each.last_offset, DeliveryState(each.delivery_state), each.delivery_count)
                for each in told.state_batches
            )
        except ValueError:
            _LOG.error("the state of %s has records in a delivery state that nobody knows", partition)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return ShareState(told.state_epoch, told.start_offset, batches)

    async def write(
        self,
        partition: SharePartition,
        batches: Sequence[StateBatch],
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
    ) -> ErrorCode:
        """See `ShareStateStore`."""
        epochs: Mapping[str, int] = {"state_epoch": state_epoch, "leader_epoch": leader_epoch}
        offsets: Mapping[str, int] = {"start_offset": start_offset, "delivery_complete_count": delivery_complete_count}
        found = self._remote.coordinator(partition)
        if found is None:
            return await self._local().write(partition, batches, **epochs, **offsets)
        part = writing.WriteStatePartition(
            partition=partition.partition,
            state_batches=tuple(writing.WriteStateBatch(*each) for each in batches),
            **epochs,
            **offsets,
        )
        return self._error(partition, await _part_of_response(found, WRITE, partition, part))

    async def delete(self, partition: SharePartition) -> ErrorCode:
        """See `ShareStateStore`."""
        found = self._remote.coordinator(partition)
        if found is None:
            return await self._local().delete(partition)
        part = deletion.DeleteStatePartition(partition.partition)
        return self._error(partition, await _part_of_response(found, DELETE, partition, part))

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        """See `ShareStateStore`."""
        found = self._remote.coordinator(partition)
        if found is None:
            return await self._local().summary(partition)
        part = summing_up.ReadStateSummaryPartition(partition.partition, ANY_EPOCH)
        told = await _part_of_response(found, SUMMARY, partition, part)
        error = self._error(partition, told)
        if error:
            return error
        return ShareStateSummary(told.state_epoch, told.leader_epoch, told.start_offset, told.delivery_complete_count)

    def _error(self, partition: SharePartition, told: Any) -> ErrorCode:
        return self._remote.error_of(partition, told)


async def _part_of_response(
    found: RemoteShareCoordinator | ErrorCode, request: StateRequest, partition: SharePartition, part: Message
) -> Any:
    return found if isinstance(found, ErrorCode) else await found.request(request, partition, part)
