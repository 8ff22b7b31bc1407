"""The frame decoder: any chunking gives the same frames, and memory that frames view is never written again."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.protocol.wire.frames import BUFFER_BYTES, LARGE_PART, FrameDecoder, FrameError, SpareBuffers

MAX_FRAME_BYTES = 100 << 20


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed(decoder: FrameDecoder, data: bytes, at_most: int | None = None) -> list[memoryview]:
    """Receive `data` in as many steps as the decoder's buffers ask for."""
    frames = []
    while data:
        view = decoder.get_buffer(-1)
        assert len(view) > 0
        count = min(len(view), len(data), at_most or len(data))
        view[:count] = data[:count]
        frames += decoder.received(count)
        data = data[count:]
    return frames


payloads = st.lists(st.binary(max_size=300), max_size=12)


@given(payloads=payloads, chunks=st.lists(st.integers(1, 200), max_size=60), releases=st.data())
def test_any_chunking_gives_the_same_frames_and_frames_in_use_do_not_change(
    payloads: list[bytes], chunks: list[int], releases: st.DataObject
) -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES, spare=SpareBuffers(buffer_bytes=128))
    stream = b"".join(map(framed, payloads))
    got: list[bytes] = []
    in_use: list[memoryview] = []
    for chunk in [*chunks, len(stream)]:
        in_use += feed(decoder, stream[:chunk])
        stream = stream[chunk:]
        if releases.draw(st.booleans()):
            got += map(bytes, in_use)
            in_use.clear()
            decoder.release()
    assert got + list(map(bytes, in_use)) == payloads


def test_a_frame_that_arrives_byte_by_byte_is_the_same_frame() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    assert [bytes(frame) for frame in feed(decoder, framed(b"hello") + framed(b""), at_most=1)] == [b"hello", b""]


def test_a_frame_larger_than_the_buffer_has_memory_of_its_own_and_the_next_frame_follows() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    large = bytes(range(256)) * 1024
    frames = feed(decoder, framed(b"small") + framed(large) + framed(b"after"))
    assert [bytes(frame) for frame in frames] == [b"small", large, b"after"]


def test_the_receive_for_a_large_frame_ends_where_the_frame_ends() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    begun = BUFFER_BYTES // LARGE_PART
    feed(decoder, struct.pack(">i", BUFFER_BYTES * 2) + b"x" * begun)
    assert len(decoder.get_buffer()) == BUFFER_BYTES * 2 - begun


def test_a_frame_of_many_mebibytes_arrives_whole() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    large = bytes(5 << 20) + b"end"
    (frame,) = feed(decoder, framed(large))
    assert frame == large


def test_released_memory_is_used_again() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    (first,) = feed(decoder, framed(b"first"))
    decoder.release()
    (second,) = feed(decoder, framed(b"again"))
    assert first == second == b"again"


def test_memory_is_not_used_again_while_a_frame_views_it() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    (first,) = feed(decoder, framed(b"first"))
    for _ in range(3 * BUFFER_BYTES // 1000):
        feed(decoder, framed(b"x" * 1000))
    assert first == b"first"


def test_frames_can_be_written_to_in_place() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    (frame,) = feed(decoder, framed(b"offset"))
    frame[:3] = b"OFF"
    assert frame == b"OFFset"


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match=str(size)):
        feed(FrameDecoder(MAX_FRAME_BYTES), struct.pack(">i", size))


def test_the_largest_frame_is_taken_and_one_byte_more_is_refused() -> None:
    decoder = FrameDecoder(10)
    assert feed(decoder, framed(b"0123456789")) == [b"0123456789"]
    with pytest.raises(FrameError, match="at most 10"):
        feed(decoder, struct.pack(">i", 11))


@pytest.mark.parametrize("max_frame_bytes", [1000, 2**31 - 1])
@pytest.mark.parametrize(
    ("greeting", "protocol"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /v1/x HTTP/1.1\r\n", "HTTP"),
        (b"HEAD / HTTP/1.0\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
    ],
)
def test_a_greeting_of_another_protocol_is_named(greeting: bytes, protocol: str, max_frame_bytes: int) -> None:
    with pytest.raises(FrameError, match=protocol):
        feed(FrameDecoder(max_frame_bytes), greeting)


def test_a_late_greeting_is_only_a_size_out_of_range() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    feed(decoder, framed(b"a frame"))
    with pytest.raises(FrameError, match="at most"):
        feed(decoder, b"GET / HTTP/1.1\r\n")


def test_a_claimed_size_takes_no_memory_before_the_bytes_arrive() -> None:
    before = resident_kibibytes()
    decoders = [FrameDecoder(MAX_FRAME_BYTES) for _ in range(8)]
    for decoder in decoders:
        feed(decoder, struct.pack(">i", MAX_FRAME_BYTES) + b"x" * 100)
    assert resident_kibibytes() - before < 100 << 10


def resident_kibibytes() -> int:
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    except OSError:
        pytest.skip("needs /proc")


def test_a_large_request_of_another_api_than_produce_is_refused_at_its_key() -> None:
    large = BUFFER_BYTES * 3
    for key, piece in ((3, None), (3, 1), (18, 5)):
        decoder = FrameDecoder(MAX_FRAME_BYTES, max_control_bytes=large)
        begun = struct.pack(">ih", large + 1, key)
        with pytest.raises(FrameError, match=f"a request of {large + 1} bytes with API key {key}, at most {large}"):
            feed(decoder, begun, at_most=piece)
        assert feed(FrameDecoder(MAX_FRAME_BYTES, max_control_bytes=large), struct.pack(">ih", large, key)) == []


def test_produce_may_be_as_large_as_any_frame() -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES, max_control_bytes=BUFFER_BYTES)
    large = bytes(BUFFER_BYTES * 3)
    assert [bytes(frame) for frame in feed(decoder, framed(large), at_most=10_000)] == [large]


@pytest.mark.parametrize("size", [100, BUFFER_BYTES * 3])
def test_the_decoder_tells_how_much_there_is_of_a_frame_that_has_begun(size: int) -> None:
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    assert (decoder.finished, decoder.begun_bytes) == (0, 0)
    frame = framed(bytes(size))
    for end in (2, 4, 50):
        feed(decoder, frame[decoder.begun_bytes : end])
        assert (decoder.finished, decoder.begun_bytes) == (0, end)
    feed(decoder, frame[50:])
    assert (decoder.finished, decoder.begun_bytes) == (1, 0)
    feed(decoder, framed(b"x") * 2)
    assert (decoder.finished, decoder.begun_bytes) == (3, 0)
