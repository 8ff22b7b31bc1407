"""Records of the internal topics, decoded (wire.md section 8).

Owns the step from bytes to names and plain values; the layouts are declared in `protocol/schemas/records`.
"""

from typing import Any, Final

from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ZERO_UUID,
    uuid_text,
)
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.schemas.records import (
    cluster_metadata,
    consumer_groups,
    consumer_offsets,
    share_group_state,
    share_groups,
    streams_groups,
    transaction_state,
)
from eosin.protocol.schemas.records.cluster_metadata import ScramCredentialRecord, ScramSecretRecord
from eosin.protocol.schemas.records.consumer_offsets import GroupMetadataValue
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from eosin.protocol.schemas.records.transaction_state import TransactionLogValue
from eosin.protocol.types import DecodeError, Message, RecordKind
from eosin.storage.inspection.values import Decoded

UNKNOWN: Final = "unknown"
HIDDEN: Final = "[hidden]"
"""In place of what a password could be guessed from (security.md 4.2)."""

KINDS_BY_TOPIC: Final[dict[str, tuple[RecordKind, ...]]] = {
    TRANSACTION_STATE_TOPIC: transaction_state.KINDS,
    CONSUMER_OFFSETS_TOPIC: (
        *consumer_offsets.KINDS,
        *consumer_groups.KINDS,
        *share_groups.KINDS,
        *streams_groups.KINDS,
    ),
    SHARE_GROUP_STATE_TOPIC: share_group_state.KINDS,
    METADATA_TOPIC: cluster_metadata.KINDS,
}
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_CONSUMER: Final = "consumer"


class Undecodable(Exception):
    """The record is none that its topic may hold."""


def decode(topic: str, key: bytes | None, value: bytes | None) -> Decoded:
    """Decode a record of an internal topic. Raises Undecodable."""
    if key is None:
        raise Undecodable("it has no key")
    kinds = KINDS_BY_TOPIC[topic]
    try:
        decoded_key = decode_key(kinds, key)
        if decoded_key is None:
            return Decoded(kind=UNKNOWN, key_version=_version(key), key={})
        kind = next(kind for kind in kinds if kind.key.struct is type(decoded_key))
        decoded_value = None if value is None else decode_value(kind.value.struct, value)
    except DecodeError as error:
        raise Undecodable(str(error)) from error
    return Decoded(
        kind=type(decoded_key).__name__.removesuffix("Key"),
        key_version=_version(key),
        key=_plain(decoded_key),
        value_version=None if value is None else _version(value),
        value=None if decoded_value is None else _plain(decoded_value),
    )


def _version(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True)


def _plain(message: Message) -> dict[str, Any]:
    """The fields of a message, with bytes as text where they are text."""
    fields = {name: _plain_value(name, getattr(message, name)) for name in message.__struct_fields__}
    if isinstance(message, ScramCredentialRecord | ScramSecretRecord):
        fields |= {name: HIDDEN for name, value in fields.items() if not isinstance(value, int)}
    if isinstance(message, TransactionLogValue):
        fields["transaction_status"] = _state(message.transaction_status)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER:
        for member, shown in zip(message.members, fields["members"], strict=True):
            shown["subscription"] = _embedded(ConsumerProtocolSubscription, member.subscription)
            shown["assignment"] = _embedded(ConsumerProtocolAssignment, member.assignment)
    return fields


def _state(status: int) -> str:
    return TRANSACTION_STATES[status] if 0 <= status < len(TRANSACTION_STATES) else f"unknown state {status}"


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, Message):
        return _plain(value)
    if isinstance(value, tuple):
        return [_plain_value(name, each) for each in value]
    if isinstance(value, bytes):
        if name == "topic_id":
            return None if value == ZERO_UUID else uuid_text(value)
        return text_or_bytes(value)
    return value


def _embedded(kind: type[Message], data: bytes) -> Any:
    """Metadata or assignment of a consumer, decoded if possible. The broker does not read it, so bytes that cannot be
    decoded are no damage."""
    if not data:
        return None
    try:
        return _plain(decode_value(kind, data))
    except DecodeError:
        return text_or_bytes(data)


def text_or_bytes(data: bytes) -> Any:
    """Text if these bytes are UTF-8, else an object that holds them in base64 once it is JSON."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": data}
