"""ElectLeaders (key 43), versions 0-2: elect the preferred leader of partitions, or any that is left.

v1 adds the kind of election and a top-level error; v2 is the first flexible version. This broker is the only replica of
every partition and leads it, so no election is needed (84). No partitions (null) asks for all, of which Kafka names
only those that were elected.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Cluster, Outcome
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, made_for_nested
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from eosin.security.access import Access, on_the_cluster

_PREFERRED, _UNCLEAN = range(2)
_NOT_NEEDED: Final = Outcome(ErrorCode.ELECTION_NOT_NEEDED, "The only replica of the partition leads it")


async def handle(request: ElectLeadersRequest, context: RequestContext, services: Services) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        unknown = Outcome(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        return _refused(request, unknown)
    if request.topic_partitions is None:
        names = tuple(services.cluster.topics)
        every = await made_for_each(map(ReplicaElectionResult, names), len(names), context, services)
        return ElectLeadersResponse(replica_election_results=tuple(every))
    results = await made_for_nested(
        request.topic_partitions,
        lambda named: named.partitions,
        lambda named, index: _result(index, _outcome(named.topic, index, services.cluster)),
        lambda named, partitions: ReplicaElectionResult(named.topic, partitions),
        context,
        services,
    )
    return ElectLeadersResponse(replica_election_results=tuple(results))


def _outcome(topic: str, index: int, cluster: Cluster) -> Outcome:
    if topic not in cluster.topics:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if cluster.leader_of(TopicPartition(topic, index)) is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return _NOT_NEEDED


def _result(index: int, outcome: Outcome) -> PartitionResult:
    return PartitionResult(index, outcome.error, outcome.message)


def _refused(request: ElectLeadersRequest, outcome: Outcome) -> ElectLeadersResponse:
    results = (
        ReplicaElectionResult(each.topic, tuple(_result(index, outcome) for index in each.partitions))
        for each in request.topic_partitions or ()
    )
    return ElectLeadersResponse(error_code=outcome.error, replica_election_results=tuple(results))


def refuse(request: ElectLeadersRequest, context: RequestContext, error: ErrorCode) -> ElectLeadersResponse:
    return _refused(request, Outcome(error))


API = Api(
    key=ApiKey.ELECT_LEADERS,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
