"""DescribeGroups (key 15), versions 0-6: state and members of classic groups.

v1 adds throttle_time_ms to the response. v3 adds include_authorized_operations to the request and authorized_operations
to the response. v4 adds group_instance_id to the response. v5 is the first flexible version. v6 adds error_message to
the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class DescribeGroupsRequest(Message):
    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, "3+"] = False


class DescribedGroupMember(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, "4+"] = None  # of a static member
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, "6+"] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, "3+"] = -(2**31)  # a set of bits; the default means: not asked for


class DescribeGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    groups: tuple[DescribedGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_GROUPS,
    versions=range(0, 7),
    flexible_from=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
)
