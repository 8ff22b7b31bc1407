"""DeleteAcls (key 31), versions 0-3: remove access control entries.

v1 adds pattern types. v2 is the first flexible version. v3 adds the user resource type.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class DeleteAclsFilter(Message):
    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = None
    pattern_type_filter: Annotated[Int8, "1+"] = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Message):
    filters: tuple[DeleteAclsFilter, ...] = ()


class DeleteAclsMatchingAcl(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, "1+"] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Message):
    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_ACLS,
    versions=range(0, 4),
    flexible_from=2,
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
)
