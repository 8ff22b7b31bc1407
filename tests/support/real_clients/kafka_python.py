"""kafka-python."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition
from waiting import HANG_S

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

_FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.FencedInstanceIdError)
_GROUP = (errors.IllegalGenerationError, errors.UnknownMemberIdError, errors.CommitFailedError)


def _refused(error: BaseException) -> ClientRefused:
    causes = [error]
    while (cause := causes[-1].__cause__ or (causes[-1].args[:1] or [None])[0]) and isinstance(cause, BaseException):
        causes.append(cause)
    if any(isinstance(each, _FENCED) for each in causes):
        return ClientRefused("fenced", error)
    if "InvalidTransactionTimeout" in repr(error):  # the client wraps it as text
        return ClientRefused("timeout", error)
    return ClientRefused("group" if any(isinstance(each, _GROUP) for each in causes) else "other", error)


def _call(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return call(*arguments, **named)
    except errors.KafkaError as refused:
        raise _refused(refused) from refused


class KafkaPythonConsumer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.raw = _call(kafka.KafkaConsumer, **config)

    def assign(self, starts: Offsets) -> None:
        self.raw.assign([TopicPartition(*each) for each in starts])
        for each, offset in starts.items():
            self.raw.seek(TopicPartition(*each), offset)

    def subscribe(self, topics: Iterable[str]) -> None:
        self.raw.subscribe(list(topics))

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        deadline = time.monotonic() + timeout_s
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            self._hear_again()
            # Not in short turns: see there.
            batches = _call(self.raw.poll, timeout_ms=int(left * 1000) + 1, max_records=count - len(found))
            for records in batches.values():
                found += [Received(each.topic, each.partition, each.offset, each.key, each.value) for each in records]
        return found

    def _hear_again(self) -> None:
        """Let a member of 3.0 join that new metadata make join again, in a poll that ends before it has: by itself it
        never does (docs/clients/python.md), and tests look for a moment, again and again."""
        coordinator = self.raw._coordinator
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.raw.assignment()}

    def commit(self, offsets: Offsets) -> None:
        _call(self.raw.commit, _partitions(offsets))

    def committed(self, topic: str, partition: int) -> int | None:
        found: int | None = _call(self.raw.committed, TopicPartition(topic, partition))
        return found

    def end_offset(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return int(_call(self.raw.end_offsets, [where])[where])

    def close(self) -> None:
        self.raw.close(autocommit=False)


class KafkaPythonProducer:
    def __init__(self, config: dict[str, Any]) -> None:
        self.raw = _call(kafka.KafkaProducer, **config)
        self._sent: list[Any] = []

    def init(self) -> None:
        _call(self.raw.init_transactions)

    def begin(self) -> None:
        _call(self.raw.begin_transaction)

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None:
        self._sent.append(_call(self.raw.send, topic, value=value, key=key, partition=partition))

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        _call(self.raw.flush, timeout=HANG_S)
        for future in sent:
            _call(future.get, timeout=HANG_S)

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None:
        assert isinstance(consumer, KafkaPythonConsumer)
        _call(self.raw.send_offsets_to_transaction, _partitions(offsets), consumer.raw.group_metadata())

    def commit(self) -> None:
        _call(self.raw.commit_transaction)
        self._sent = []

    def abort(self) -> None:
        _call(self.raw.abort_transaction)
        self._sent = []

    def close(self) -> None:
        self.raw.close(timeout=5)


class KafkaPythonAdmin:
    def __init__(self, bootstrap: str) -> None:
        self.raw = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        self._replicas = replicas(bootstrap)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        _call(self.raw.create_topics, [NewTopic(name, partitions, self._replicas, topic_configs=dict(configs or {}))])

    def delete_topic(self, name: str) -> None:
        _call(self.raw.delete_topics, [name])

    def topics(self) -> dict[str, int]:
        return {each["name"]: len(each["partitions"]) for each in _call(self.raw.describe_topics)}

    def add_partitions(self, topic: str, total: int) -> None:
        _call(self.raw.create_partitions, {topic: total})

    def topic_config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = _call(self.raw.describe_configs, [resource], config_filter="all")
        return str(_find_config(found, name))

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        _call(self.raw.alter_configs, [ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})])

    def groups(self) -> set[str]:
        return {each["group_id"] for each in _call(self.raw.list_groups)}

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        _call(self.raw.delete_records, {TopicPartition(topic, partition): before})

    def delete_group(self, group: str) -> None:
        _call(self.raw.delete_groups, [group])

    def close(self) -> None:
        self.raw.close()


def _find_config(found: Any, name: str) -> object:
    """The value of one setting, wherever in the answer's nesting it stands."""
    if isinstance(found, dict):
        if name in found:
            entry = found[name]
            return entry.get("value") if isinstance(entry, dict) else entry
        found = list(found.values())
    if isinstance(found, list | tuple):
        for each in found:
            if (value := _find_config(each, name)) is not None:
                return value
    return None


def _partitions(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in offsets.items()}


class KafkaPython:
    name = "kafka-python"

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
    ) -> Producer:
        return KafkaPythonProducer(
            {
                "bootstrap_servers": bootstrap,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": transaction_timeout_ms,
                "compression_type": compression,
                "linger_ms": 2,
            }
        )

    def consumer(
        self,
        bootstrap: str,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        committed_only: bool = True,
        max_wait_ms: int = 500,
    ) -> Consumer:
        return KafkaPythonConsumer(
            {
                "bootstrap_servers": bootstrap,
                "group_id": group,
                "group_instance_id": instance_id,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed" if committed_only else "read_uncommitted",
                "fetch_max_wait_ms": max_wait_ms,
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "heartbeat_interval_ms": 300,
                "request_timeout_ms": 30_000 if group is None else 305_000,
            }
        )

    def admin(self, bootstrap: str) -> Admin:
        return KafkaPythonAdmin(bootstrap)


CLIENT: Client = KafkaPython()
