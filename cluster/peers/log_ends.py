"""`PeerLogEnds`: where the logs of another broker's replicas end, led or followed, for who has to compare copies."""

from collections.abc import Mapping, Sequence
from typing import Final

from eosin.cluster.peers.connections import Peers, PeerUnreachable
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

ANY_REPLICA: Final = -2
"""The replica id of one who asks for the log of whatever replica a broker has."""
LATEST: Final = -1


class PeerLogEnds:
    """Asks other brokers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def ask(self, node_id: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The log ends that broker `node_id` tells; none of those that it does not."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(ListOffsetsPartition(partition.partition, timestamp=LATEST))
        request = ListOffsetsRequest(
            ANY_REPLICA, topics=tuple(ListOffsetsTopic(name, tuple(asked)) for name, asked in topics.items())
        )
        try:
            answer = await self._peers.peer(node_id).ask(ApiKey.LIST_OFFSETS, request)
        except PeerUnreachable:
            return {}
        response: ListOffsetsResponse = answer.response
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in response.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
