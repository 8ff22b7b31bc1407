"""ListPartitionReassignments (key 46), version 0: partitions on their way to other brokers. There are never any."""

from eosin.broker.services import Services
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from eosin.security.access import Access, on_the_cluster


def respond(
    request: ListPartitionReassignmentsRequest, context: RequestContext, services: Services
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()


def refuse(
    request: ListPartitionReassignmentsRequest, context: RequestContext, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error)


API = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=range(0, 1),
    respond=respond,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE),)),
)
