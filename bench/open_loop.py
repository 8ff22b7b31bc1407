"""`python -m bench.open_loop PORT --topic T --producers N --seconds S [--rate R]`: transactions by raw connections, in
a process of its own, and one JSON object on its output.

Without a rate each producer begins its next transaction when the last one is committed (closed loop: the capacity).
With a rate transactions come at fixed times, whether or not the broker keeps up, and each is timed from the moment when
it was due: a stall counts for all that came due in it, and not once for each producer (coordinated omission).

Always true: one thread, which sleeps while nothing is due and nothing has been answered. Its own lateness, from the
moment when a transaction was due until it was sent by a producer that was free, is told beside the times: on a machine
of few cores it is a part of them.
"""

import argparse
import heapq
import json
import select
import socket
import struct
import time
from array import array
from collections import deque
from typing import Final

from bench.raw_connection import RawConnection, frame
from bench.report import percentile
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.header import seal
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_response

COME_BACK: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""After these a client asks again: markers are written, or a topic is new (see `bench.wire`)."""
RETRY_S: Final = 0.001
RECORD_BYTES: Final = 100
WORST: Final = 10
"""Transactions that are told with the moment when they were due."""
GIVE_UP_S: Final = 60
"""Time that what was due may take after the last was due; what is not committed then counts as it stands."""
_PAIR: Final = struct.Struct(">qh")
_STAND_IN: Final = 0x1122334455667788, 0x1234
"""A producer id and epoch that stand in a request for those of each transaction."""
_RECEIVE_BYTES: Final = 65536


class _Producer:
    """A connection and its transactional id: a Produce of one record, then an EndTxn, of transaction version 2."""

    def __init__(self, port: int, topic: str, partition: int) -> None:
        name = f"{topic}-{partition}"
        wire = RawConnection(port)
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        end = time.monotonic() + GIVE_UP_S
        while (told := wire.call(ApiKey.INIT_PRODUCER_ID, 4, asked)).error_code in COME_BACK:
            assert time.monotonic() < end, ErrorCode(told.error_code)
            time.sleep(RETRY_S)
        assert told.error_code == ErrorCode.NONE, ErrorCode(told.error_code)
        wire.close()
        self._pair = told.producer_id, told.producer_epoch
        self._produce, self._batch_at = _produce_frame(name, topic, partition)
        self._end = bytearray(frame(ApiKey.END_TXN, 5, EndTxnRequest(name, *_STAND_IN, committed=True)))
        self._end_at = self._end.index(_PAIR.pack(*_STAND_IN))
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._is_committing = False
        self.due = self.sent = self.produced = 0.0
        """Of the transaction that it works at: due, its Produce sent, and that answered; by `time.perf_counter`."""

    def begin(self, due: float) -> None:
        """Send the Produce of a transaction."""
        self.due = due
        self.sent = time.perf_counter()
        self._is_committing = False
        _PAIR.pack_into(self._produce, self._batch_at + 43, *self._pair)
        seal(self._produce, self._batch_at)
        self.socket.sendall(self._produce)

    def send_again(self) -> None:
        """The last request came too early."""
        self.socket.sendall(self._end if self._is_committing else self._produce)

    def receive(self) -> bool | None:
        """Take what has come: True when the transaction is committed, False if the request must be sent again, None
        while an answer is awaited."""
        got = self.socket.recv(_RECEIVE_BYTES)
        if not got:
            raise ConnectionError("the broker closed the connection")
        received = self._received = self._received + got
        if len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            return None
        answer, self._received = memoryview(received)[4:], b""
        if self._is_committing:
            ended = decode_response(ApiKey.END_TXN, 5, answer)[1]
            if not _is_final(ended.error_code):
                return False
            self._pair = ended.producer_id, ended.producer_epoch
            return True
        told = decode_response(ApiKey.PRODUCE, 12, answer)[1].responses[0].partition_responses[0]
        if not _is_final(told.error_code):
            return False
        self._is_committing = True
        self.produced = time.perf_counter()
        _PAIR.pack_into(self._end, self._end_at, *self._pair)
        self.socket.sendall(self._end)
        return None


def _produce_frame(name: str, topic: str, partition: int) -> tuple[bytearray, int]:
    """The request, and the position of its batch."""
    producer_id, epoch = _STAND_IN
    batch = build_batch(
        [NewRecord(key=None, value=b"x" * RECORD_BYTES)],
        timestamp=int(time.time() * 1000),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    topics = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=partition, records=batch),)),)
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=topics)
    made = bytearray(frame(ApiKey.PRODUCE, 12, request))
    return made, made.index(batch)


def _is_final(code: int) -> bool:
    assert code == ErrorCode.NONE or code in COME_BACK, ErrorCode(code)
    return code == ErrorCode.NONE


class _Schedule:
    """The times at which transactions are due: evenly spaced; without a rate, as soon as a producer is free."""

    def __init__(self, began: float, seconds: float, rate: float) -> None:
        self.end = began + seconds
        self.interval = 1 / rate if rate else 0.0
        self._began = began
        self._next = 0
        self.waiting: deque[float] = deque()
        """Due, and not taken yet."""

    def take(self, now: float) -> float | None:
        """A transaction that is due, and taken by that."""
        if not self.interval:
            return now if now < self.end else None
        due = self._began + self._next * self.interval
        while due <= now and due < self.end:
            self.waiting.append(due)
            self._next += 1
            due = self._began + self._next * self.interval
        return self.waiting.popleft() if self.waiting else None

    def next_due(self) -> float | None:
        """The time of the next that is not due yet."""
        due = self._began + self._next * self.interval
        return due if self.interval and due < self.end else None


class _Times:
    """The times of transactions from due to committed, and those of what was sent late though a producer was free."""

    def __init__(self) -> None:
        self.taken = array("d")
        self.waited = array("d")
        """Of these, until a producer was free and had sent."""
        self.late = array("d")
        self.worst: list[tuple[float, float, float, float]] = []
        """Time, moment when due, and of the time: until it was sent, and until the Produce was answered. The least
        first."""

    def committed(self, each: _Producer, now: float) -> None:
        self._add(each.due, now, each.sent - each.due, each.produced - each.sent)

    def given_up(self, due: float, now: float) -> None:
        self._add(due, now, now - due, 0.0)

    def _add(self, due: float, now: float, waited: float, produced: float) -> None:
        took = now - due
        self.taken.append(took)
        self.waited.append(waited)
        if len(self.worst) < WORST:
            heapq.heappush(self.worst, (took, due, waited, produced))
        elif took > self.worst[0][0]:
            heapq.heapreplace(self.worst, (took, due, waited, produced))


def _drive(producers: list[_Producer], schedule: _Schedule, times: _Times) -> None:
    """Until the schedule has ended, and all that was due is committed, or `GIVE_UP_S` later."""
    with select.epoll() as epoll:
        for each in producers:
            epoll.register(each.socket.fileno(), select.EPOLLIN)
        _run(producers, schedule, times, epoll)


def _run(producers: list[_Producer], schedule: _Schedule, times: _Times, epoll: select.epoll) -> None:
    by_file = {each.socket.fileno(): each for each in producers}
    idle = deque(producers)
    again: deque[tuple[float, _Producer]] = deque()
    is_free = True  # a producer has been, since the last look
    now = time.perf_counter()
    while True:
        while idle and (due := schedule.take(now)) is not None:
            idle.popleft().begin(due)
            if is_free:
                times.late.append(time.perf_counter() - due)
        is_free = bool(idle)
        while again and again[0][0] <= now:
            again.popleft()[1].send_again()
        wakes = [each for each in (schedule.next_due() if idle else None, again[0][0] if again else None) if each]
        if not wakes and len(idle) == len(producers):
            return
        if now > schedule.end + GIVE_UP_S:
            for due in (*schedule.waiting, *(each.due for each in producers if each not in idle)):
                times.given_up(due, now)
            return
        # epoll alone counts in whole milliseconds.
        wait = max(0.0, min(wakes) - time.perf_counter()) if wakes else 1.0
        select.select([epoll], [], [], wait)
        for number, _ in epoll.poll(0):
            found = by_file[number]
            committed = found.receive()
            if committed is None:
                continue
            now = time.perf_counter()
            if committed:
                times.committed(found, now)
                idle.append(found)
            else:
                again.append((now + RETRY_S, found))
        now = time.perf_counter()


def main() -> None:
    """Drive one broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--producers", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds before, which do not count")
    options = parser.parse_args()
    producers = [_Producer(options.port, options.topic, index) for index in range(options.producers)]
    if options.warm_up:
        _drive(producers, _Schedule(time.perf_counter(), options.warm_up, options.rate), _Times())
    times, began, cpu = _Times(), time.perf_counter(), time.process_time()
    _drive(producers, _Schedule(began, options.seconds, options.rate), times)
    taken, late = sorted(times.taken), times.late or [0.0]
    waited = sorted(times.waited)
    shares = (0.5, 0.9, 0.99, 0.999)
    found = {
        "began": began,
        "ended": time.perf_counter(),
        "transactions": len(taken),
        "per_second": len(taken) / options.seconds,
        "cpu_us": (time.process_time() - cpu) / len(taken) * 1e6,
        **{f"p{share * 100:g}": percentile(taken, share) for share in shares},
        "max": taken[-1],
        "waited_p99": percentile(waited, 0.99),
        "late_p99": percentile(late, 0.99),
        "late_max": max(late),
        "worst": sorted(times.worst, reverse=True),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
