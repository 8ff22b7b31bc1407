"""DescribeCluster (key 60), versions 0-2: the cluster's id, its controller and its brokers.

v1 asks for brokers (1) or controllers (2); the latter are not on this port. v2 may ask for fenced brokers as well, of
which there are none.
"""

from eosin.broker.services import Services
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from eosin.security.access import Access, Right, silently
from eosin.security.authorized_operations import NOT_ASKED, cluster_operations

BROKERS, CONTROLLERS = 1, 2


def respond(request: DescribeClusterRequest, context: RequestContext, services: Services) -> DescribeClusterResponse:
    session = context.session
    if request.endpoint_type == CONTROLLERS:
        if not session.may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        return _refused(request, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker's address, not a controller's")
    if request.endpoint_type != BROKERS:
        return _refused(request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unknown endpoint type {request.endpoint_type}")
    cluster = services.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            DescribeClusterBroker(each.node_id, each.host, each.port, each.rack)
            for each in cluster.brokers(context.listener)
        ),
        cluster_authorized_operations=cluster_operations(session)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refused(request: DescribeClusterRequest, error: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=message, endpoint_type=request.endpoint_type)


def refuse(request: DescribeClusterRequest, context: RequestContext, error: ErrorCode) -> DescribeClusterResponse:
    return _refused(request, error, None)


API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=range(0, 3),
    respond=respond,
    refuse=refuse,
    access=Access(
        (
            Right(Operation.ALTER, ResourceType.CLUSTER, note="for controllers"),
            silently(Operation.DESCRIBE, ResourceType.CLUSTER, "for the operations"),
        )
    ),
)
