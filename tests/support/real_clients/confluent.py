"""confluent-kafka (librdkafka)."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin
from waiting import HANG_S, wait_until

from real_clients.base import (
    SESSION_TIMEOUT_MS,
    Admin,
    Client,
    ClientRefused,
    Consumer,
    Offsets,
    Producer,
    Received,
    replicas,
)

_FENCED = {
    ck.KafkaError._FENCED,
    ck.KafkaError.PRODUCER_FENCED,
    ck.KafkaError.INVALID_PRODUCER_EPOCH,
    ck.KafkaError.FENCED_INSTANCE_ID,
}
_GROUP = {ck.KafkaError.ILLEGAL_GENERATION, ck.KafkaError.UNKNOWN_MEMBER_ID, ck.KafkaError._ASSIGNMENT_LOST}

_MOVING: Final = {
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""librdkafka asks again a few times, and then leaves it to the application (docs/clients/python.md)."""


def _refused(error: ck.KafkaError) -> ClientRefused:
    if error.code() in _FENCED:
        return ClientRefused("fenced", str(error))
    if error.code() == ck.KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ClientRefused("timeout", str(error))
    return ClientRefused("group" if error.code() in _GROUP else "other", str(error))


# Without it librdkafka may wait for ever for the group coordinator after its only broker restarted (docs/clients.md).
KEEP_BROKERS: Final = {"metadata.recovery.strategy": "none"}


class ConfluentConsumer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.raw = ck.Consumer(config)

    def assign(self, starts: Offsets) -> None:
        self.raw.assign([ck.TopicPartition(topic, partition, offset) for (topic, partition), offset in starts.items()])

    def subscribe(self, topics: Iterable[str]) -> None:
        self.raw.subscribe(list(topics))

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        deadline = time.monotonic() + timeout_s
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            for message in self.raw.consume(count - len(found), timeout=min(left, 0.2)):
                if message.error():
                    raise _refused(message.error())
                found.append(
                    Received(message.topic(), message.partition(), message.offset(), message.key(), message.value())
                )
        return found

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.raw.assignment()}

    def commit(self, offsets: Offsets) -> None:
        try:
            self.raw.commit(offsets=_partitions(offsets), asynchronous=False)
        except ck.KafkaException as refused:
            raise _refused(refused.args[0]) from None

    def committed(self, topic: str, partition: int) -> int | None:
        def committed() -> ck.TopicPartition | None:
            try:
                (found,) = self.raw.committed([ck.TopicPartition(topic, partition)], timeout=HANG_S)
            except ck.KafkaException as refused:
                if refused.args[0].code() not in _MOVING:
                    raise _refused(refused.args[0]) from None
                return None
            return found

        offset = wait_until(committed, every_s=0.2).offset
        return offset if offset >= 0 else None

    def end_offset(self, topic: str, partition: int) -> int:
        return int(self.raw.get_watermark_offsets(ck.TopicPartition(topic, partition), timeout=HANG_S)[1])

    def close(self) -> None:
        self.raw.close()


class ConfluentProducer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.raw = ck.Producer(config)
        self._failed: list[ck.KafkaError] = []
        # The binding (2.16) corrupts the interpreter when it calls back while it raises a fatal error, and only
        # transactional producers are fenced; what becomes of their records they hear from commit anyway.
        self._on_delivery = None if "transactional.id" in config else self._delivered

    def _call(self, call: Any, *arguments: Any) -> None:
        # librdkafka leaves retrying a retriable call to the application.
        for _ in range(3):
            try:
                call(*arguments)
                return
            except ck.KafkaException as refused:
                if not refused.args[0].retriable():
                    raise _refused(refused.args[0]) from None
        raise ClientRefused("other", "a retriable error that did not go away")

    def init(self) -> None:
        self._call(self.raw.init_transactions, HANG_S)

    def begin(self) -> None:
        self._call(self.raw.begin_transaction)

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None:
        try:
            self.raw.produce(topic, value=value, key=key, partition=partition, on_delivery=self._on_delivery)
        except ck.KafkaException as refused:
            raise _refused(refused.args[0]) from None
        except BufferError:
            self.raw.flush()
            self.raw.produce(topic, value=value, key=key, partition=partition, on_delivery=self._on_delivery)

    def _delivered(self, error: ck.KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

    def flush(self) -> None:
        try:
            left = self.raw.flush(HANG_S)
        except ck.KafkaException as fatal:
            raise _refused(fatal.args[0]) from None
        if left:
            raise ClientRefused("other", "records are still unacknowledged")
        if self._failed:
            error, self._failed = self._failed[0], []
            raise _refused(error)

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        self._call(
            self.raw.send_offsets_to_transaction, _partitions(offsets), consumer.raw.consumer_group_metadata(), HANG_S
        )

    def commit(self) -> None:
        self._call(self.raw.commit_transaction, HANG_S)

    def abort(self) -> None:
        self._call(self.raw.abort_transaction, HANG_S)
        self._failed = []

    def close(self) -> None:
        with contextlib.suppress(ck.KafkaException):  # a fatal error that the test has already seen
            self.raw.purge()
            self.raw.flush(HANG_S)


class ConfluentAdmin:
    def __init__(self, bootstrap: str) -> None:
        self.raw = ck_admin.AdminClient({"bootstrap.servers": bootstrap})
        self._replicas = replicas(bootstrap)

    @staticmethod
    def _wait(futures: Mapping[Any, Any]) -> list[Any]:
        try:
            return [future.result(timeout=HANG_S) for future in futures.values()]
        except ck.KafkaException as refused:
            raise _refused(refused.args[0]) from None

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = ck_admin.NewTopic(
            name, num_partitions=partitions, replication_factor=self._replicas, config=dict(configs or {})
        )
        self._wait(self.raw.create_topics([new]))

    def delete_topic(self, name: str) -> None:
        self._wait(self.raw.delete_topics([name]))

    def topics(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.raw.list_topics(timeout=HANG_S).topics.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        self._wait(self.raw.create_partitions([ck_admin.NewPartitions(topic, total)]))

    def topic_config(self, topic: str, name: str) -> str:
        resource = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, topic)
        return str(self._wait(self.raw.describe_configs([resource]))[0][name].value)

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = ck_admin.ConfigEntry(name, value, incremental_operation=ck_admin.AlterConfigOpType.SET)
        resource = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._wait(self.raw.incremental_alter_configs([resource]))

    def groups(self) -> set[str]:
        return {each.group_id for each in self.raw.list_consumer_groups().result(timeout=HANG_S).valid}

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._wait(self.raw.delete_records([ck.TopicPartition(topic, partition, before)]))

    def delete_group(self, group: str) -> None:
        self._wait(self.raw.delete_consumer_groups([group]))

    def close(self) -> None:
        self.raw.poll(0)


def _partitions(offsets: Offsets) -> list[ck.TopicPartition]:
    return [ck.TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]


class Confluent:
    name = "confluent-kafka"

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
        security: Mapping[str, Any] | None = None,
    ) -> Producer:
        config: dict[str, Any] = {
            **KEEP_BROKERS,
            **(security or {}),
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "transaction.timeout.ms": transaction_timeout_ms,
        }
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        if compression is not None:
            config["compression.type"] = compression
        return ConfluentProducer(config)

    def consumer(
        self,
        bootstrap: str,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        committed_only: bool = True,
        max_wait_ms: int = 500,
        more: Mapping[str, Any] | None = None,
    ) -> ConfluentConsumer:
        config: dict[str, Any] = {
            **KEEP_BROKERS,
            "bootstrap.servers": bootstrap,
            "group.id": group or "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "fetch.wait.max.ms": max_wait_ms,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
            **(more or {}),
        }
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        return ConfluentConsumer(config)

    def admin(self, bootstrap: str) -> Admin:
        return ConfluentAdmin(bootstrap)


CLIENT: Client = Confluent()
