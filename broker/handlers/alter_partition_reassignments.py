"""AlterPartitionReassignments (key 45), versions 0-1: give partitions other replicas.

v1 adds allow_replication_factor_change. This broker is the only one, and the only replica of every partition: what asks
for that is done already, anything else names a broker that does not exist (39). Null replicas cancel a reassignment, of
which there is none (85).
"""

from collections.abc import Sequence

from eosin.broker.services import Services
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_nested
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from eosin.security.access import Access, on_the_cluster


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, services: Services
) -> AlterPartitionReassignmentsResponse:
    brokers = [each.node_id for each in services.cluster.brokers(context.listener)]
    topics = await made_for_nested(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, each: _response(topic.name, each, brokers, services),
        lambda topic, answers: ReassignableTopicResponse(topic.name, answers),
        context,
        services,
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, responses=tuple(topics)
    )


def _response(
    topic: str, wanted: ReassignablePartition, brokers: Sequence[int], services: Services
) -> ReassignablePartitionResponse:
    outcome = _outcome(TopicPartition(topic, wanted.partition_index), wanted.replicas, brokers, services)
    return ReassignablePartitionResponse(wanted.partition_index, outcome.error, outcome.message)


def _outcome(
    partition: TopicPartition, replicas: tuple[int, ...] | None, brokers: Sequence[int], services: Services
) -> Outcome:
    if services.cluster.leader_of(partition) is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition}")
    if replicas is None:
        return Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # Among more replicas than there are brokers, one is unknown or named twice: a million need not be looked at.
    replicas = replicas[: len(brokers) + 1]
    unknown = [str(each) for each in replicas if each not in brokers]
    if unknown:
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {', '.join(unknown)}")
    if not replicas or len(set(replicas)) != len(replicas):
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition needs replicas, on a broker once each")
    return Outcome(ErrorCode.NONE)


def refuse(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        responses=tuple(
            ReassignableTopicResponse(
                topic.name,
                tuple(ReassignablePartitionResponse(each.partition_index, error) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


API = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
