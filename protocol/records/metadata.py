"""Records of the metadata log of an Apache Kafka quorum: values of data batches to structs and back (cluster.md 3.4).

A value is a frame version, the number of the record's type and the version of its layout, each an unsigned varint, and
then the record. Always true: a value that is not understood to its last byte raises `DecodeError`, because a record
that is half understood makes an image that is not the cluster's (cluster.md 1.8).
"""

from typing import Any, Final

from eosin.protocol.codegen.decode import Decoder, generate_decoder
from eosin.protocol.codegen.encode import Encoder, generate_encoder
from eosin.protocol.schemas.records.metadata import TYPES
from eosin.protocol.types import DecodeError, EncodeError, Message
from eosin.protocol.varints import Data, read_uvarint, uvarint

FRAME_VERSION: Final = 1

_NUMBERS: Final = {schema.struct: number for number, schema in TYPES.items()}
_DECODERS: Final[dict[tuple[int, int], Decoder]] = {}
_ENCODERS: Final[dict[tuple[type[Message], int], tuple[bytes, Encoder]]] = {}


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
    decode = _DECODERS.get((number, version)) or _decoder(number, version)
    return decode(value, position)


def encode_metadata_record(record: Message, version: int) -> bytes:
    """The value of `record` at `version`. Raises EncodeError."""
    found = _ENCODERS.get((type(record), version))
    frame, encode = found or _encoder(type(record), version)
    (encoded,) = encode(record, bytearray(frame))
    return bytes(encoded)


def _decoder(number: int, version: int) -> Decoder:
    schema = TYPES.get(number)
    if schema is None:
        raise DecodeError(f"metadata records of type {number} are not known")
    if version not in schema.versions:
        raise DecodeError(f"{schema.struct.__name__} version {version} is not known")
    decoder = generate_decoder(schema.layout(version), f"{schema.struct.__name__} v{version} decoder")
    return _DECODERS.setdefault((number, version), decoder)


def _encoder(struct: type[Message], version: int) -> tuple[bytes, Encoder]:
    number = _NUMBERS.get(struct)
    if number is None or version not in TYPES[number].versions:
        raise EncodeError(f"{struct.__name__} version {version} is not declared")
    frame = uvarint(FRAME_VERSION) + uvarint(number) + uvarint(version)
    encoder = generate_encoder(TYPES[number].layout(version), f"{struct.__name__} v{version} encoder")
    return _ENCODERS.setdefault((struct, version), (frame, encoder))
