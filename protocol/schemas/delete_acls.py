"""DeleteAcls (key 31), versions 0-3: remove access control entries.

v1 adds pattern types. v2 is the first flexible version. v3 adds the user resource type.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
    when,
)


class DeleteAclsFilter(Message):
    resource_type_filter: int = 0
    resource_name_filter: str | None = None
    pattern_type_filter: int = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: int = 0
    permission_type: int = 0


class DeleteAclsRequest(Message):
    filters: tuple[DeleteAclsFilter, ...] = ()


class DeleteAclsMatchingAcl(Message):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsFilterResult(Message):
    error_code: int = 0
    error_message: str | None = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Message):
    throttle_time_ms: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


def delete_acls_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    delete_acls_filter = message(
        DeleteAclsFilter,
        flexible,
        "resource_type_filter" / Int8,
        "resource_name_filter" / string(flexible, nullable=True),
        *when(version >= 1, "pattern_type_filter" / Int8),
        "principal_filter" / string(flexible, nullable=True),
        "host_filter" / string(flexible, nullable=True),
        "operation" / Int8,
        "permission_type" / Int8,
    )
    return message(
        DeleteAclsRequest,
        flexible,
        "filters" / array(delete_acls_filter, flexible),
    )


def delete_acls_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    delete_acls_matching_acl = message(
        DeleteAclsMatchingAcl,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        *when(version >= 1, "pattern_type" / Int8),
        "principal" / string(flexible),
        "host" / string(flexible),
        "operation" / Int8,
        "permission_type" / Int8,
    )
    delete_acls_filter_result = message(
        DeleteAclsFilterResult,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "matching_acls" / array(delete_acls_matching_acl, flexible),
    )
    return message(
        DeleteAclsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "filter_results" / array(delete_acls_filter_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=delete_acls_request,
    response=delete_acls_response,
)
