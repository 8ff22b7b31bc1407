"""Headers, limits and refusals of the codec."""

import tracemalloc

import pytest

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest
from eosin.protocol.schemas.api_versions import ApiVersionsResponse
from eosin.protocol.schemas.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.fetch import FetchableTopicResponse, FetchResponse, FetchTopic, PartitionData
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import DecodeError, EncodeError
from eosin.protocol.wire import codec


def decode(key: ApiKey, version: int, spelled: str) -> object:
    return codec.decode_request(key, version, bytes.fromhex(spelled), 0)


# Headers


def test_a_request_header_of_version_1_ends_with_the_client_id() -> None:
    header = codec.decode_request_header(bytes.fromhex("001a 0001 00000007 0002 6d65 ffff"))
    assert header == codec.RequestHeader(26, 1, 7, "me", 12)


def test_a_request_header_of_version_2_has_a_legacy_client_id_and_tags() -> None:
    header = codec.decode_request_header(bytes.fromhex("001a 0003 00000007 0002 6d65 00 ffff"))
    assert header == codec.RequestHeader(26, 3, 7, "me", 13)


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    header = codec.decode_request_header(bytes.fromhex("001a 0003 00000007 ffff 01 05 02 abcd 99"))
    assert header == codec.RequestHeader(26, 3, 7, None, 15)


@pytest.mark.parametrize("key_and_version", ["0012 0063", "03e7 0000", "001a ffff"])
def test_the_header_of_an_unknown_request_can_be_read(key_and_version: str) -> None:
    header = codec.decode_request_header(bytes.fromhex(key_and_version + "00000007 0001 61 ff"))
    assert (header.correlation_id, header.client_id) == (7, "a")


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        "001a 0001 00000007",
        "001a 0001 00000007 0005 6d65",
        "001a 0001 00000007 fffe",
        "001a 0001 00000007 0001 ff",
        "001a 0003 00000007 ffff",
        "001a 0003 00000007 ffff 01 05 20",
    ],
)
def test_a_malformed_request_header_is_refused(spelled: str) -> None:
    with pytest.raises(DecodeError):
        codec.decode_request_header(bytes.fromhex(spelled))


def test_response_headers_have_tags_in_flexible_versions_but_never_for_api_versions() -> None:
    (legacy,) = codec.encode_response(ApiKey.END_TXN, 1, 7, EndTxnResponse())
    (flexible,) = codec.encode_response(ApiKey.END_TXN, 3, 7, EndTxnResponse())
    (api_versions,) = codec.encode_response(ApiKey.API_VERSIONS, 3, 7, ApiVersionsResponse(error_code=35))
    assert bytes(legacy) == bytes.fromhex("0000000a 00000007 00000000 0000")
    assert bytes(flexible) == bytes.fromhex("0000000c 00000007 00 00000000 0000 00")
    assert bytes(api_versions) == bytes.fromhex("0000000c 00000007 0023 01 00000000 00")


def test_an_api_or_a_version_that_is_not_declared_is_refused() -> None:
    vote = 52  # only controllers send it to each other
    for key, version in ((ApiKey.END_TXN, 6), (ApiKey.END_TXN, -1), (vote, 0), (999, 0)):
        with pytest.raises(DecodeError, match="not declared"):
            codec.decode_request(key, version, b"", 0)


# Decoding


def test_any_byte_but_zero_is_true() -> None:
    request = decode(ApiKey.END_TXN, 1, "0000 0000000000000000 0000 7f")
    assert request == EndTxnRequest(committed=True)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = decode(ApiKey.END_TXN, 3, "01 0000000000000000 0000 00  02 00 01 ff 8101 02 abcd")
    assert request == EndTxnRequest()


@pytest.mark.parametrize("tags", ["02 01 00 00 00", "02 01 00 01 00", "01 01 02 00", "01 01", "ffffffff7f"])
def test_disordered_repeated_or_oversized_tags_are_refused(tags: str) -> None:
    with pytest.raises(DecodeError):
        decode(ApiKey.END_TXN, 3, "01 0000000000000000 0000 00" + tags)


def test_a_known_tag_must_have_the_size_that_it_claims() -> None:
    body = "00000000 00000000 00000000 00 00000000 00000000 01 01 01"
    assert decode(ApiKey.FETCH, 12, f"ffffffff {body}  01 00 02 02 78")
    for size in ("01", "03"):
        with pytest.raises(DecodeError):
            decode(ApiKey.FETCH, 12, f"ffffffff {body}  01 00 {size} 02 78 00")


def test_an_overlong_varint_is_read_and_one_beyond_32_bits_is_not() -> None:
    assert decode(ApiKey.END_TXN, 3, "8180808000 0000000000000000 0000 00 00") == EndTxnRequest()
    for varint in ("8180808010", "818080808000"):
        with pytest.raises(DecodeError):
            decode(ApiKey.END_TXN, 3, varint + "0000000000000000 0000 00 00")


def test_a_null_where_none_may_be_is_refused() -> None:
    for version, spelled in ((1, "ffff"), (3, "00")):
        with pytest.raises(DecodeError, match="transactional_id"):
            decode(ApiKey.END_TXN, version, spelled + "0000000000000000 0000 00 00")
    with pytest.raises(DecodeError, match="topics"):
        decode(ApiKey.METADATA, 0, "ffffffff")


def test_a_negative_length_other_than_that_of_null_is_refused() -> None:
    for key, version, spelled in (
        (ApiKey.END_TXN, 1, "fffe 0000000000000000 0000 00"),
        (ApiKey.METADATA, 1, "fffffffe"),
        (ApiKey.INIT_PRODUCER_ID, 0, "fffe 00000000"),
    ):
        with pytest.raises(DecodeError):
            decode(key, version, spelled)


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(DecodeError, match="UTF-8"):
        decode(ApiKey.END_TXN, 3, "02 ff 0000000000000000 0000 00 00")


def test_a_string_beyond_the_limit_is_refused_in_compact_form_too() -> None:
    tail = bytes.fromhex("0000000000000000 0000 00 00")
    longest = bytes.fromhex("808002") + b"x" * 32767 + tail
    assert codec.decode_request(ApiKey.END_TXN, 3, longest, 0).transactional_id == "x" * 32767
    with pytest.raises(DecodeError):
        codec.decode_request(ApiKey.END_TXN, 3, bytes.fromhex("818002") + b"x" * 32768 + tail, 0)


@pytest.mark.parametrize(
    ("key", "version", "spelled"),
    [
        pytest.param(ApiKey.METADATA, 1, "7fffffff", id="a legacy array"),
        pytest.param(ApiKey.METADATA, 9, "ffffffff0f", id="a compact array"),
        pytest.param(ApiKey.ADD_PARTITIONS_TO_TXN, 3, "01 0000000000000000 0000 02 01 ffffffff0f", id="numbers"),
        pytest.param(ApiKey.SASL_AUTHENTICATE, 0, "7fffffff", id="legacy bytes"),
        pytest.param(ApiKey.SASL_AUTHENTICATE, 2, "ffffffff0f", id="compact bytes"),
        pytest.param(ApiKey.PRODUCE, 3, "ffff 0000 00000000 00000001 0000 00000001 00000000 7fffffff", id="records"),
        pytest.param(ApiKey.END_TXN, 1, "7fff", id="a string"),
        pytest.param(ApiKey.END_TXN, 3, "01 0000000000000000 0000 00 ffffffff0f", id="tags"),
        pytest.param(ApiKey.END_TXN, 3, "01 0000000000000000 0000 00 01 00 ffffffff0f", id="a tagged field"),
    ],
)
def test_a_length_beyond_the_message_allocates_nothing(key: ApiKey, version: int, spelled: str) -> None:
    frame = bytes.fromhex(spelled) + bytes(64)
    with pytest.raises(DecodeError):  # the codec is generated by now
        codec.decode_request(key, version, frame, 0)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            codec.decode_request(key, version, frame, 0)
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()


def test_an_element_is_counted_with_the_least_that_it_takes() -> None:
    # 8 bytes are left: room for eight compact strings with tags, were they a byte each, but not for five of two bytes.
    with pytest.raises(DecodeError, match="topics"):
        decode(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, "06 0000000000000000")


# Records


def test_decoded_records_are_a_view_of_the_frame() -> None:
    request = ProduceRequest(topic_data=(TopicProduceData("t", partition_data=(PartitionProduceData(0, b"batch"),)),))
    frame = bytearray(b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, None, request))[4:])
    header = codec.decode_request_header(frame)
    decoded = codec.decode_request(ApiKey.PRODUCE, 9, memoryview(frame), header.body_offset)
    records = decoded.topic_data[0].partition_data[0].records
    frame[frame.index(b"batch")] = ord("B")
    assert records == b"Batch"


def test_large_records_are_sent_as_they_are_and_small_ones_are_copied() -> None:
    large, small = memoryview(bytes(5000)), b"s" * 100
    response = FetchResponse(
        responses=(
            FetchableTopicResponse("t", partitions=(PartitionData(0, records=large), PartitionData(1, records=small))),
        )
    )
    parts = codec.encode_response(ApiKey.FETCH, 12, 1, response)
    assert [len(part) for part in parts][1:] == [5000, len(parts[2])]
    assert parts[1] is large
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert codec.decode_response(ApiKey.FETCH, 12, frame[4:]) == (1, response)


# Encoding


def test_encoders_take_any_sequence_and_error_codes_as_they_are() -> None:
    response = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
    (frame,) = codec.encode_response(ApiKey.END_TXN, 1, 1, response)
    assert frame[-2:] == b"\x00\x5a"
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])  # type: ignore[arg-type]
    assert codec.encode_request(ApiKey.METADATA, 1, 1, None, request)


def test_a_field_that_the_version_lacks_is_left_out() -> None:
    response = EndTxnResponse(producer_id=5, producer_epoch=6)
    (frame,) = codec.encode_response(ApiKey.END_TXN, 4, 1, response)
    assert codec.decode_response(ApiKey.END_TXN, 4, bytes(frame[4:])) == (1, EndTxnResponse())


@pytest.mark.parametrize(
    ("key", "version", "message"),
    [
        pytest.param(ApiKey.END_TXN, 1, EndTxnRequest(transactional_id=None), id="null"),  # type: ignore[arg-type]
        pytest.param(ApiKey.END_TXN, 3, EndTxnRequest(transactional_id=None), id="null"),  # type: ignore[arg-type]
        pytest.param(ApiKey.METADATA, 0, MetadataRequest(topics=None), id="null before the version that has it"),
        pytest.param(ApiKey.END_TXN, 3, EndTxnRequest(producer_epoch=1 << 15), id="a number out of range"),
        pytest.param(ApiKey.END_TXN, 3, EndTxnRequest(transactional_id="x" * 32768), id="a string too long"),
        pytest.param(ApiKey.END_TXN, 3, EndTxnRequest(transactional_id="\ud800"), id="half a character"),
        pytest.param(ApiKey.METADATA, 12, MetadataRequest(topics=(MetadataRequestTopic(b"x"),)), id="a short uuid"),
        pytest.param(ApiKey.METADATA, 12, MetadataRequest(topics=(FetchTopic(),)), id="a wrong struct"),  # type: ignore[arg-type]
        pytest.param(ApiKey.ADD_PARTITIONS_TO_TXN, 4, AddPartitionsToTxnRequest(transactions=5), id="no array"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_refused(key: ApiKey, version: int, message: object) -> None:
    with pytest.raises(EncodeError):
        codec.encode_request(key, version, 1, None, message)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [5, 6])
def test_a_text_about_an_error_is_cut_to_what_a_string_has_room_for(version: int) -> None:
    name = "ü" * 16_383  # with its words around it, it is longer than a string may be
    response = DeleteTopicsResponse(
        responses=(DeletableTopicResult(name=name, error_message=f"There is no topic {name}"),)
    )
    (frame,) = codec.encode_response(ApiKey.DELETE_TOPICS, version, 1, response)
    _, told = codec.decode_response(ApiKey.DELETE_TOPICS, version, bytes(frame[4:]))
    text = told.responses[0].error_message
    assert 32_764 < len(text.encode()) <= 32_767
    assert f"There is no topic {name}".startswith(text)


def test_generated_code_can_be_read() -> None:
    text = codec.sources(ApiKey.END_TXN, 3)
    assert "def decode(data, pos):" in text
    assert "def encode(message, out):" in text
    assert "unpack_from_qhtB(data, pos)" in text, "neighbouring fixed-size fields are read together"
