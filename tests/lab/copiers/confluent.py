"""The copier on confluent-kafka: `python confluent.py [BUG]` (tests/support/lab_copier.py). With the environment
variable COPIER_GROUP_PROTOCOL=consumer it joins its group by the protocol of KIP-848."""

import os
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

sys.path.append(str(Path(__file__).parents[2] / "support"))

from lab_copier import GROUP, Failed, Got, Offsets, main

OF_THE_GROUP = (
    {"group.protocol": "consumer"}
    if os.environ.get("COPIER_GROUP_PROTOCOL") == "consumer"
    else {"heartbeat.interval.ms": 200}
)
"""By KIP-848 the broker says how often a member sends a heartbeat."""
CALL_S = 3.0
"""Of one call; a commit is called again."""


def fast(bootstrap: str) -> dict[str, Any]:
    """Settings of both."""
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "socket.timeout.ms": 2000,
        "enable.sparse.connections": False,
        "log_level": 2,
        "metadata.recovery.strategy": "none",
    }


def failed(error: KafkaException) -> Failed:
    """Why, and whether an abort is enough."""
    cause = error.args[0]
    needs_abort = isinstance(cause, KafkaError) and cause.txn_requires_abort()
    return Failed(error, needs_abort=needs_abort)


class ConfluentConsumer:
    """A member of the group."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self.raw = Consumer(
            {
                **fast(bootstrap),
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                **OF_THE_GROUP,
                "fetch.wait.max.ms": 100,
            }
        )
        self.raw.subscribe(["input"])

    def poll(self, most: int, seconds: float) -> list[Got]:
        """Records that came."""
        try:
            found = [each for each in self.raw.consume(most, seconds) if not each.error()]
        except KafkaException as error:
            raise failed(error) from error
        return [
            Got(each.partition() or 0, each.offset() or 0, each.timestamp()[1], each.key(), each.value())
            for each in found
        ]

    def commit(self, offsets: Offsets) -> None:
        """Commit outside of any transaction."""
        try:
            self.raw.commit(offsets=places(offsets), asynchronous=False)
        except KafkaException as error:
            raise failed(error) from error

    def rewind(self) -> None:
        """Go back to the committed offsets."""
        try:
            for each in self.raw.committed(self.raw.assignment(), CALL_S):
                self.raw.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        except KafkaException as error:
            raise failed(error) from error

    def end(self, partition: int) -> int:
        """The end offset."""
        try:
            return int(self.raw.get_watermark_offsets(TopicPartition("input", partition), CALL_S)[1])
        except KafkaException as error:
            raise failed(error) from error

    def close(self) -> None:
        """Leave the group."""
        self.raw.close()


class ConfluentProducer:
    """A producer of librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str | None, call_s: float) -> None:
        self._bootstrap = bootstrap
        self._call_s = call_s
        idempotence = {} if transactional_id is None else {"transactional.id": transactional_id}
        self.raw = Producer({**fast(bootstrap), **idempotence, "linger.ms": 0})

    def init(self) -> None:
        """Get an identity."""
        self._call(self.raw.init_transactions, self._call_s)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call(self.raw.begin_transaction)

    def send(self, record: Got) -> None:
        """Write."""
        self._call(self.raw.produce, "output", record.value, record.key, record.partition)

    def send_offsets(self, offsets: Offsets, consumer: ConfluentConsumer, *, by_name: bool) -> None:
        """Send offsets, with the group's metadata or those of somebody who is no member."""
        member = Consumer({**fast(self._bootstrap), "group.id": GROUP}) if by_name else consumer.raw
        self._call(
            self.raw.send_offsets_to_transaction, places(offsets), member.consumer_group_metadata(), self._call_s
        )

    def commit(self) -> None:
        """Commit; again while librdkafka says so, for as long as the call may take."""
        tries = 10 if self._call_s > CALL_S else 1
        for left in reversed(range(tries)):
            try:
                self.raw.commit_transaction(min(self._call_s, CALL_S))
                return
            except KafkaException as error:
                if not left or not error.args[0].retriable():
                    raise failed(error) from error

    def flush(self) -> None:
        """Wait for what was written."""
        if self.raw.flush(self._call_s):
            raise Failed(TimeoutError("records are not written"))

    def abort(self) -> None:
        """Abort."""
        self._call(self.raw.abort_transaction, self._call_s)

    def close(self) -> None:
        """Let it go."""
        self.raw.purge()

    def _call(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except KafkaException as error:
            raise failed(error) from error


class Confluent:
    """confluent-kafka at a broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str | None, call_s: float) -> ConfluentProducer:
        """A new producer."""
        return ConfluentProducer(self._bootstrap, transactional_id, call_s)

    def consumer(self, *, reads_committed: bool) -> ConfluentConsumer:
        """A new member."""
        return ConfluentConsumer(self._bootstrap, "read_committed" if reads_committed else "read_uncommitted")


def places(offsets: Offsets) -> list[TopicPartition]:
    """Offsets as the client takes them."""
    return [TopicPartition("input", partition, offset) for partition, offset in offsets.items()]


if __name__ == "__main__":
    main(Confluent, sys.argv[1:])
