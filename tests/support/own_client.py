"""Eosin's own client behind the interface of the public ones, since none of those in CI speaks TV2 (KIP-890) yet.

Only what a copier needs: a consumer that is given its partitions, and a transactional producer. Always true: nothing is
hidden; a call that failed after the client's own retries raises ClientRefused.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import leftovers
from crash_load import committed_offset
from real_clients.base import Admin, Client, ClientRefused, Consumer, Offsets, Producer, Received
from waiting import HANG_S

from eosin.client import client as own
from eosin.client import consumer, producer
from eosin.client.errors import ClientError
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

RETRY_MS = 4000
BATCH = 10
"""Records. Several batches in a transaction have more to go wrong than one."""

_T = TypeVar("_T")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    with leftovers.kept():
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="eosin client", daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return asyncio.run_coroutine_threadsafe(work, _loop()).result(HANG_S)
    except ClientError as refused:
        raise ClientRefused("other", refused) from refused


class OwnConsumer:
    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self._client = own.Client(bootstrap, retry_timeout_ms=RETRY_MS)
        self._consumer = consumer.Consumer(self._client)
        self._read: list[Received] = []

    def assign(self, starts: Offsets) -> None:
        self._read.clear()
        self._consumer.assign({TopicPartition(*each): offset for each, offset in starts.items()})

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        if not self._read:
            self._read = [
                Received(*each.partition, each.record.offset, each.record.key, each.record.value)
                for each in _run(self._consumer.poll(int(timeout_s * 1000)))
            ]
        taken, self._read = self._read[:count], self._read[count:]
        return taken

    def committed(self, topic: str, partition: int) -> int | None:
        return _run(committed_offset(self._client, self.group, TopicPartition(topic, partition)))

    def subscribe(self, topics: Iterable[str]) -> None:
        raise NotImplementedError

    def assignment(self) -> set[tuple[str, int]]:
        raise NotImplementedError

    def commit(self, offsets: Offsets) -> None:
        raise NotImplementedError

    def end_offset(self, topic: str, partition: int) -> int:
        raise NotImplementedError

    def close(self) -> None:
        _run(self._client.close())


class OwnProducer:
    def __init__(self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int) -> None:
        self._client = own.Client(bootstrap, retry_timeout_ms=RETRY_MS)
        self._producer = producer.Producer(
            self._client,
            transactional_id,
            transaction_version=producer.TV2,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        self._unsent: list[tuple[TopicPartition, NewRecord]] = []

    def init(self) -> None:
        _run(self._producer.init())

    def begin(self) -> None:
        self._producer.begin()

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None:
        self._unsent.append((TopicPartition(topic, partition), NewRecord(key, value)))

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        by_partition: dict[TopicPartition, list[NewRecord]] = {}
        for partition, record in unsent:
            by_partition.setdefault(partition, []).append(record)
        for partition, records in by_partition.items():
            for first in range(0, len(records), BATCH):
                _run(self._producer.send(partition, records[first : first + BATCH]))

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None:
        assert isinstance(consumer, OwnConsumer)
        wanted = {TopicPartition(*each): offset for each, offset in offsets.items()}
        _run(self._producer.send_offsets(wanted, consumer.group))

    def commit(self) -> None:
        self.flush()
        _run(self._producer.commit())

    def abort(self) -> None:
        self._unsent.clear()
        _run(self._producer.abort())

    def close(self) -> None:
        _run(self._client.close())


class Own:
    name = "eosin"

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
    ) -> Producer:
        assert transactional_id is not None
        assert compression is None
        return OwnProducer(bootstrap, transactional_id, transaction_timeout_ms)

    def consumer(
        self,
        bootstrap: str,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        committed_only: bool = True,
        max_wait_ms: int = 500,
    ) -> Consumer:
        assert group is not None
        assert committed_only
        return OwnConsumer(bootstrap, group)

    def admin(self, bootstrap: str) -> Admin:
        raise NotImplementedError


CLIENT: Client = Own()
