"""Records of the metadata log of an Apache Kafka quorum, as bytes and back (cluster.md 3.4).

The value of a data record is a frame version, the number of the record's type and the version of its layout, each an
unsigned varint, and then the record. A control record has an int16 version and its type as its key; its value begins
with the int16 version of its layout. Always true: what is not understood to its last byte raises `DecodeError`, because
a record that is half understood makes an image that is not the cluster's (cluster.md 1.8).
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from eosin.protocol.codegen.decode import Decoder, generate_decoder
from eosin.protocol.codegen.encode import Encoder, generate_encoder
from eosin.protocol.codegen.varints import Data, read_uvarint, uvarint
from eosin.protocol.schemas.records import metadata, quorum
from eosin.protocol.types import DecodeError, EncodeError, Message, RecordSchema

FRAME_VERSION: Final = 1

_CONTROL_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


class _Codecs:
    """Encoders and decoders of one set of types, each made on its first use."""

    def __init__(self, types: Mapping[int, RecordSchema], noun: str) -> None:
        self._types = types
        self._noun = noun
        self._numbers = {schema.struct: number for number, schema in types.items()}
        self._decoders: dict[tuple[int, int], Decoder] = {}
        self._encoders: dict[tuple[type[Message], int], Encoder] = {}

    def number_of(self, struct: type[Message]) -> int:
        """The type's number. Raises EncodeError."""
        number = self._numbers.get(struct)
        if number is None:
            raise EncodeError(f"{struct.__name__} is not one of the {self._noun}")
        return number

    def decoder(self, number: int, version: int) -> Decoder:
        """Raises DecodeError for a type or a version that is not known."""
        found = self._decoders.get((number, version))
        if found is not None:
            return found
        schema = self._types.get(number)
        if schema is None:
            raise DecodeError(f"{self._noun} of type {number} are not known")
        if version not in schema.versions:
            raise DecodeError(f"{schema.struct.__name__} version {version} is not known")
        made = generate_decoder(schema.layout(version), f"{schema.struct.__name__} v{version} decoder")
        return self._decoders.setdefault((number, version), made)

    def encoder(self, struct: type[Message], version: int) -> Encoder:
        """Raises EncodeError for a struct that is none of them, or a version that it has not."""
        found = self._encoders.get((struct, version))
        if found is not None:
            return found
        schema = self._types[self.number_of(struct)]
        if version not in schema.versions:
            raise EncodeError(f"{struct.__name__} version {version} is not declared")
        made = generate_encoder(schema.layout(version), f"{struct.__name__} v{version} encoder")
        return self._encoders.setdefault((struct, version), made)


_RECORDS: Final = _Codecs(metadata.TYPES, "metadata records")
_CONTROLS: Final = _Codecs(quorum.TYPES, "control records of a quorum")


def decode_metadata_record(value: Data) -> Any:
    """The record that is `value`, one of the structs of `eosin.protocol.schemas.records.metadata`.

    Raises DecodeError, also for a frame version, a type or a version that is not known, and for bytes that are left.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError as error:
        raise DecodeError(f"a metadata record of {len(value)} bytes has no whole frame") from error
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version} of metadata records is not known, {FRAME_VERSION} is")
    return _RECORDS.decoder(number, version)(value, position)


def encode_metadata_record(record: Message, version: int) -> bytes:
    """The value of `record` at `version`. Raises EncodeError."""
    frame = uvarint(FRAME_VERSION) + uvarint(_RECORDS.number_of(type(record))) + uvarint(version)
    (encoded,) = _RECORDS.encoder(type(record), version)(record, bytearray(frame))
    return bytes(encoded)


def decode_quorum_control(key: Data, value: Data) -> Any:
    """The control record of `key` and `value`, one of the structs of `eosin.protocol.schemas.records.quorum`.

    Raises DecodeError, also for a type or a version that is not known, and for bytes that are left.
    """
    try:
        key_version, number = _CONTROL_KEY.unpack(key)
        (version,) = _VERSION.unpack_from(value)
    except struct.error as error:
        raise DecodeError("a control record without type or version") from error
    if key_version != _KEY_VERSION:
        raise DecodeError(f"version {key_version} of the keys of control records is not known")
    return _CONTROLS.decoder(number, version)(value, _VERSION.size)


def encode_quorum_control(record: Message, version: int) -> tuple[bytes, bytes]:
    """Key and value of a control record at `version`. Raises EncodeError."""
    key = _CONTROL_KEY.pack(_KEY_VERSION, _CONTROLS.number_of(type(record)))
    (encoded,) = _CONTROLS.encoder(type(record), version)(record, bytearray(_VERSION.pack(version)))
    return key, bytes(encoded)
