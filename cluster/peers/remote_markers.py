"""`RemoteMarkers`: transaction markers for partitions that other brokers lead (WriteTxnMarkers; cluster.md 6.7).

Always true: what is asked for in one turn of the event loop goes to a broker in one request, unless two markers would
share an answer; at most `MAX_IN_FLIGHT` requests are on their way to it, and what comes meanwhile waits for the next;
every (producer id, partition) gets its own answer, and what a response leaves out may be tried again; when another
broker leads one of the partitions, nothing that was asked is waited for any more (cluster.md 6.11).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.client.errors import known_code
from eosin.cluster.peers.connections import OtherBroker, Peers, PeerUnreachable
from eosin.coordinator.transactions.ports import MarkersForPartitions, MarkerTarget
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ImageDelta

MAX_IN_FLIGHT: Final = 5
"""Requests on their way to one broker."""

_LEADS_NO_MORE: Final = "does not lead the partition any more"

MarkerKey = tuple[int, TopicPartition]
Answers = Mapping[MarkerKey, ErrorCode]


class _SentMarkers(NamedTuple):
    markers: Sequence[MarkersForPartitions]
    keys: tuple[MarkerKey, ...]
    answers: "asyncio.Future[Answers]"


class RemoteMarkers:
    """The marker target of one other broker (`MarkerTarget`)."""

    def __init__(self, peer: OtherBroker) -> None:
        self._peer = peer
        self._waiting: list[_SentMarkers] = []
        self._sending: dict[asyncio.Task[None], Sequence[_SentMarkers]] = {}
        self._is_scheduled = False

    async def write_markers(self, markers: Sequence[MarkersForPartitions]) -> Answers:
        """Have the broker write each marker to each of its partitions. Raises PeerUnreachable, an OSError: the leader
        is to be looked up again, and the first request may have been carried out."""
        keys = tuple((each.marker.producer_id, partition) for each in markers for partition in each.partitions)
        loop = asyncio.get_running_loop()
        asked = _SentMarkers(markers, keys, loop.create_future())
        self._waiting.append(asked)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._send)
        return await asked.answers

    def led_by_others(self, partitions: Set[TopicPartition]) -> None:
        """Other brokers lead these partitions now: if one of them is asked for, wait for nothing any more."""
        if not (_concerns(self._waiting, partitions) or any(_concerns(b, partitions) for b in self._sending.values())):
            return
        waiting, self._waiting = self._waiting, []
        for asked in waiting:
            if not asked.answers.done():
                asked.answers.set_exception(PeerUnreachable(f"broker {self._peer.node_id} {_LEADS_NO_MORE}"))
        self._peer.give_up(f"it {_LEADS_NO_MORE}")

    async def close(self) -> None:
        """Ask for nothing more; whoever waits hears that the broker was not reached."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        for asked in self._waiting:
            asked.answers.cancel()
        self._waiting.clear()

    def _send(self) -> None:
        self._is_scheduled = False
        while self._waiting and len(self._sending) < MAX_IN_FLIGHT:
            batch = self._next_batch()
            task = asyncio.get_running_loop().create_task(self._exchange(batch))
            self._sending[task] = batch
            task.add_done_callback(self._sent)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        del self._sending[task]
        self._send()

    def _next_batch(self) -> list[_SentMarkers]:
        """All that waits, up to the first whose answers could not be told from another's."""
        batch: list[_SentMarkers] = []
        producers: set[int] = set()
        while self._waiting:
            wanted = {producer_id for producer_id, _ in self._waiting[0].keys}
            if batch and not producers.isdisjoint(wanted):
                break
            producers |= wanted
            batch.append(self._waiting.pop(0))
        return batch

    async def _exchange(self, batch: Sequence[_SentMarkers]) -> None:
        request = WriteTxnMarkersRequest(tuple(_marker(each) for asked in batch for each in asked.markers))
        try:
            response, _ = await self._peer.request(ApiKey.WRITE_TXN_MARKERS, request)
        except OSError as error:
            for asked in batch:
                if not asked.answers.done():
                    asked.answers.set_exception(error)
            return
        except asyncio.CancelledError:
            for asked in batch:
                asked.answers.cancel()
            raise
        found = _results(response)
        for asked in batch:
            if not asked.answers.done():
                asked.answers.set_result({key: found.get(key, ErrorCode.REQUEST_TIMED_OUT) for key in asked.keys})


class RemoteBrokers:
    """The marker targets of the other brokers (`OtherBrokers`)."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._targets: dict[int, RemoteMarkers] = {}

    def marker_target(self, node_id: int) -> MarkerTarget | ErrorCode:
        """The target that reaches the broker `node_id`; LEADER_NOT_AVAILABLE while the cluster does not tell where it
        is."""
        if not self._peers.is_known(node_id):
            return ErrorCode.LEADER_NOT_AVAILABLE
        target = self._targets.get(node_id)
        if target is None:
            target = self._targets[node_id] = RemoteMarkers(self._peers.peer(node_id))
        return target

    def apply(self, delta: "ImageDelta") -> None:
        """Wait for no broker that leads a partition no more for which it was asked for markers."""
        lost = led_no_more(delta) if self._targets else {}
        for node_id, partitions in lost.items():
            if (target := self._targets.get(node_id)) is not None:
                target.led_by_others(partitions)

    async def close(self) -> None:
        """Ask for nothing more."""
        for target in self._targets.values():
            await target.close()


def led_no_more(delta: "ImageDelta") -> Mapping[int, Set[TopicPartition]]:
    """The partitions that brokers have ceased to lead, by node id."""
    lost: dict[int, set[TopicPartition]] = {}
    for partition, before, after in delta.partitions_changed:
        if before is not None and (after is None or after.leader != before.leader):
            lost.setdefault(before.leader, set()).add(partition)
    return lost


def _concerns(asked: Iterable[_SentMarkers], partitions: Set[TopicPartition]) -> bool:
    return any(partition in partitions for each in asked for _, partition in each.keys)


def _marker(each: MarkersForPartitions) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in each.partitions:
        topics.setdefault(topic, []).append(index)
    marker = each.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=tuple(WritableTxnMarkerTopic(name, tuple(indexes)) for name, indexes in topics.items()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _results(response: WriteTxnMarkersResponse) -> dict[MarkerKey, ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): known_code(each.error_code)
        or ErrorCode.UNKNOWN_SERVER_ERROR
        if each.error_code
        else ErrorCode.NONE
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
