"""Frames to messages and back: the only module that parses and builds.

Codecs are generated from the declarations under `schemas/`, each on its first use and each direction apart, so that a
start pays for none of them and a broker only for what its clients speak. From any bytes a decoder returns
a message or raises `DecodeError`. `interpret` and `build` do the same work through construct's interpreter: they are
slow, and they are the reference that tests compare the generated code with.

A frame comes from `frames.py` without its size prefix. An encoded frame has it.
"""

import io
from collections.abc import Callable
from typing import Any, Final

import construct

from eosin.protocol.codegen.decode import Decoder, generate_decoder
from eosin.protocol.codegen.encode import Encoder, generate_encoder
from eosin.protocol.codegen.nodes import ManyElements
from eosin.protocol.codegen.source import source_of
from eosin.protocol.codegen.varints import Data
from eosin.protocol.schemas import schema_of
from eosin.protocol.types import ApiSchema, Buffer, DecodeError, EncodeError, Layout, Message
from eosin.protocol.wire.headers import (
    RequestHeader,
    close_frame,
    has_tagged_response_header,
    read_request_header,
    read_response_header,
    start_request,
    start_response,
    start_tagged_response,
)

__all__ = [
    "Buffer",
    "DecodeError",
    "EncodeError",
    "EncodedBody",
    "ManyElements",
    "RequestHeader",
    "build",
    "decode_body",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_body",
    "encode_request",
    "encode_response",
    "interpret",
    "response_body",
    "sources",
]

_ResponseStart = Callable[[int], bytes]


class _RequestTags(dict[tuple[int, int], bool]):
    """(API key, version) to whether its request header has tags. Only declared versions are kept: peers send any
    number."""

    def __missing__(self, key: tuple[int, int]) -> bool:
        schema = schema_of(key[0])
        if schema is None or key[1] not in schema.versions:
            return False
        return self.setdefault(key, schema.is_flexible(key[1]))


_REQUEST_TAGS: Final = _RequestTags()
_REQUEST_DECODERS: Final[dict[tuple[int, int], Decoder]] = {}
_REQUEST_ENCODERS: Final[dict[tuple[int, int], Encoder]] = {}
_RESPONSE_DECODERS: Final[dict[tuple[int, int], Decoder]] = {}
_RESPONSE_ENCODERS: Final[dict[tuple[int, int], tuple[_ResponseStart, Encoder]]] = {}

MOST_ELEMENTS: Final = 250_000
"""Of the arrays of one request, together: some elements of two bytes become objects of a hundred (security.md 6.2). A
client that names 100,000 partitions sends about 101,000."""


class EncodedBody(Message, frozen=True, gc=False):
    """The body of a response that is encoded already, at the version that is asked for."""

    data: bytes


# For a broker


def decode_request_header(frame: Data) -> RequestHeader:
    """The header of the request in `frame`; its API and version may be unknown. Raises DecodeError."""
    return read_request_header(frame, _REQUEST_TAGS)


def decode_request(key: int, version: int, frame: Data, offset: int, rest: Callable[[], None] | None = None) -> Any:
    """The request whose body starts at `offset`. Bytes after it are left unread.

    Fields of record batches are views of `frame`; everything else is copied. Raises DecodeError, also for a version
    that is not declared; and ManyElements for a request that takes long, unless there is a `rest`: a thread's, which is
    called after about each millisecond.
    """
    try:
        decode = _REQUEST_DECODERS[key, version]
    except KeyError:
        decode = _request_decoder(key, version)
    return decode(frame, offset) if rest is None else decode(frame, offset, rest)


def encode_response(key: int, version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """The frame of a response, in as few buffers as possible. Record batches of 4 KiB or more are not copied."""
    try:
        start, encode = _RESPONSE_ENCODERS[key, version]
    except KeyError:
        start, encode = _response_encoder(key, version)
    if type(message) is EncodedBody:
        return close_frame([bytearray(start(correlation_id)), message.data])
    return close_frame(encode(message, bytearray(start(correlation_id))))


def encode_body(key: int, version: int, message: Message) -> bytes:
    """The body of a response, for an `EncodedBody`. May be called in any thread."""
    _, encode = _RESPONSE_ENCODERS.get((key, version)) or _response_encoder(key, version)
    return b"".join(encode(message, bytearray()))


# For a client


def encode_request(
    key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Buffer]:
    """The frame of a request, as `encode_response` does it."""
    try:
        encode = _REQUEST_ENCODERS[key, version]
    except KeyError:
        encode = _request_encoder(key, version)
    has_tags = _REQUEST_TAGS[key, version]
    return close_frame(encode(message, start_request(key, version, correlation_id, client_id, has_tags=has_tags)))


def decode_response(key: int, version: int, frame: Data) -> tuple[int, Any]:
    """The correlation id and the message of the response in `frame`. Raises DecodeError."""
    try:
        decode = _RESPONSE_DECODERS[key, version]
    except KeyError:
        decode = _response_decoder(key, version)
    has_tags = has_tagged_response_header(_declared(key, version), version)
    correlation_id, body = read_response_header(frame, has_tags=has_tags)
    return correlation_id, decode(frame, body)


def decode_body(key: int, version: int, body: EncodedBody) -> Any:
    """The message of a response's body. Raises DecodeError."""
    decode = _RESPONSE_DECODERS.get((key, version)) or _response_decoder(key, version)
    return decode(body.data, 0)


def response_body(key: int, version: int, frame: Data) -> EncodedBody:
    """The body of the response in `frame`, unread. Raises DecodeError."""
    has_tags = has_tagged_response_header(_declared(key, version), version)
    _, body = read_response_header(frame, has_tags=has_tags)
    return EncodedBody(bytes(frame[body:]))


# Generation


def _declared(key: int, version: int) -> ApiSchema:
    schema = schema_of(key)
    if schema is None or version not in schema.versions:
        raise DecodeError(f"API {key} version {version} is not declared")
    return schema


def _request_decoder(key: int, version: int) -> Decoder:
    layout = _declared(key, version).request_layout(version)
    # Kafka leaves bytes after a request unread, and librdkafka relies on it: it writes the null array of topics in
    # Metadata v9 and later with four bytes, of which one is the array.
    title = f"{layout.struct.__name__} v{version} decoder"
    decoder = generate_decoder(layout, title, tolerant=True, most_elements=MOST_ELEMENTS)
    return _REQUEST_DECODERS.setdefault((key, version), decoder)


def _request_encoder(key: int, version: int) -> Encoder:
    layout = _declared(key, version).request_layout(version)
    encoder = generate_encoder(layout, f"{layout.struct.__name__} v{version} encoder")
    return _REQUEST_ENCODERS.setdefault((key, version), encoder)


def _response_decoder(key: int, version: int) -> Decoder:
    layout = _declared(key, version).response_layout(version)
    decoder = generate_decoder(layout, f"{layout.struct.__name__} v{version} decoder")
    return _RESPONSE_DECODERS.setdefault((key, version), decoder)


def _response_encoder(key: int, version: int) -> tuple[_ResponseStart, Encoder]:
    schema = _declared(key, version)
    layout = schema.response_layout(version)
    start = start_tagged_response if has_tagged_response_header(schema, version) else start_response
    encoder = generate_encoder(layout, f"{layout.struct.__name__} v{version} encoder")
    return _RESPONSE_ENCODERS.setdefault((key, version), (start, encoder))


def sources(key: int, version: int) -> str:
    """The generated code for one version of an API, to be read by a person."""
    functions = (
        _request_decoder(key, version),
        _request_encoder(key, version),
        _response_decoder(key, version),
        _response_encoder(key, version)[1],
    )
    return "\n\n".join(f"# {function.__doc__}\n{source_of(function)}" for function in functions)


# The reference


def interpret(layout: Layout, data: Data) -> Any:
    """The message that is `data` and nothing more, by construct's interpreter. Raises DecodeError."""
    stream = io.BytesIO(data)
    try:
        message = layout.parse_stream(stream)
    except construct.ConstructError as error:
        raise DecodeError(str(error)) from error
    if stream.tell() != len(data):
        raise DecodeError(f"{len(data) - stream.tell()} bytes after the message")
    return message


def build(layout: Layout, message: Message) -> bytes:
    """The bytes of `message`, by construct's interpreter. Raises EncodeError."""
    try:
        return layout.build(message)
    except (construct.ConstructError, AttributeError, TypeError, ValueError) as error:
        raise EncodeError(str(error)) from error
