"""Generated codecs beside codecs that were written by hand for one message (budget: at most 3 times their time).

The hand-written ones do what such code does: precomputed structs, no dispatch, and no checks beyond what Python does by
itself. Both sides decode the same frame to the same structs and encode them to the same bytes. Rounds are interleaved,
so that a slow moment of the machine hits both.
"""

import statistics
import struct
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench.report import Row
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire import codec

GROUP: Final = "Codec"
BUDGET: Final = 3.0

_HEADER = struct.Struct(">hhih")
_SIZED_HEADER = struct.Struct(">ihhih")
_END_TXN = struct.Struct(">qh?B")
_PRODUCE = struct.Struct(">hiB")
_INDEX = struct.Struct(">iB")
_FETCH = struct.Struct(">iiiibiiB")
_FETCH_PARTITION = struct.Struct(">iiqiqiB")


class _Case(NamedTuple):
    name: str
    key: ApiKey
    version: int
    request: Any
    decode: Callable[[Any], Any]
    encode: Callable[[Any], bytes]


def _head(frame: Any) -> int:
    """The position at which the body starts."""
    _key, _version, _correlation_id, length = _HEADER.unpack_from(frame, 0)
    str(frame[10 : 10 + length], "utf-8")
    return int(11 + length)


def _frame(key: int, version: int, body: bytes) -> bytes:
    return _SIZED_HEADER.pack(len(body) + 16, key, version, 7, 5) + b"bench\0" + body


def _decode_end_txn(frame: Any) -> EndTxnRequest:
    at = _head(frame)
    end = at + frame[at]
    transactional_id = str(frame[at + 1 : end], "utf-8")
    producer_id, producer_epoch, committed, _tags = _END_TXN.unpack_from(frame, end)
    return EndTxnRequest(transactional_id, producer_id, producer_epoch, committed)


def _encode_end_txn(request: EndTxnRequest) -> bytes:
    name = request.transactional_id.encode()
    numbers = _END_TXN.pack(request.producer_id, request.producer_epoch, request.committed, 0)
    return _frame(26, 3, bytes((len(name) + 1,)) + name + numbers)


def _decode_produce(frame: Any) -> ProduceRequest:
    at = _head(frame)
    end = at + frame[at]
    transactional_id = str(frame[at + 1 : end], "utf-8")
    acks, timeout_ms, topics = _PRODUCE.unpack_from(frame, end)
    at = end + 7
    topic_data = []
    for _ in range(topics - 1):
        end = at + frame[at]
        name = str(frame[at + 1 : end], "utf-8")
        partitions = frame[end]
        at = end + 1
        partition_data = []
        for _ in range(partitions - 1):
            index, size = _INDEX.unpack_from(frame, at)
            at += 5
            if size > 127:
                size = (size & 0x7F) | frame[at] << 7
                at += 1
            end = at + size - 1
            partition_data.append(PartitionProduceData(index, frame[at:end]))
            at = end + 1
        topic_data.append(TopicProduceData(name, bytes(16), tuple(partition_data)))
        at += 1
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(topic_data))


def _encode_produce(request: ProduceRequest) -> bytes:
    assert request.transactional_id is not None
    name = request.transactional_id.encode()
    body = [bytes((len(name) + 1,)), name]
    body.append(_PRODUCE.pack(request.acks, request.timeout_ms, len(request.topic_data) + 1))
    for topic in request.topic_data:
        name = topic.name.encode()
        body.extend((bytes((len(name) + 1,)), name, bytes((len(topic.partition_data) + 1,))))
        for partition in topic.partition_data:
            assert partition.records is not None
            size = len(partition.records) + 1
            body.append(_INDEX.pack(partition.index, size & 0x7F | 0x80))
            body.extend((bytes((size >> 7,)), bytes(partition.records), b"\0"))
        body.append(b"\0")
    body.append(b"\0")
    return _frame(0, 9, b"".join(body))


def _decode_fetch(frame: Any) -> FetchRequest:
    at = _head(frame)
    replica, wait, least, most, isolation, session, epoch, topics = _FETCH.unpack_from(frame, at)
    at += _FETCH.size
    found = []
    for _ in range(topics - 1):
        end = at + frame[at]
        name = str(frame[at + 1 : end], "utf-8")
        partitions = frame[end]
        at = end + 1
        wanted = []
        for _ in range(partitions - 1):
            index, leader_epoch, offset, last_epoch, start, size, _tags = _FETCH_PARTITION.unpack_from(frame, at)
            wanted.append(FetchPartition(index, leader_epoch, offset, last_epoch, start, size))
            at += _FETCH_PARTITION.size
        found.append(FetchTopic(name, bytes(16), tuple(wanted)))
        at += 1
    assert frame[at] == 1, "no forgotten topics"
    rack = str(frame[at + 2 : at + 1 + frame[at + 1]], "utf-8")
    default = FetchRequest()
    return FetchRequest(
        None, replica, default.replica_state, wait, least, most, isolation, session, epoch, tuple(found), (), rack
    )


def _encode_fetch(request: FetchRequest) -> bytes:
    body = [
        _FETCH.pack(
            request.replica_id,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
            len(request.topics) + 1,
        )
    ]
    for topic in request.topics:
        name = topic.topic.encode()
        body += bytes((len(name) + 1,)), name, bytes((len(topic.partitions) + 1,))
        for wanted in topic.partitions:
            body.append(
                _FETCH_PARTITION.pack(
                    wanted.partition,
                    wanted.current_leader_epoch,
                    wanted.fetch_offset,
                    wanted.last_fetched_epoch,
                    wanted.log_start_offset,
                    wanted.partition_max_bytes,
                    0,
                )
            )
        body.append(b"\0")
    rack = request.rack_id.encode()
    body += b"\x01", bytes((len(rack) + 1,)), rack, b"\0"
    return _frame(1, 12, b"".join(body))


CASES: Final = (
    _Case(
        "EndTxn v3",
        ApiKey.END_TXN,
        3,
        EndTxnRequest("transaction-1", 4711, 3, True),
        _decode_end_txn,
        _encode_end_txn,
    ),
    _Case(
        "Produce v9, a batch of 500 bytes",
        ApiKey.PRODUCE,
        9,
        ProduceRequest(
            "transaction-1",
            -1,
            30000,
            (TopicProduceData("orders", partition_data=(PartitionProduceData(3, bytes(500)),)),),
        ),
        _decode_produce,
        _encode_produce,
    ),
    _Case(
        "Fetch v12, two partitions",
        ApiKey.FETCH,
        12,
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            isolation_level=1,
            session_epoch=0,
            topics=(FetchTopic("orders", partitions=tuple(FetchPartition(i, 1, 99, -1, -1, 1 << 20) for i in (0, 1))),),
        ),
        _decode_fetch,
        _encode_fetch,
    ),
)


def _generated(case: _Case, frame: Any) -> list[codec.Buffer]:
    """Decode a request as a connection does, and encode it as a client does."""
    header = codec.decode_request_header(frame)
    request = codec.decode_request(header.api_key, header.api_version, frame, header.body_offset)
    return codec.encode_request(case.key, case.version, 7, "bench", request)


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - started) / repeats


def _measure(case: _Case, rounds: int, repeats: int) -> Row:
    frame = memoryview(case.encode(case.request))[4:]
    assert b"".join(_generated(case, frame)) == case.encode(case.request), "both sides write the same bytes"
    assert case.decode(frame) == case.request, "both sides read the same message"
    generated, by_hand = [], []
    for _ in range(rounds):
        generated.append(_seconds(lambda: _generated(case, frame), repeats))
        by_hand.append(_seconds(lambda: case.encode(case.decode(frame)), repeats))
    return Row(
        group=GROUP,
        name=f"{case.name}: decode and encode",
        value=statistics.median(generated) * 1e6,
        unit="us",
        reference=statistics.median(by_hand) * 1e6,
        reference_name="by hand",
        budget=BUDGET,
    )


def run(quick: bool = False) -> list[Row]:
    """Time per request for each case."""
    rounds, repeats = (5, 200) if quick else (51, 2000)
    return [_measure(case, rounds, repeats) for case in CASES]
