"""Records of `__consumer_offsets`: positions by group, topic and partition, and the members of classic groups.

The version in front of a key says which kind it is: 0 and 1 a position, 2 a group. Versions 3 to 15 are the groups of
newer protocols, which Eosin neither writes nor reads.
"""

from typing import Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    Int32,
    Int64,
    Layout,
    Message,
    RecordKind,
    RecordSchema,
    Uuid,
    array,
    blob,
    message,
    string,
    tagged,
    when,
)


class OffsetCommitKey(Message):
    group: str = ""
    topic: str = ""
    partition: int = 0


class OffsetCommitValue(Message):
    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


class GroupMetadataKey(Message):
    group: str = ""


class MemberMetadata(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Message):
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[MemberMetadata, ...] = ()


def offset_commit_key(version: int) -> Layout:
    """The key of a position; versions 0 and 1 have the same layout, and 1 is the one that is written."""
    return message(
        OffsetCommitKey,
        False,
        "group" / string(False),
        "topic" / string(False),
        "partition" / Int32,
    )


def offset_commit_value(version: int) -> Layout:
    """The value of a position at `version`."""
    flexible = version >= 4
    return message(
        OffsetCommitValue,
        flexible,
        "offset" / Int64,
        *when(version >= 3, "leader_epoch" / Int32),
        "metadata" / string(flexible),
        "commit_timestamp" / Int64,
        *when(version == 1, "expire_timestamp" / Int64),
        *when(version >= 4, "topic_id" / tagged(0, Uuid)),
    )


def group_metadata_key(version: int) -> Layout:
    """The key of a group."""
    return message(GroupMetadataKey, False, "group" / string(False))


def group_metadata_value(version: int) -> Layout:
    """The value of a group at `version`."""
    flexible = version >= 4
    member_metadata = message(
        MemberMetadata,
        flexible,
        "member_id" / string(flexible),
        *when(version >= 3, "group_instance_id" / string(flexible, nullable=True)),
        "client_id" / string(flexible),
        "client_host" / string(flexible),
        *when(version >= 1, "rebalance_timeout" / Int32),
        "session_timeout" / Int32,
        "subscription" / blob(flexible),
        "assignment" / blob(flexible),
    )
    return message(
        GroupMetadataValue,
        flexible,
        "protocol_type" / string(flexible),
        "generation" / Int32,
        "protocol" / string(flexible, nullable=True),
        "leader" / string(flexible, nullable=True),
        *when(version >= 2, "current_state_timestamp" / Int64),
        "members" / array(member_metadata, flexible),
    )


KINDS: Final = (
    RecordKind(
        key=RecordSchema(OffsetCommitKey, versions=range(0, 2), layout=offset_commit_key),
        value=RecordSchema(OffsetCommitValue, versions=range(0, 5), layout=offset_commit_value),
    ),
    RecordKind(
        key=RecordSchema(GroupMetadataKey, versions=range(2, 3), layout=group_metadata_key),
        value=RecordSchema(GroupMetadataValue, versions=range(0, 5), layout=group_metadata_value),
    ),
)
