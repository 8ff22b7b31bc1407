"""Structs behind an int16 version: keys and values of internal logs, and structs that consumers embed in group
requests.

The codecs are generated from the declarations under `schemas/records/` just like those of messages.
"""

import struct
from typing import Any, Final

from eosin.protocol.codegen.decode import Decoder, generate_decoder
from eosin.protocol.codegen.encode import Encoder, generate_encoder
from eosin.protocol.codegen.varints import Data
from eosin.protocol.schemas.records import (
    cluster_metadata,
    consumer_groups,
    consumer_offsets,
    consumer_protocol,
    share_group_state,
    share_groups,
    streams_groups,
    transaction_state,
)
from eosin.protocol.schemas.streams_group_topology_description_update import TOPOLOGY_DESCRIPTION
from eosin.protocol.types import DecodeError, EncodeError, Message, RecordKind, RecordSchema

_VERSION: Final = struct.Struct(">h")

_KINDS: Final = (
    *transaction_state.KINDS,
    *consumer_offsets.KINDS,
    *consumer_groups.KINDS,
    *share_group_state.KINDS,
    *share_groups.KINDS,
    *streams_groups.KINDS,
    *cluster_metadata.KINDS,
)
_EMBEDDED: Final = (consumer_protocol.SUBSCRIPTION, consumer_protocol.ASSIGNMENT, TOPOLOGY_DESCRIPTION)
_SCHEMAS: Final[dict[type[Message], RecordSchema]] = {
    schema.struct: schema for schema in (*(part for kind in _KINDS for part in (kind.key, kind.value)), *_EMBEDDED)
}

_DECODERS: Final[dict[tuple[type[Message], int], Decoder]] = {}
_ENCODERS: Final[dict[tuple[type[Message], int], Encoder]] = {}


def encode_key(key: Message) -> bytes:
    """The bytes of a record key. Its version, which says of what kind it is, is the newest of that kind."""
    return encode_value(key, _SCHEMAS[type(key)].versions[-1])


def encode_value(value: Message, version: int) -> bytes:
    """The bytes of a record value at `version`. Raises EncodeError."""
    try:
        encode = _ENCODERS[type(value), version]
    except KeyError:
        encode = _encoder(type(value), version)
    (encoded,) = encode(value, bytearray(_VERSION.pack(version)))
    return bytes(encoded)


def decode_key(kinds: tuple[RecordKind, ...], data: Data) -> Any:
    """The key that is `data` in a log of these kinds of records, a module's `KINDS`.

    None when no kind has the key's version: newer brokers write kinds that a reader is expected to pass over. Raises
    DecodeError when a known kind is malformed.
    """
    version = _version(data)
    for kind in kinds:
        if version in kind.key.versions:
            return decode_value(kind.key.struct, data)
    return None


def decode_value(kind: type[Message], data: Data) -> Any:
    """The struct of `kind` that is `data`. Raises DecodeError, also for a version that is not declared."""
    version = _version(data)
    try:
        decode = _DECODERS[kind, version]
    except KeyError:
        decode = _decoder(kind, version)
    return decode(data, _VERSION.size)


def _version(data: Data) -> int:
    try:
        (version,) = _VERSION.unpack_from(data, 0)
    except struct.error as error:
        raise DecodeError("a record without a version") from error
    return int(version)


def _decoder(kind: type[Message], version: int) -> Decoder:
    schema = _SCHEMAS[kind]
    newest = schema.versions[-1]
    if schema.tolerant and version > newest:
        # Not kept: there are as many such versions as a peer cares to send.
        return _DECODERS.get((kind, newest)) or _decoder(kind, newest)
    if version not in schema.versions:
        raise DecodeError(f"{kind.__name__} version {version} is not declared")
    title = f"{kind.__name__} v{version} decoder"
    return _DECODERS.setdefault(
        (kind, version), generate_decoder(schema.layout(version), title, tolerant=schema.tolerant)
    )


def _encoder(kind: type[Message], version: int) -> Encoder:
    schema = _SCHEMAS[kind]
    if version not in schema.versions:
        raise EncodeError(f"{kind.__name__} version {version} is not declared")
    title = f"{kind.__name__} v{version} encoder"
    return _ENCODERS.setdefault((kind, version), generate_encoder(schema.layout(version), title))
