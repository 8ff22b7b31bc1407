"""DescribeAcls (key 29), versions 0-3: access control entries.

v1 adds pattern_type_filter to the request and pattern_type to the response. v2 is the first flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class DescribeAclsRequest(Message):
    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = None
    pattern_type_filter: Annotated[Int8, "1+"] = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Message):
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, "1+"] = 3
    acls: tuple[AclDescription, ...] = ()


class DescribeAclsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    resources: tuple[DescribeAclsResource, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
)
