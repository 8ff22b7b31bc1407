"""DescribeAcls (key 29), versions 0-3: access control entries.

v1 adds pattern_type_filter to the request and pattern_type to the response. v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Layout, Message, array, message, string, when


class DescribeAclsRequest(Message):
    resource_type_filter: int = 0
    resource_name_filter: str | None = None
    pattern_type_filter: int = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: int = 0
    permission_type: int = 0


class AclDescription(Message):
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DescribeAclsResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: tuple[AclDescription, ...] = ()


class DescribeAclsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    resources: tuple[DescribeAclsResource, ...] = ()


def describe_acls_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(
        DescribeAclsRequest,
        flexible,
        "resource_type_filter" / Int8,
        "resource_name_filter" / string(flexible, nullable=True),
        *when(version >= 1, "pattern_type_filter" / Int8),
        "principal_filter" / string(flexible, nullable=True),
        "host_filter" / string(flexible, nullable=True),
        "operation" / Int8,
        "permission_type" / Int8,
    )


def describe_acls_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    acl_description = message(
        AclDescription,
        flexible,
        "principal" / string(flexible),
        "host" / string(flexible),
        "operation" / Int8,
        "permission_type" / Int8,
    )
    describe_acls_resource = message(
        DescribeAclsResource,
        flexible,
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        *when(version >= 1, "pattern_type" / Int8),
        "acls" / array(acl_description, flexible),
    )
    return message(
        DescribeAclsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "resources" / array(describe_acls_resource, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=describe_acls_request,
    response=describe_acls_response,
)
