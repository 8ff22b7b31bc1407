"""CreateAcls (key 30), versions 0-3: add access control entries.

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


class AclCreation(Message):
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class CreateAclsRequest(Message):
    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(Message):
    error_code: int = 0
    error_message: str | None = None


class CreateAclsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...] = ()


def create_acls_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    acl_creation = message(
        AclCreation,
        flexible,
        "resource_type" / Int8,
        "resource_name" / string(flexible),
        *when(version >= 1, "resource_pattern_type" / Int8),
        "principal" / string(flexible),
        "host" / string(flexible),
        "operation" / Int8,
        "permission_type" / Int8,
    )
    return message(
        CreateAclsRequest,
        flexible,
        "creations" / array(acl_creation, flexible),
    )


def create_acls_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    acl_creation_result = message(
        AclCreationResult,
        flexible,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        CreateAclsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(acl_creation_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=create_acls_request,
    response=create_acls_response,
)
