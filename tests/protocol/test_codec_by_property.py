"""Every version of every message: what is generated and what is interpreted agree, on sense and on nonsense."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_strategies import messages
from record_strategies import mutated

from eosin.protocol.codegen.decode import Decoder, generate_decoder
from eosin.protocol.codegen.encode import generate_encoder
from eosin.protocol.schemas import DECLARED, schema_of
from eosin.protocol.schemas.records import cluster_metadata, consumer_offsets, consumer_protocol, transaction_state
from eosin.protocol.types import DecodeError, Layout, RecordSchema
from eosin.protocol.wire import codec

Declaration = Callable[[int], Layout]

EXAMPLES = settings()
if EXAMPLES.max_examples <= 100:  # the quick profile: there are hundreds of layouts, so a few of each
    EXAMPLES = settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def record_schemas() -> list[RecordSchema]:
    kinds = (*transaction_state.KINDS, *consumer_offsets.KINDS, *cluster_metadata.KINDS)
    parts = [part for kind in kinds for part in (kind.key, kind.value)]
    return [*parts, consumer_protocol.SUBSCRIPTION, consumer_protocol.ASSIGNMENT]


def layouts() -> Iterator[tuple[str, Declaration, int]]:
    for key in sorted(DECLARED):
        schema = schema_of(key)
        assert schema is not None
        for version in schema.versions:
            yield f"{schema.request.__name__}-v{version}", schema.request_layout, version
            yield f"{schema.response.__name__}-v{version}", schema.response_layout, version
    for record in record_schemas():
        for version in record.versions:
            yield f"{record.struct.__name__}-v{version}", record.layout, version


every_layout = pytest.mark.parametrize(
    ("declaration", "version"), [pytest.param(*layout[1:], id=layout[0]) for layout in layouts()]
)


def outcome(decode: Callable[[], object]) -> object:
    """What decoding leads to: the message, or that there is none."""
    try:
        return decode()
    except DecodeError:
        return DecodeError


def agree(layout: Layout, decode: Decoder, data: bytes) -> object:
    """What both ways of decoding `data` lead to; they must not differ."""
    generated = outcome(lambda: decode(memoryview(data), 0))
    assert generated == outcome(lambda: codec.interpret(layout, data))
    return generated


@every_layout
def test_generated_and_interpreted_codecs_agree(declaration: Declaration, version: int) -> None:
    layout = declaration(version)
    encode, decode = generate_encoder(layout, "encoder"), generate_decoder(layout, "decoder")

    @EXAMPLES
    @given(message=messages(layout), data=st.data())
    def check(message: object, data: st.DataObject) -> None:
        encoded = b"".join(encode(message, bytearray()))
        assert encoded == codec.build(layout, message)
        assert agree(layout, decode, encoded) == message
        assert agree(layout, decode, encoded + b"\0") is DecodeError
        if encoded:
            cut = data.draw(st.integers(0, len(encoded) - 1))
            assert agree(layout, decode, encoded[:cut]) is DecodeError
        agree(layout, decode, data.draw(mutated(encoded)))

    check()


@settings(deadline=None)
@given(layout=st.sampled_from(list(layouts())), data=st.binary(max_size=80))
def test_generated_and_interpreted_decoders_agree_on_noise(layout: tuple[str, Declaration, int], data: bytes) -> None:
    declared = layout[1](layout[2])
    agree(declared, generate_decoder(declared, "decoder"), data)


@pytest.mark.parametrize("key", sorted(DECLARED), ids=lambda key: key.name)
def test_frames_of_every_version_carry_header_and_message(key: int) -> None:
    schema = schema_of(key)
    assert schema is not None
    for version in schema.versions:
        request, response = schema.request(), schema.response()
        frame = b"".join(codec.encode_request(key, version, 7, "client", request))
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        header = codec.decode_request_header(frame[4:])
        assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 7)
        assert header.client_id == "client"
        assert codec.decode_request(key, version, frame[4:], header.body_offset) == request
        frame = b"".join(codec.encode_response(key, version, 8, response))
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert codec.decode_response(key, version, frame[4:]) == (8, response)
