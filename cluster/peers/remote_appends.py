"""`RemoteAppends`: batches that this broker writes in its own name to partitions that other brokers lead (Produce with
acks=all), as dead letters of share groups are (KIP-1191).

Always true: each call is one attempt, and NONE says that every replica in sync has the batch. Any other outcome may
have written it all the same: whoever tries again writes it once more.
"""

from typing import TYPE_CHECKING, Final

from eosin.client.errors import known_code
from eosin.cluster.peers.connections import Peers, PeerUnreachable
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ImageDelta
    from eosin.model.cluster import Cluster

_ALL_IN_SYNC: Final = -1


class RemoteAppends:
    """The partitions of one cluster that its other brokers lead."""

    def __init__(self, cluster: "Cluster", peers: Peers, *, timeout_ms: int) -> None:
        """`peers` are asked for nothing else: a leader without enough replicas keeps them waiting, for `timeout_ms` at
        most."""
        self._cluster = cluster
        self._peers = peers
        self._timeout_ms = timeout_ms

    async def append(self, partition: TopicPartition, batch: bytes) -> ErrorCode:
        """Write a batch. UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NETWORK_EXCEPTION when nobody answers, and
        what the leader answers."""
        topic, leader = self._cluster.topics.get(partition.topic), self._cluster.leader_of(partition)
        if topic is None or leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader == NO_LEADER or not self._peers.is_known(leader):
            return ErrorCode.LEADER_NOT_AVAILABLE
        data = TopicProduceData(topic.name, topic.topic_id, (PartitionProduceData(partition.partition, batch),))
        request = ProduceRequest(acks=_ALL_IN_SYNC, timeout_ms=self._timeout_ms, topic_data=(data,))
        try:
            response, _ = await self._peers.peer(leader).request(ApiKey.PRODUCE, request)
        except PeerUnreachable:
            return ErrorCode.NETWORK_EXCEPTION
        found = [each for one in response.responses for each in one.partition_responses]
        if len(found) != 1:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        code = known_code(found[0].error_code) if found[0].error_code else ErrorCode.NONE
        return ErrorCode.UNKNOWN_SERVER_ERROR if code is None else code

    def apply(self, delta: "ImageDelta") -> None:
        """Wait for no broker that is fenced now or has begun anew."""
        self._peers.apply(delta)

    async def close(self) -> None:
        """Write nothing more."""
        await self._peers.close()
