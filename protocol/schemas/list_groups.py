"""ListGroups (key 16), versions 0-5: every group that this broker coordinates.

v1 adds throttle_time_ms to the response. v3 is the first flexible version. v4 adds states_filter to the request and
group_state to the response. v5 adds types_filter to the request and group_type to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class ListGroupsRequest(Message):
    states_filter: Annotated[tuple[str, ...], "4+"] = ()
    types_filter: Annotated[tuple[str, ...], "5+"] = ()


class ListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, "4+"] = ""
    group_type: Annotated[str, "5+"] = ""


class ListGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LIST_GROUPS,
    versions=range(0, 6),
    flexible_from=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
)
