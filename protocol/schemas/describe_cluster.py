"""DescribeCluster (key 60), versions 0-2: the cluster id, its brokers and its controller.

Flexible from the start. v1 adds endpoint_type to both. v2 adds include_fenced_brokers to the request and is_fenced to
the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int8, Int16, Int32, Layout, Message, array, message, string, when


class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # 1: brokers, 2: controllers
    include_fenced_brokers: bool = False


class DescribeClusterBroker(Message):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


class DescribeClusterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # 1: brokers, 2: controllers
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = -(2**31)  # a set of bits; the default means: not asked for


def describe_cluster_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        DescribeClusterRequest,
        flexible,
        "include_cluster_authorized_operations" / Boolean,
        *when(version >= 1, "endpoint_type" / Int8),
        *when(version >= 2, "include_fenced_brokers" / Boolean),
    )


def describe_cluster_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    describe_cluster_broker = message(
        DescribeClusterBroker,
        flexible,
        "broker_id" / Int32,
        "host" / string(flexible),
        "port" / Int32,
        "rack" / string(flexible, nullable=True),
        *when(version >= 2, "is_fenced" / Boolean),
    )
    return message(
        DescribeClusterResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        *when(version >= 1, "endpoint_type" / Int8),
        "cluster_id" / string(flexible),
        "controller_id" / Int32,
        "brokers" / array(describe_cluster_broker, flexible),
        "cluster_authorized_operations" / Int32,
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=range(0, 3),
    flexible_from=0,
    request=describe_cluster_request,
    response=describe_cluster_response,
)
