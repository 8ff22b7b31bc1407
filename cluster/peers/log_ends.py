"""`PeerLogEnds`: where the logs of another broker's replicas end, led or followed, for who has to compare copies."""

from collections.abc import Mapping, Sequence

from eosin.client.log_ends import log_ends_request, reported_log_ends
from eosin.cluster.peers.connections import Peers, PeerUnreachable
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition


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
