"""Records of `__consumer_offsets`, to and from what the coordinator keeps in memory (groups.md 12).

Written versions: offsets v4, which tell the id of their topic (as Apache Kafka 4.1 and later writes them, and 3.5 and
later reads them), v3 where that is not known, or v1 when the commit carries its own expiry (which has room for neither
the id nor the leader epoch); groups v3. Whatever is written here is read back the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, CommittedOffset, OffsetToCommit
from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.records.batch import Compression, NewRecord, Record, build_batch
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.records.scan import KeyValue
from eosin.protocol.schemas.records.consumer_offsets import (
    KINDS,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

_OFFSET_VERSION: Final = 3
_OFFSET_VERSION_WITH_TOPIC_ID: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VERSION: Final = 3

MAX_BATCH_BYTES: Final = 512 * 1024
"""Tombstones beyond this go into further batches, so that the topic's `max.message.bytes` does not refuse them."""

_NO_GROUP: Final = ""
_NO_PARTITION: Final = -1
NO_GROUP_KEY: Final = b"\0\0"
"""The empty group id, for which nobody commits an offset, as the key of `topic_tombstone` has it behind its version."""

_REMEMBERED_KEYS: Final = 4_096
"""A group commits the same partitions again and again."""
REMEMBERED_CHARS: Final = 256
"""Of a longer group id nothing is remembered: a client may take 32 KiB for each."""


# Writing


def offset_record(group_id: str, commit: OffsetToCommit, *, now_ms: int) -> NewRecord:
    """One committed offset; `now_ms` is its time unless it brings its own."""
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata or "",
        commit_timestamp=now_ms if commit.commit_timestamp_ms < 0 else commit.commit_timestamp_ms,
        expire_timestamp=commit.expire_timestamp_ms,
        topic_id=commit.topic_id,
    )
    if commit.expire_timestamp_ms != NO_EXPIRY:
        version = _OFFSET_VERSION_WITH_EXPIRY
    else:
        version = _OFFSET_VERSION if commit.topic_id == ZERO_UUID else _OFFSET_VERSION_WITH_TOPIC_ID
    return NewRecord(_offset_key(group_id, commit.partition), encode_value(value, version))


def offset_tombstone(group_id: str, partition: TopicPartition) -> NewRecord:
    """The end of a committed offset."""
    return NewRecord(_offset_key(group_id, partition), None)


def topic_tombstone(topic: str) -> NewRecord:
    """The end of all offsets of a topic that stand before it, whatever their group (groups.md 14). It is the tombstone
    of an offset that cannot be: other readers find nothing to delete."""
    return offset_tombstone(_NO_GROUP, TopicPartition(topic, _NO_PARTITION))


def group_record(group: Group) -> NewRecord:
    """A group in its current generation, with the members' metadata of the selected protocol only."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=tuple(_member_fields(member, group.protocol_name) for member in group.members.values()),
    )
    return NewRecord(_group_key(group.group_id), encode_value(value, _GROUP_VERSION))


def group_tombstone(group_id: str) -> NewRecord:
    """The end of a group."""
    return NewRecord(_group_key(group_id), None)


def batch(records: Sequence[NewRecord], config: GroupConfig, *, now_ms: int) -> bytes:
    """A batch of records that take effect at once."""
    return bytes(build_batch(records, timestamp=now_ms, compression=_codec(config)))


def transactional_batch(
    records: Sequence[NewRecord], config: GroupConfig, *, now_ms: int, producer_id: int, producer_epoch: int
) -> bytes:
    """A batch of records that take effect with their transaction. (Its sequence is not checked.)"""
    return bytes(
        build_batch(
            records,
            timestamp=now_ms,
            compression=_codec(config),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            transactional=True,
        )
    )


def in_batches(records: Sequence[NewRecord]) -> Iterator[Sequence[NewRecord]]:
    """The records, cut where a batch would grow beyond `MAX_BATCH_BYTES`; nearly always in one piece."""
    start = size = 0
    for index, record in enumerate(records):
        more = len(record.key or b"") + len(record.value or b"") + 32  # lengths, deltas, and air
        if size + more > MAX_BATCH_BYTES and index > start:
            yield records[start:index]
            start, size = index, 0
        size += more
    yield records[start:]


def _codec(config: GroupConfig) -> Compression:
    return Compression(config.offsets_topic_compression_codec)


def _offset_key(group_id: str, partition: TopicPartition) -> bytes:
    remembers = len(group_id) <= REMEMBERED_CHARS
    return remembered_key(group_id, partition) if remembers else remembered_key.__wrapped__(group_id, partition)


@lru_cache(maxsize=_REMEMBERED_KEYS)
def remembered_key(group_id: str, partition: TopicPartition) -> bytes:
    """The key of an offset's record."""
    return encode_key(OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition))


def _group_key(group_id: str) -> bytes:
    return encode_key(GroupMetadataKey(group=group_id))


def _member_fields(member: Member, protocol_name: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=member.assignment,
    )


# Reading


@dataclass(frozen=True, slots=True)
class OffsetWritten:
    """A record of a committed offset; None is its tombstone."""

    group_id: str
    partition: TopicPartition
    value: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupWritten:
    """A record of a group; None is its tombstone."""

    group_id: str
    group: Group | None


def ended_topic(written: OffsetWritten) -> str | None:
    """The topic of a `topic_tombstone`; None for any other record."""
    is_one = written.value is None and written.partition.partition == _NO_PARTITION and written.group_id == _NO_GROUP
    return written.partition.topic if is_one else None


def read(record: Record | KeyValue) -> OffsetWritten | GroupWritten | None:
    """The content of a record; None for a kind that Eosin does not know, such as those of newer group protocols.

    Raises DecodeError when it is damaged.
    """
    raw = record.key or b""
    key = known_key(raw) if len(raw) <= 4 * REMEMBERED_CHARS else known_key.__wrapped__(raw)
    match key:
        case OffsetCommitKey():
            partition = TopicPartition(key.topic, key.partition)
            if record.value is None:
                return OffsetWritten(key.group, partition, None)
            return OffsetWritten(key.group, partition, _offset(record))
        case GroupMetadataKey():
            if record.value is None:
                return GroupWritten(key.group, None)
            return GroupWritten(key.group, _group(key.group, decode_value(GroupMetadataValue, record.value)))
        case _:
            return None


@lru_cache(maxsize=_REMEMBERED_KEYS)
def known_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """A key, decoded once for the many records of a log that have it."""
    known: OffsetCommitKey | GroupMetadataKey | None = decode_key(KINDS, key)
    return known


def _offset(record: Record | KeyValue) -> CommittedOffset:
    assert record.value is not None
    value: OffsetCommitValue = decode_value(OffsetCommitValue, record.value)
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        record_offset=record.offset,
        topic_id=_shared(value.topic_id),
    )


@lru_cache(maxsize=_REMEMBERED_KEYS)
def _shared(topic_id: Uuid) -> Uuid:
    """The same id, once for the many offsets of a topic."""
    return topic_id


def _group(group_id: str, value: GroupMetadataValue) -> Group:
    members = {each.member_id: _member(each, value.protocol or "") for each in value.members}
    return Group(
        group_id=group_id,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        state_timestamp_ms=value.current_state_timestamp,
        generation_id=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol if members else None,
        leader_id=value.leader if members else None,
        members=members,
    )


def _member(value: MemberMetadata, protocol_name: str) -> Member:
    # Records before v1 do not tell the rebalance timeout; then it was the session timeout.
    rebalance_timeout_ms = value.rebalance_timeout if value.rebalance_timeout >= 0 else value.session_timeout
    return Member(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout_ms=value.session_timeout,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocols=((protocol_name, value.subscription),),
        assignment=value.assignment,
    )
