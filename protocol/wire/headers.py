"""Request and response headers, which stand before the message in a frame.

The size prefix of a frame belongs to `frames.py` when reading; when writing it is put in front here, because only a
whole frame knows its size.

| api version | request header | response header |
| --- | --- | --- |
| not flexible | 1 | 0 |
| flexible | 2: header 1 and a tag section | 1: header 0 and a tag section |
| ApiVersions, any | as above | 0, so that a client of any age can read it |

The client id is a string with an int16 length in both request headers, and the first three fields are alike in all of
them: a request of an unknown API or version still gets a response.
"""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from eosin.protocol.codegen.varints import Data, read_uvarint, skip_tags
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Buffer, DecodeError, EncodeError

_REQUEST: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_SIZED_REQUEST: Final = struct.Struct(">ihhih")
_SIZED_RESPONSE: Final = struct.Struct(">ii")
_SIZED_TAGGED_RESPONSE: Final = struct.Struct(">iix")
_SIZE: Final = struct.Struct(">i")

SIZE_BYTES: Final = 4
"""The int32 in front of every frame, which does not count itself."""


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a request, and where in the frame its body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def read_request_header(frame: Data, has_tags: Mapping[tuple[int, int], bool]) -> RequestHeader:
    """The header at the start of `frame`. `has_tags` says of an API key and version whether it is header version 2."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame, 0)
        body = _REQUEST.size
        client_id = None
        if length >= 0:
            body += length
            client_id = str(frame[_REQUEST.size : body], "utf-8")
        if length < -1 or body > len(frame):
            raise DecodeError(f"a client id of {length} bytes in a frame of {len(frame)}")
        if has_tags[api_key, api_version]:
            body = after_tags(frame, body) if frame[body] else body + 1
        return RequestHeader(api_key, api_version, correlation_id, client_id, body)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DecodeError("the request header is cut short, or its client id is not UTF-8") from error


def after_tags(frame: Data, position: int) -> int:
    """The position after the tag section at `position`. No header has a tagged field that means anything to us.

    Raises IndexError beyond the end.
    """
    count, position = read_uvarint(frame, position)
    return skip_tags(count, frame, position, len(frame)) if count else position


def read_response_header(frame: Data, *, has_tags: bool) -> tuple[int, int]:
    """The correlation id at the start of `frame`, and where the body starts."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 0)
        return correlation_id, after_tags(frame, _CORRELATION_ID.size) if has_tags else _CORRELATION_ID.size
    except (struct.error, IndexError) as error:
        raise DecodeError("the response header is cut short") from error


def start_request(key: int, version: int, correlation_id: int, client_id: str | None, *, has_tags: bool) -> bytearray:
    """The start of a frame: an open size and the request header."""
    try:
        if client_id is None:
            out = bytearray(_SIZED_REQUEST.pack(0, key, version, correlation_id, -1))
        else:
            name = client_id.encode()
            out = bytearray(_SIZED_REQUEST.pack(0, key, version, correlation_id, len(name)))
            out += name
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"the request header: {error}") from error
    if has_tags:
        out.append(0)
    return out


def start_response(correlation_id: int) -> bytes:
    """The start of a frame: an open size and response header version 0."""
    return _SIZED_RESPONSE.pack(0, correlation_id)


def start_tagged_response(correlation_id: int) -> bytes:
    """The start of a frame: an open size and response header version 1."""
    return _SIZED_TAGGED_RESPONSE.pack(0, correlation_id)


def close_frame(parts: list[Buffer]) -> list[Buffer]:
    """The same buffers, with the size of the whole frame written at the start of the first."""
    size = (len(parts[0]) if len(parts) == 1 else sum(map(len, parts))) - SIZE_BYTES
    try:
        _SIZE.pack_into(parts[0], 0, size)
    except struct.error as error:
        raise EncodeError(f"a frame of {size} bytes") from error
    return parts


def has_tagged_response_header(schema: ApiSchema, version: int) -> bool:
    """True if the response header is version 1."""
    return schema.is_flexible(version) and schema.key is not ApiKey.API_VERSIONS
