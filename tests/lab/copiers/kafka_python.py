"""The copier on kafka-python: `python kafka_python.py [BUG]` (tests/support/lab_copier.py)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

sys.path.append(str(Path(__file__).parents[2] / "support"))

from lab_copier import CALL_S, GROUP, Failed, Got, Offsets, main, within

FAST = {
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_ms": 20,
    "metadata_max_age_ms": 1000,
}

JOIN_S = 10.0
REQUEST_MS = 10_000
"""Longer than an incident holds an answer or pauses the process: a producer that waits longer is finished for good, and
the next one aborts what it had not committed."""


def called(seconds: float, call: Callable[[], Any]) -> Any:
    """Call the client, with a limit."""
    try:
        return within(seconds, call)
    except (KafkaError, AssertionError, ValueError) as error:
        raise Failed(error) from error


class KafkaPythonConsumer:
    """A member of the group."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self.raw = kafka.KafkaConsumer(
            "input",
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            heartbeat_interval_ms=200,
            fetch_max_wait_ms=100,
            **{**FAST, "metadata_max_age_ms": 60_000},
        )

    def poll(self, most: int, seconds: float) -> list[Got]:
        """Records that came. A short poll may end in the middle of a join for good (docs/clients/python.md)."""
        try:
            patience = seconds if self.raw.assignment() else JOIN_S
            found = self.raw.poll(timeout_ms=int(patience * 1000), max_records=most)
        except KafkaError as error:
            raise Failed(error) from error
        return [
            Got(each.partition, each.offset, each.timestamp, each.key, each.value)
            for records in found.values()
            for each in records
        ]

    def commit(self, offsets: Offsets) -> None:
        """Commit outside of any transaction."""
        called(CALL_S, lambda: self.raw.commit(places(offsets)))

    def rewind(self) -> None:
        """Go back to the committed offsets."""
        for each in self.raw.assignment():
            self.raw.seek(each, called(CALL_S, lambda each=each: self.raw.committed(each)) or 0)  # type: ignore[misc]

    def end(self, partition: int) -> int:
        """The end offset, of all records."""
        place = TopicPartition("input", partition)
        return int(called(CALL_S, lambda: self.raw.end_offsets([place]))[place])

    def close(self) -> None:
        """Leave the group."""
        self.raw.close(autocommit=False)


class KafkaPythonProducer:
    """A producer of kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str | None, call_s: float) -> None:
        self._call_s = call_s
        idempotence: dict[str, Any] = (
            {"enable_idempotence": False, "acks": "all", "retries": 1000}
            if transactional_id is None
            else {"transactional_id": transactional_id}
        )
        self.raw = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            max_block_ms=int(call_s * 1000),
            request_timeout_ms=REQUEST_MS,
            **idempotence,
            **FAST,
        )
        self._sent: list[Any] = []

    def init(self) -> None:
        """Get an identity."""
        called(self._call_s, self.raw.init_transactions)

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent = []
        called(self._call_s, self.raw.begin_transaction)

    def send(self, record: Got) -> None:
        """Write."""
        sent = called(
            self._call_s,
            lambda: self.raw.send("output", value=record.value, key=record.key, partition=record.partition),
        )
        self._sent.append(sent)

    def send_offsets(self, offsets: Offsets, consumer: KafkaPythonConsumer, *, by_name: bool) -> None:
        """Send offsets, with the group's metadata or its name alone."""
        member = GROUP if by_name else consumer.raw.group_metadata()
        called(self._call_s, lambda: self.raw.send_offsets_to_transaction(places(offsets), member))

    def commit(self) -> None:
        """Commit, if every record was written: a commit says nothing of those that were refused."""
        for each in self._sent:
            called(self._call_s, lambda each=each: each.get(self._call_s))  # type: ignore[misc]
        called(self._call_s, self.raw.commit_transaction)

    def flush(self) -> None:
        """Wait for what was written."""
        called(self._call_s, self.raw.flush)

    def abort(self) -> None:
        """Abort."""
        called(self._call_s, self.raw.abort_transaction)

    def close(self) -> None:
        """End it."""
        self.raw.close(timeout=0)


class KafkaPython:
    """kafka-python at a broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str | None, call_s: float) -> KafkaPythonProducer:
        """A new producer. Raises Failed."""
        made: KafkaPythonProducer = called(
            CALL_S, lambda: KafkaPythonProducer(self._bootstrap, transactional_id, call_s)
        )
        return made

    def consumer(self, *, reads_committed: bool) -> KafkaPythonConsumer:
        """A new member."""
        return KafkaPythonConsumer(self._bootstrap, "read_committed" if reads_committed else "read_uncommitted")


def places(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as the client takes them."""
    return {TopicPartition("input", each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}


if __name__ == "__main__":
    main(KafkaPython, sys.argv[1:])
