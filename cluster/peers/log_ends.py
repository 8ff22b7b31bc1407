"""`PeerLogEnds`: where the logs of another broker's replicas end, led or followed, for who has to compare copies.
`PeerHighWatermarks`: how far partitions that other brokers lead are committed."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from eosin.client.log_ends import A_CONSUMER, log_ends_request, reported_log_ends
from eosin.cluster.peers.connections import Peers, PeerUnreachable
from eosin.model.cluster import NO_LEADER
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster


class PeerLogEnds:
    """Asks other brokers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def fetch(self, node_id: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The log ends that broker `node_id` tells; none of those that it does not."""
        try:
            answer = await self._peers.peer(node_id).request(ApiKey.LIST_OFFSETS, log_ends_request(partitions))
        except PeerUnreachable:
            return {}
        return reported_log_ends(answer.response)


class PeerHighWatermarks:
    """Asks the leaders among other brokers."""

    def __init__(self, cluster: "Cluster", peers: Peers) -> None:
        self._cluster = cluster
        self._peers = peers

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The high watermarks that the leaders tell; none of a partition whose leader does not answer, and of one that
        nobody else leads."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._cluster.leader_of(partition)
            if leader not in (None, NO_LEADER, self._cluster.node_id):
                by_leader.setdefault(leader, []).append(partition)
        answers = await asyncio.gather(*(self._of_leader(leader, some) for leader, some in by_leader.items()))
        return {partition: offset for answer in answers for partition, offset in answer.items()}

    async def _of_leader(self, leader: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        request = log_ends_request(partitions, replica_id=A_CONSUMER)
        try:
            answer = await self._peers.peer(leader).request(ApiKey.LIST_OFFSETS, request)
        except PeerUnreachable:
            return {}
        return reported_log_ends(answer.response)
