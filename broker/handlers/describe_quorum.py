"""DescribeQuorum (key 55), versions 0-2: the state of the metadata log.

Kafka's consoles and tools ask about `__cluster_metadata`, partition 0. Ours has another name but the same role, so
its true state is returned under that one: its leader, its end offset, and that its leader is its only voter. v1 adds
timestamps, v2 messages, directory ids and the voters' addresses.
"""

from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_nested
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from eosin.security.access import Access, on_the_cluster

KAFKAS_METADATA_TOPIC = "__cluster_metadata"


async def handle(request: DescribeQuorumRequest, context: RequestContext, services: Services) -> DescribeQuorumResponse:
    topics = await made_for_nested(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, each: _partition(topic.topic_name, each.partition_index, services),
        lambda topic, partitions: ResponseTopicData(topic.topic_name, partitions),
        context,
        services,
    )
    return DescribeQuorumResponse(
        topics=tuple(topics),
        nodes=tuple(
            Node(each.node_id, (Listener(context.listener, each.host, each.port),))
            for each in services.cluster.brokers(context.listener)
        ),
    )


def _partition(topic: str, index: int, services: Services) -> ResponsePartitionData:
    if topic != KAFKAS_METADATA_TOPIC or index != 0:
        return ResponsePartitionData(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    quorum, now_ms = services.cluster.quorum(), services.clock.now_ms()
    return ResponsePartitionData(
        partition_index=index,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(
            ReplicaState(voter.node_id, voter.directory_id, voter.log_end_offset, now_ms, now_ms)
            for voter in quorum.voters
        ),
    )


def refuse(request: DescribeQuorumRequest, context: RequestContext, error: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error)


API = Api(
    key=ApiKey.DESCRIBE_QUORUM,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE),)),
)
