"""DescribeGroups (key 15), versions 0-6: state and members of classic groups.

v1 adds throttle_time_ms to the response. v3 adds include_authorized_operations to the request and authorized_operations
to the response. v4 adds group_instance_id to the response. v5 is the first flexible version. v6 adds error_message to
the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Layout, Message, array, blob, message, string, when


class DescribeGroupsRequest(Message):
    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class DescribedGroupMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -(2**31)  # a set of bits; the default means: not asked for


class DescribeGroupsResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


def describe_groups_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 5
    return message(
        DescribeGroupsRequest,
        flexible,
        "groups" / array(string(flexible), flexible),
        *when(version >= 3, "include_authorized_operations" / Boolean),
    )


def describe_groups_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 5
    described_group_member = message(
        DescribedGroupMember,
        flexible,
        "member_id" / string(flexible),
        *when(version >= 4, "group_instance_id" / string(flexible, nullable=True)),
        "client_id" / string(flexible),
        "client_host" / string(flexible),
        "member_metadata" / blob(flexible),
        "member_assignment" / blob(flexible),
    )
    described_group = message(
        DescribedGroup,
        flexible,
        "error_code" / Int16,
        *when(version >= 6, "error_message" / string(flexible, nullable=True)),
        "group_id" / string(flexible),
        "group_state" / string(flexible),
        "protocol_type" / string(flexible),
        "protocol_data" / string(flexible),
        "members" / array(described_group_member, flexible),
        *when(version >= 3, "authorized_operations" / Int32),
    )
    return message(
        DescribeGroupsResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "groups" / array(described_group, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_GROUPS,
    versions=range(0, 7),
    flexible_from=5,
    request=describe_groups_request,
    response=describe_groups_response,
)
