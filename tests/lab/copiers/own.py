"""The copier on Eosin's own client: `python own.py [BUG]` (tests/support/lab_copier.py). It joins no group, and is
given its partition: the first one. The offsets of a group without members expire, so that it remembers the last ones
that it has committed itself."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from eosin.client.client import Client, CoordinatorType
from eosin.client.consumer import LATEST, Consumer
from eosin.client.errors import ClientError, check
from eosin.client.groups import GroupAdmin
from eosin.client.producer import Producer
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

sys.path.append(str(Path(__file__).parents[2] / "support"))

from lab_copier import CALL_S, GROUP, Failed, Got, Offsets, main

LOOP = asyncio.new_event_loop()
INPUT = TopicPartition("input", 0)
BY_NAME = 9


def called(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """Have the loop do something, with a limit."""
    future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), LOOP)
    try:
        return future.result()
    except (ClientError, TimeoutError) as error:
        raise Failed(error) from error


class OwnConsumer:
    """A reader of the first partition, from the committed offset of the group."""

    def __init__(self, bootstrap: str, isolation: IsolationLevel, *, stable: bool) -> None:
        self._client = Client(bootstrap, request_timeout_ms=2000)
        self._stable = stable
        self.raw = Consumer(self._client, isolation=isolation)
        self._read: list[Got] = []
        self._remembered = 0
        """The last offset that is known to be committed."""
        self.rewind()

    def poll(self, most: int, seconds: float) -> list[Got]:
        """Records that came."""
        if not self._read:
            self._read = [
                Got(0, each.record.offset, each.record.timestamp, each.record.key, each.record.value)
                for each in called(CALL_S, self.raw.poll(int(seconds * 1000)))
            ]
        found, self._read = self._read[:most], self._read[most:]
        return found

    def commit(self, offsets: Offsets) -> None:
        """Commit outside of any transaction."""
        wanted = {TopicPartition("input", each): at for each, at in offsets.items()}
        called(CALL_S, GroupAdmin(self._client).commit(GROUP, wanted))

    def rewind(self) -> None:
        """Go back to the committed offset; one that the broker has forgotten is the one that was committed last."""
        self._read = []
        found = called(CALL_S, self._committed())
        if found >= 0:
            self._remembered = found
        self.raw.assign({INPUT: self._remembered})

    def committed(self, offsets: Offsets) -> None:
        """A transaction is committed that had these offsets."""
        self._remembered = offsets.get(INPUT.partition, self._remembered)

    def end(self, partition: int) -> int:
        """The end offset."""
        return int(called(CALL_S, self.raw.list_offset(INPUT, LATEST)).offset)

    def close(self) -> None:
        """End the connections."""
        with contextlib.suppress(Failed):
            called(3, self._client.close())

    async def _committed(self) -> int:
        topics = (OffsetFetchRequestTopics("input", partition_indexes=(0,)),)
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(GROUP, topics=topics),), require_stable=self._stable
        )

        async def attempt() -> int:
            response: OffsetFetchResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, GROUP, ApiKey.OFFSET_FETCH, request, at_most=BY_NAME
            )
            (group,) = response.groups
            check(group.error_code, "fetching offsets")
            entry = group.topics[0].partitions[0]
            check(entry.error_code, "fetching offsets")
            return entry.committed_offset

        return await self._client.retry(attempt)


class OwnProducer:
    """A producer of Eosin's client."""

    def __init__(self, bootstrap: str, transactional_id: str | None, call_s: float) -> None:
        self._call_s = call_s
        self._client = Client(bootstrap, retry_timeout_ms=int(CALL_S * 1000), request_timeout_ms=2000)
        self.raw = Producer(self._client, transactional_id)
        self._unsent: dict[int, list[NewRecord]] = {}
        self._committing: tuple[OwnConsumer, Offsets] | None = None

    def init(self) -> None:
        """Get an identity."""
        called(self._call_s, self.raw.init())

    def begin(self) -> None:
        """Begin a transaction."""
        self._unsent, self._committing = {}, None
        try:
            self.raw.begin()
        except ClientError as error:
            raise Failed(error) from error

    def send(self, record: Got) -> None:
        """Write, at the flush."""
        self._unsent.setdefault(record.partition, []).append(NewRecord(record.key, record.value))

    def send_offsets(self, offsets: Offsets, consumer: OwnConsumer, *, by_name: bool) -> None:
        """Send offsets by the name of the group, of which it is no member."""
        self.flush()
        wanted = {TopicPartition("input", each): at for each, at in offsets.items()}
        called(self._call_s, self.raw.send_offsets(wanted, GROUP))
        self._committing = consumer, offsets

    def commit(self) -> None:
        """Commit."""
        self.flush()
        called(self._call_s, self.raw.commit())
        if self._committing is not None:
            consumer, offsets = self._committing
            consumer.committed(offsets)

    def flush(self) -> None:
        """Write what is to be written."""
        unsent, self._unsent = self._unsent, {}
        for partition, records in unsent.items():
            called(self._call_s, self.raw.send(TopicPartition("output", partition), records))

    def abort(self) -> None:
        """Abort."""
        called(self._call_s, self.raw.abort())

    def close(self) -> None:
        """End the connections."""
        with contextlib.suppress(Failed):
            called(3, self._client.close())


class Own:
    """Eosin's own client at a broker."""

    def __init__(self, bootstrap: str) -> None:
        threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str | None, call_s: float) -> OwnProducer:
        """A new producer."""
        return OwnProducer(self._bootstrap, transactional_id, call_s)

    def consumer(self, *, reads_committed: bool) -> OwnConsumer:
        """A reader."""
        isolation = IsolationLevel.READ_COMMITTED if reads_committed else IsolationLevel.READ_UNCOMMITTED
        return OwnConsumer(self._bootstrap, isolation, stable=reads_committed)


if __name__ == "__main__":
    main(Own, sys.argv[1:])
