"""ListGroups (key 16), versions 0-5: every group that this broker coordinates.

v1 adds throttle_time_ms to the response. v3 is the first flexible version. v4 adds states_filter to the request and
group_state to the response. v5 adds types_filter to the request and group_type to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, message, string, when


class ListGroupsRequest(Message):
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class ListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


class ListGroupsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: tuple[ListedGroup, ...] = ()


def list_groups_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    return message(
        ListGroupsRequest,
        flexible,
        *when(version >= 4, "states_filter" / array(string(flexible), flexible)),
        *when(version >= 5, "types_filter" / array(string(flexible), flexible)),
    )


def list_groups_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    listed_group = message(
        ListedGroup,
        flexible,
        "group_id" / string(flexible),
        "protocol_type" / string(flexible),
        *when(version >= 4, "group_state" / string(flexible)),
        *when(version >= 5, "group_type" / string(flexible)),
    )
    return message(
        ListGroupsResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "error_code" / Int16,
        "groups" / array(listed_group, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LIST_GROUPS,
    versions=range(0, 6),
    flexible_from=3,
    request=list_groups_request,
    response=list_groups_response,
)
