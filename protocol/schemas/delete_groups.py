"""DeleteGroups (key 42), versions 0-2: delete empty groups.

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class DeleteGroupsRequest(Message):
    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(Message):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_GROUPS,
    versions=range(0, 3),
    flexible_from=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
