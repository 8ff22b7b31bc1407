"""The plain, at-least-once write that exactly-once is measured beside: same rows, client and routes, no transaction.

Always true: what a batch holds is acknowledged when its call returns; a batch that is replayed is there twice.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.sink.driver_route import DriverRoute
from eosin.pipeline.sink.row_writer import RowWriter


class PlainSink:
    """For `foreachBatch`. `route` is `driver` or `executors`."""

    def __init__(self, bootstrap: str, topic: str, route: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._route = route
        self._loop = LoopThread("plain sink")
        self._driver = DriverRoute(self._loop)
        self._turn = threading.Lock()
        self._client: Client | None = None
        self._producer: Producer | None = None

    def __call__(self, frame: Any, batch: int) -> None:
        """Write one micro-batch; every row is acknowledged when this returns."""
        with self._turn:
            if self._route == "executors":
                frame.mapInArrow(PlainTask(self._bootstrap, self._topic), "rows long").collect()
                return
            if self._client is None or self._producer is None:
                self._client = Client(self._bootstrap)
                self._producer = Producer(self._client)
                self._loop.run(self._producer.init())
            self._driver.write(frame, RowWriter(self._client, self._producer, self._topic, timestamp=_now_ms()))

    def close(self) -> None:
        """Wait for the batch that is being written, and close the connections."""
        with self._turn:
            if self._client is not None:
                self._loop.run(self._client.close())
            self._loop.close()


class PlainTask:
    """Writes what one task has, wherever it belongs: with a producer of its own, a task needs no lease."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        loop = LoopThread("plain task")
        client = Client(self._bootstrap)
        try:
            writer = loop.run(self._start(client))
            for batch in batches:
                loop.run(writer.write_arrow(batch))
            rows = sum(each.rows for each in loop.run(writer.finish()).values())
        finally:
            loop.run(client.close())
            loop.close()
        yield pyarrow.RecordBatch.from_pydict({"rows": pyarrow.array([rows])})
        exempt_modules_from_collection()

    async def _start(self, client: Client) -> RowWriter:
        producer = Producer(client)
        await producer.init()
        return RowWriter(client, producer, self._topic, timestamp=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
