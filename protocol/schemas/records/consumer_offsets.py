"""Records of `__consumer_offsets`: positions by group, topic and partition, and the members of classic groups.

The version in front of a key says which kind it is: 0 and 1 a position, 2 a group. Versions 3 to 8 and 16 are consumer
groups of KIP-848 (`consumer_groups.py`); the others are groups that Eosin neither writes nor reads.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int32, Int64, Message, RecordKind, RecordSchema, Tag, Uuid


class OffsetCommitKey(Message):
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class OffsetCommitValue(Message):
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, "3+"] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, "1"] = -1
    topic_id: Annotated[Uuid, "4+", Tag(0)] = ZERO_UUID


class GroupMetadataKey(Message):
    group: str = ""


class MemberMetadata(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, "3+"] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, "1+"] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Message):
    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[Int64, "2+"] = -1
    members: tuple[MemberMetadata, ...] = ()


KINDS: Final = (
    RecordKind(
        key=RecordSchema(OffsetCommitKey, versions=range(0, 2), flexible_from=None),
        value=RecordSchema(OffsetCommitValue, versions=range(0, 5), flexible_from=4),
    ),
    RecordKind(
        key=RecordSchema(GroupMetadataKey, versions=range(2, 3), flexible_from=None),
        value=RecordSchema(GroupMetadataValue, versions=range(0, 5), flexible_from=4),
    ),
)
