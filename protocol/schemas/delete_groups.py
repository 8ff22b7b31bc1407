"""DeleteGroups (key 42), versions 0-2: delete empty groups.

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, message, string


class DeleteGroupsRequest(Message):
    groups_names: tuple[str, ...] = ()


class DeletableGroupResult(Message):
    group_id: str = ""
    error_code: int = 0


class DeleteGroupsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...] = ()


def delete_groups_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(
        DeleteGroupsRequest,
        flexible,
        "groups_names" / array(string(flexible), flexible),
    )


def delete_groups_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    deletable_group_result = message(
        DeletableGroupResult,
        flexible,
        "group_id" / string(flexible),
        "error_code" / Int16,
    )
    return message(
        DeleteGroupsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(deletable_group_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_GROUPS,
    versions=range(0, 3),
    flexible_from=2,
    request=delete_groups_request,
    response=delete_groups_response,
)
