"""DeleteGroups (key 42), versions 0-3: delete empty groups.

v2 is the first flexible version. v3 adds error_message to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class DeleteGroupsRequest(Message):
    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(Message):
    group_id: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, "3+"] = None


class DeleteGroupsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_GROUPS,
    versions=range(0, 4),
    flexible_from=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
