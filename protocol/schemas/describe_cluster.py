"""DescribeCluster (key 60), versions 0-2: the cluster id, its brokers and its controller.

Flexible from the start. v1 adds endpoint_type to both. v2 adds include_fenced_brokers to the request and is_fenced to
the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, "1+"] = 1  # 1: brokers, 2: controllers
    include_fenced_brokers: Annotated[bool, "2+"] = False


class DescribeClusterBroker(Message):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
    is_fenced: Annotated[bool, "2+"] = False


class DescribeClusterResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[Int8, "1+"] = 1  # 1: brokers, 2: controllers
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -(2**31)  # a set of bits; the default means: not asked for


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=range(0, 3),
    flexible_from=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
)
