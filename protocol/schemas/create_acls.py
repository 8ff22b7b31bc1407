"""CreateAcls (key 30), versions 0-3: add access control entries.

v1 adds pattern types. v2 is the first flexible version. v3 adds the user resource type.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class AclCreation(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[Int8, "1+"] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message):
    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(Message):
    error_code: Int16 = 0
    error_message: str | None = None


class CreateAclsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
)
