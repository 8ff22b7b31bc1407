"""The copier on aiokafka: `python aio.py [BUG]` (tests/support/lab_copier.py)."""

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import aiokafka
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

sys.path.append(str(Path(__file__).parents[2] / "support"))

from lab_copier import CALL_S, GROUP, Failed, Got, Offsets, main

FAST = {"retry_backoff_ms": 20, "metadata_max_age_ms": 1000}
LOOP = asyncio.new_event_loop()


def called(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """Have the loop do something, with a limit."""
    future = asyncio.run_coroutine_threadsafe(work, LOOP)
    try:
        return future.result(seconds)
    except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError) as late:
        raise Failed(TimeoutError(f"no answer within {seconds} s")) from late
    except (KafkaError, AssertionError, ValueError) as error:  # assertions are how it says that it is in no such state
        raise Failed(error) from error


async def started(make: Any, *arguments: str, **config: Any) -> Any:
    """A client that is made in the loop, and started."""
    made = make(*arguments, **config)
    try:
        await made.start()
    except BaseException:
        await made.stop()
        raise
    return made


class Idle(ConsumerRebalanceListener):  # type: ignore[misc]
    """Gives partitions away when no transaction is under way. The client joins again by itself, while its application
    copies; it would begin at offsets that its own transaction has not decided yet (KIP-447)."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.event.set()

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Before it joins again."""
        await self.event.wait()

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Nothing to do."""


class AioConsumer:
    """A member of the group."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self._idle = Idle()
        self.raw = called(
            CALL_S,
            started(
                aiokafka.AIOKafkaConsumer,
                bootstrap_servers=bootstrap,
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level=isolation,
                heartbeat_interval_ms=200,
                fetch_max_wait_ms=100,
                **FAST,
            ),
        )
        self.raw.subscribe(["input"], listener=self._idle)
        self._done: dict[int, int] = {}

    def has_done(self, offsets: Offsets) -> None:
        """Pass over what is below these offsets, which a transaction has committed. If it joins again while the markers
        are on their way, the client, which asks for no stable offsets, begins at the ones before (KIP-447)."""
        self._done |= offsets

    def poll(self, most: int, seconds: float) -> list[Got]:
        """Records that came."""

        async def got() -> Any:
            self._idle.event.set()
            found = await self.raw.getmany(timeout_ms=int(seconds * 1000), max_records=most)
            if found:
                self._idle.event.clear()
            return found

        found = called(CALL_S, got())
        return [
            Got(each.partition, each.offset, each.timestamp, each.key, each.value)
            for records in found.values()
            for each in records
            if each.offset >= self._done.get(each.partition, 0)
        ]

    def commit(self, offsets: Offsets) -> None:
        """Commit outside of any transaction."""
        called(CALL_S, self.raw.commit({TopicPartition("input", each): at for each, at in offsets.items()}))

    def rewind(self) -> None:
        """Go back to the committed offsets."""
        for each in self.raw.assignment():
            at = called(CALL_S, self.raw.committed(each)) or 0
            LOOP.call_soon_threadsafe(self.raw.seek, each, at)

    def end(self, partition: int) -> int:
        """The end offset, of all records."""
        place = TopicPartition("input", partition)
        return int(called(CALL_S, self.raw.end_offsets([place]))[place])

    def close(self) -> None:
        """Leave the group."""
        with contextlib.suppress(Failed):
            called(3, self.raw.stop())


class AioProducer:
    """A producer of aiokafka."""

    def __init__(self, bootstrap: str, transactional_id: str | None, call_s: float) -> None:
        self._call_s = call_s
        self._config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": 2000,
            "acks": "all",
            **FAST,
        }
        self._sent: list[Any] = []
        self._offsets: tuple[AioConsumer, Offsets] | None = None
        self.raw: Any = None
        if transactional_id is None:
            self.init()
        else:
            self._config["transactional_id"] = transactional_id

    def init(self) -> None:
        """Get an identity, which is a part of its start."""
        self.raw = called(self._call_s, started(aiokafka.AIOKafkaProducer, **self._config))

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent = []
        self._offsets = None
        self._started()
        called(self._call_s, self.raw.begin_transaction())

    def send(self, record: Got) -> None:
        """Write."""
        self._sent.append(
            called(
                self._call_s,
                self.raw.send("output", value=record.value, key=record.key, partition=record.partition),
            )
        )

    def send_offsets(self, offsets: Offsets, consumer: AioConsumer, *, by_name: bool) -> None:
        """Send offsets, by the name of the group, which is all that the client can."""
        wanted = {TopicPartition("input", each): OffsetAndMetadata(at, "") for each, at in offsets.items()}
        called(self._call_s, self.raw.send_offsets_to_transaction(wanted, GROUP))
        self._offsets = (consumer, offsets)

    def commit(self) -> None:
        """Commit what was written: it would commit the rest of a transaction whose batch has failed."""
        self._started()
        self.flush()
        called(self._call_s, self.raw.commit_transaction())
        if self._offsets is not None:
            consumer, offsets = self._offsets
            consumer.has_done(offsets)

    def flush(self) -> None:
        """Wait for what was written."""
        sent, self._sent = self._sent, []

        async def acknowledged() -> None:
            await asyncio.gather(*sent)

        called(self._call_s, acknowledged())

    def abort(self) -> None:
        """Abort."""
        self._started()
        called(self._call_s, self.raw.abort_transaction())

    def close(self) -> None:
        """End it."""

        async def stop() -> None:
            for each in self._sent:
                each.cancel()
            await self.raw.stop()

        if self.raw is not None:
            with contextlib.suppress(Failed):
                called(1, stop())

    def _started(self) -> None:
        if self.raw is None:
            raise Failed(RuntimeError("the producer has not started"))


class Aio:
    """aiokafka at a broker."""

    def __init__(self, bootstrap: str) -> None:
        threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str | None, call_s: float) -> AioProducer:
        """A new producer."""
        return AioProducer(self._bootstrap, transactional_id, call_s)

    def consumer(self, *, reads_committed: bool) -> AioConsumer:
        """A new member."""
        return AioConsumer(self._bootstrap, "read_committed" if reads_committed else "read_uncommitted")


if __name__ == "__main__":
    main(Aio, sys.argv[1:])
