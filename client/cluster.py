"""A cluster as its operator sees it: brokers, partitions with their replicas, and how far each replica has come.

Always true: what one broker does not tell is None, and the rest is told all the same. Lags are those of a moment: the
leaders are asked first, so that a replica that follows closely shows 0.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import ClientError, check
from eosin.client.log_ends import log_ends_request, reported_log_ends
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import describe_quorum
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

MIN_IN_SYNC: Final = "min.insync.replicas"
QUORUM_TOPIC: Final = "__cluster_metadata"
NOBODY: Final = -1
"""The leader of a partition that has none."""
_FENCED_FROM: Final = 2
"""The first version of DescribeCluster that tells of fenced brokers (KIP-1073)."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that is registered."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    """The controllers have not heard of it for a while, or it is not ready."""
    is_silent: bool
    """It is not fenced, and does not answer us."""
    metadata_lag: int | None
    """Number of metadata records that it lacks; None where nobody says it."""


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition and its replicas."""

    partition: TopicPartition
    leader: int
    """Node id, -1 for none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_in_sync: int | None
    """The topic's `min.insync.replicas`, where a replica is out of sync and the broker tells it."""
    lags: Mapping[int, int]
    """Number of its leader's records that each follower lacks, by node id; only of followers that tell it."""
    log_ends: Mapping[int, int]
    """End of each copy, by node id, of those that tell it and have no leader to be compared with."""

    @property
    def is_under_replicated(self) -> bool:
        """True if a replica is not in sync."""
        return len(self.in_sync) < len(self.replicas)

    @property
    def state(self) -> str:
        """In one word or two: what is wrong, the worst first."""
        if self.leader == NOBODY:
            return "offline"
        if self.min_in_sync is not None and len(self.in_sync) < self.min_in_sync:
            return "under min ISR"
        return "under-replicated" if self.is_under_replicated else "ok"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster in a moment."""

    brokers: tuple[BrokerInfo, ...]
    """By node id."""
    partitions: tuple[PartitionReplicas, ...]
    """By name."""


class ClusterAdmin:
    """Operations on brokers and replicas."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        """The brokers, and the partitions of these topics, or of all. Raises BrokerError, UNKNOWN_TOPIC_OR_PARTITION
        for a topic that is not there among others."""
        found, metadata, metadata_lags = await asyncio.gather(
            self._client.retry(self._cluster),
            self._client.retry(lambda: self._metadata(topics)),
            self._metadata_lags(),
        )
        known = [
            PartitionReplicas(
                TopicPartition(topic.name or "", each.partition_index),
                each.leader_id,
                each.leader_epoch,
                each.replica_nodes,
                each.isr_nodes,
                None,
                {},
                {},
            )
            for topic in metadata.topics
            for each in topic.partitions
        ]
        alive = [each.broker_id for each in found.brokers if not each.is_fenced]
        ends = await self._ends(known, alive)
        min_in_sync = await self._min_in_sync(each.partition.topic for each in known if each.is_under_replicated)
        return ClusterState(
            brokers=tuple(
                BrokerInfo(
                    each.broker_id,
                    each.host,
                    each.port,
                    each.rack,
                    each.is_fenced,
                    not each.is_fenced and ends.get(each.broker_id) is None,
                    metadata_lags.get(each.broker_id),
                )
                for each in sorted(found.brokers, key=lambda each: each.broker_id)
            ),
            partitions=tuple(
                PartitionReplicas(
                    each.partition,
                    each.leader,
                    each.leader_epoch,
                    each.replicas,
                    each.in_sync,
                    min_in_sync.get(each.partition.topic),
                    lags(each, ends),
                    log_ends(each, ends),
                )
                for each in sorted(known, key=lambda each: each.partition)
            ),
        )

    async def _cluster(self) -> DescribeClusterResponse:
        peer = await self._client.peer()
        knows = peer.versions.pick(ApiKey.DESCRIBE_CLUSTER) >= _FENCED_FROM
        response: DescribeClusterResponse = await self._client.request(
            ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(include_fenced_brokers=knows)
        )
        check(response.error_code, "describing the cluster", response.error_message)
        return response

    async def _metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        response: MetadataResponse = await self._client.request(
            ApiKey.METADATA, MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        check(response.error_code, "asking for the cluster's metadata")
        for topic in response.topics:
            check(topic.error_code, f"looking for topic {topic.name}")
        return response

    async def _metadata_lags(self) -> dict[int, int]:
        """By node id. Empty when the quorum tells nothing: not every broker passes the question on."""
        asked = describe_quorum.TopicData(QUORUM_TOPIC, (describe_quorum.PartitionData(0),))
        try:
            response: describe_quorum.DescribeQuorumResponse = await self._client.request(
                ApiKey.DESCRIBE_QUORUM, describe_quorum.DescribeQuorumRequest((asked,))
            )
        except ClientError:
            return {}
        found: dict[int, int] = {}
        for topic in response.topics:
            for quorum in topic.partitions:
                replicas = (*quorum.current_voters, *quorum.observers)
                ends = {each.replica_id: each.log_end_offset for each in replicas}
                end = ends.get(quorum.leader_id, quorum.high_watermark)
                found |= {node: max(0, end - each) for node, each in ends.items() if each >= 0}
        return found

    async def _ends(
        self, partitions: Sequence[PartitionReplicas], alive: Iterable[int]
    ) -> dict[int, Mapping[TopicPartition, int] | None]:
        """The log ends of replicas, by broker: first of all that are led, so that a replica does not seem ahead. A copy
        that has nothing to be compared with is not asked for, unless nobody leads it."""
        led: dict[int, list[TopicPartition]] = {node: [] for node in alive}
        followed: dict[int, list[TopicPartition]] = {node: [] for node in led}
        for each in partitions:
            if each.leader in led:
                if len(each.replicas) < 2:
                    continue
                led[each.leader].append(each.partition)
            for node in each.replicas:
                if node != each.leader and node in followed:
                    followed[node].append(each.partition)
        ends: dict[int, Mapping[TopicPartition, int] | None] = {}
        for wanted in (led, followed):
            responses = await asyncio.gather(*(self._log_ends(node, asked) for node, asked in wanted.items()))
            for node, response in zip(wanted, responses, strict=True):
                known = ends.get(node, {})
                ends[node] = None if known is None or response is None else {**known, **response}
        return ends

    async def _log_ends(self, node: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """The ends of a broker's replicas; None when it does not answer."""
        try:
            if not partitions:
                await self._client.peer(node)
                return {}
            return reported_log_ends(
                await self._client.request(ApiKey.LIST_OFFSETS, log_ends_request(partitions), node=node)
            )
        except ClientError:
            return None

    async def _min_in_sync(self, topics: Iterable[str]) -> dict[str, int]:
        admin, found = Admin(self._client), {}
        for topic in sorted(set(topics)):
            try:
                settings = await admin.describe_configs(topic, keys=[MIN_IN_SYNC])
            except ClientError:
                continue
            value = settings[MIN_IN_SYNC].value if MIN_IN_SYNC in settings else None
            if value is not None:
                found[topic] = int(value)
        return found


def lags(partition: PartitionReplicas, ends: Mapping[int, Mapping[TopicPartition, int] | None]) -> dict[int, int]:
    """Number of records that each follower of a partition lacks, from the log ends that brokers told."""
    leader_end = (ends.get(partition.leader) or {}).get(partition.partition)
    if leader_end is None:
        return {}
    found = {}
    for node in partition.replicas:
        end = (ends.get(node) or {}).get(partition.partition)
        if node != partition.leader and end is not None:
            found[node] = max(0, leader_end - end)
    return found


def log_ends(partition: PartitionReplicas, ends: Mapping[int, Mapping[TopicPartition, int] | None]) -> dict[int, int]:
    """The ends of the copies of a partition whose leader, if it has one, does not tell."""
    if partition.partition in (ends.get(partition.leader) or {}):
        return {}
    told = ((node, (ends.get(node) or {}).get(partition.partition)) for node in partition.replicas)
    return {node: end for node, end in told if end is not None}
