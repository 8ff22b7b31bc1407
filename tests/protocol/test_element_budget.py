"""How many elements the arrays of one request may have (security.md 6.2; case 16 of security.md 9.3)."""

import tracemalloc
from collections.abc import Iterator

import pytest

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.decode import ELEMENTS_PER_REST, Decoder, generate_decoder
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct
from eosin.protocol.codegen.text import Blob, Text
from eosin.protocol.codegen.varints import MOST_TAGS, uvarint
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.types import DecodeError
from eosin.protocol.wire.codec import MOST_ELEMENTS, ManyElements, decode_request, decode_request_header, encode_request

MIB: int = 1 << 20
LARGEST_REQUEST_BYTES = 16 * MIB
"""`eosin.control.request.max.bytes`."""
SMALLER = 100
"""Decoders with a budget that is so much smaller show the same in less time."""
MOST_OF_SMALL = MOST_ELEMENTS // SMALLER


def cheapest(node: Construct) -> bytes:
    """The fewest bytes that are a value of `node`."""
    match node:
        case Text() | Blob() | Array():
            if node.flexible:
                return b"\x01"
            return bytes(2 if isinstance(node, Text) else 4)
        case NullableStruct():
            return b"\xff"
        case Layout():
            return b"".join(cheapest(field.node) for field in node.plain) + b"\x00" * node.flexible
        case _:
            return bytes(node.sizeof())


def filled(node: Array, elements: int, element: bytes) -> bytes:
    count = uvarint(elements + 1) if node.flexible else elements.to_bytes(4, "big")
    return count + element * elements


def arrays(layout: Layout) -> Iterator[tuple[str, Array]]:
    for field in layout.plain:
        if isinstance(field.node, Array):
            yield field.name, field.node


def with_array(layout: Layout, name: str, written: bytes) -> bytes:
    """The cheapest message but for this array."""
    fields = [written if field.name == name else cheapest(field.node) for field in layout.plain]
    return b"".join(fields) + b"\x00" * layout.flexible


def requests() -> Iterator[tuple[ApiKey, int, Layout]]:
    for key in ApiKey:
        schema = schema_of(key)
        if schema is not None:
            version = schema.versions[-1]
            yield key, version, schema.request_layout(version)


def without_rest() -> None:
    """What a thread does in its rests does not matter here."""


def refused(decode: Decoder, message: bytes) -> tuple[str, int]:
    """The error, and the bytes that were allocated before it."""
    with pytest.raises(DecodeError):
        decode(message, 0, without_rest)  # the decoder itself is made
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as error:
            decode(message, 0, without_rest)
        return str(error.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("key", "version", "layout"), list(requests()))
def test_no_array_of_any_request_has_more_elements_than_all_may_have(key: ApiKey, version: int, layout: Layout) -> None:
    """Its count alone refuses it."""
    decode = generate_decoder(layout, "decoder", tolerant=True, most_elements=MOST_OF_SMALL)
    for name, node in arrays(layout):
        message = with_array(layout, name, filled(node, MOST_OF_SMALL + 1, cheapest(node.element)))
        error, allocated = refused(decode, message)
        assert f"{name}: more than {MOST_OF_SMALL} elements in one message" in error
        assert allocated < 100_000, (key, version, name)


def nested(layout: Layout, outer_name: str, inner_name: str, inner: int) -> bytes:
    """A request of the largest size: an array of arrays of `inner` elements each."""
    outer = dict(arrays(layout))[outer_name]
    assert isinstance(outer.element, Layout)
    node = dict(arrays(outer.element))[inner_name]
    element = with_array(outer.element, inner_name, filled(node, inner, cheapest(node.element)))
    return with_array(layout, outer_name, filled(outer, LARGEST_REQUEST_BYTES // SMALLER // len(element), element))


@pytest.mark.parametrize(
    ("key", "outer", "inner"),
    [(ApiKey.WRITE_TXN_MARKERS, "markers", "topics"), (ApiKey.CREATE_TOPICS, "topics", "configs")],
)
@pytest.mark.parametrize("elements", [5, 100])
def test_many_small_arrays_count_as_one_large_one(key: ApiKey, outer: str, inner: str, elements: int) -> None:
    """128 MiB is what a frame of 16 MiB may become (security.md 6.2); here it is a hundredth of all that."""
    schema = schema_of(key)
    assert schema is not None
    layout = schema.request_layout(schema.versions[-1])
    decode = generate_decoder(layout, "decoder", most_elements=MOST_OF_SMALL)
    error, allocated = refused(decode, nested(layout, outer, inner, elements))
    assert f"more than {MOST_OF_SMALL} elements" in error
    assert allocated < 128 * MIB // SMALLER


def test_a_request_with_as_many_elements_as_it_may_have_is_read() -> None:
    schema = schema_of(ApiKey.DELETE_TOPICS)
    assert schema is not None
    layout = schema.request_layout(1)
    node = dict(arrays(layout))["topic_names"]
    message = with_array(layout, "topic_names", filled(node, MOST_ELEMENTS, cheapest(node.element)))
    rests: list[int] = []
    request = decode_request(ApiKey.DELETE_TOPICS, 1, message, 0, lambda: rests.append(1))
    assert len(request.topic_names) == MOST_ELEMENTS
    assert len(rests) == MOST_ELEMENTS // (ELEMENTS_PER_REST + 1)
    with pytest.raises(ManyElements):
        decode_request(ApiKey.DELETE_TOPICS, 1, message, 0)


def test_numbers_of_a_large_request_are_read_in_pieces() -> None:
    count = 50_000
    message = filled_numbers(count)
    rests: list[int] = []
    request = decode_request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, message, 0, lambda: rests.append(1))
    assert request.v3_and_below_topics[0].partitions == tuple(range(count))
    assert len(rests) >= count // ELEMENTS_PER_REST // 2
    with pytest.raises(ManyElements):
        decode_request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, message, 0)


def filled_numbers(count: int) -> bytes:
    """The body of a request for so many partitions of one topic."""
    topic = AddPartitionsToTxnTopic("t", tuple(range(count)))
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=(topic,))
    frame = b"".join(encode_request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 1, None, request))[4:]
    return frame[decode_request_header(frame).body_offset :]


def test_a_struct_of_more_tags_than_any_version_has_is_refused() -> None:
    tags = b"".join(uvarint(number) + b"\x00" for number in range(MOST_TAGS + 1))
    schema = schema_of(ApiKey.FIND_COORDINATOR)
    assert schema is not None
    untagged = with_array(schema.request_layout(6), "coordinator_keys", b"\x01")[:-1]
    for count, outcome in ((MOST_TAGS, None), (MOST_TAGS + 1, DecodeError)):
        message = untagged + uvarint(count) + tags
        if outcome is None:
            assert decode_request(ApiKey.FIND_COORDINATOR, 6, message, 0).coordinator_keys == ()
        else:
            with pytest.raises(outcome, match="tagged fields"):
                decode_request(ApiKey.FIND_COORDINATOR, 6, message, 0)
