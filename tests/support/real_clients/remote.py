"""The interface of `base` on the lines of `harness`: the same for every language. This is the list of operations.

Each `open` may have an `access` beside `bootstrap`: for Java settings under Kafka's names; for the others {ca,
certificate: PEM files; mechanism, user, password, token}, each of which may be left out.

An error of `producer.send` may also come with the flush or the commit after it: a harness tells what its library does.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waiting import HANG_S

from real_clients.base import Admin, Client, Consumer, Offsets, Producer, Received, replicas
from real_clients.harness import Harness, Launched


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def _offsets(offsets: Offsets) -> list[tuple[str, int, int]]:
    """As they travel: [[topic, partition, offset], ...]."""
    return [(topic, partition, offset) for (topic, partition), offset in offsets.items()]


def received(records: Iterable[Sequence[Any]]) -> list[Received]:
    """Records as they travel, each [topic, partition, offset, key, value]."""
    return [
        Received(topic, partition, at, _decoded(key), _decoded(value)) for topic, partition, at, key, value in records
    ]


class _Remote:
    """One handle in the process."""

    kind: str

    def __init__(self, harness: Harness, args: Mapping[str, Any]) -> None:
        self._harness = harness
        self.handle = harness.handle(self.kind)
        self._call("open", **args)

    def _call(self, op: str, within_s: float = 0.0, **args: Any) -> Any:
        return self._harness.call(f"{self.kind}.{op}", self.handle, args, within_s=within_s)

    def close(self) -> None:
        """`close` {}: also of a client that has failed, or whose process is gone."""
        if self._harness.alive:
            self._call("close")


class RemoteProducer(_Remote):
    """`producer.open` {bootstrap, transactional_id | null, transaction_timeout_ms, compression | null}."""

    kind = "producer"

    def init(self) -> None:
        """`init` {}; also for a library that does this when it is made: it waits until this is asked."""
        self._call("init")

    def begin(self) -> None:
        self._call("begin")

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None:
        """`send` {topic, partition, key | null, value}: queued, and answered without waiting for the broker."""
        self._call("send", topic=topic, partition=partition, key=_encoded(key), value=_encoded(value))

    def flush(self) -> None:
        """`flush` {}: fails with the first refused record since the last flush, commit or abort."""
        self._call("flush")

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None:
        """`send_offsets` {offsets, consumer: its handle}."""
        assert isinstance(consumer, RemoteConsumer)
        self._call("send_offsets", offsets=_offsets(offsets), consumer=consumer.handle)

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")


class RemoteConsumer(_Remote):
    """`consumer.open` {bootstrap, group | null, instance_id | null, committed_only, max_wait_ms}: from the earliest
    offset, without auto-commit, with a session timeout of 60 s (kafkajs: 10 s) and a heartbeat each 0.3 s; as the
    broker says where `access` has `group.protocol` consumer."""

    kind = "consumer"

    def assign(self, starts: Offsets) -> None:
        """`assign` {offsets}: these partitions, each from its offset."""
        self._call("assign", offsets=_offsets(starts))

    def subscribe(self, topics: Iterable[str]) -> None:
        self._call("subscribe", topics=list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        """`subscribe_pattern` {pattern}: to topics by a regular expression that the broker matches (KIP-848). Java
        since 4.0, and franz-go."""
        self._call("subscribe_pattern", pattern=pattern)

    def seek(self, places: Offsets) -> None:
        """`seek` {offsets}: go on from there with partitions that are assigned. Java alone."""
        self._call("seek", offsets=_offsets(places))

    def remember_metadata(self) -> None:
        """`remember_metadata` {}: whatever adds offsets of this consumer to a transaction from now on names its member
        epoch as it is now. Java alone."""
        self._call("remember_metadata")

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        """`read` {count, timeout_ms}: [[topic, partition, offset, key, value], ...]; records beyond `count` that the
        library has fetched already are kept for the next read."""
        return received(self._call("read", timeout_s, count=count, timeout_ms=int(timeout_s * 1000)))

    def assignment(self) -> set[tuple[str, int]]:
        """`assignment` {}: [[topic, partition], ...]."""
        return {(topic, partition) for topic, partition in self._call("assignment")}

    def commit(self, offsets: Offsets) -> None:
        self._call("commit", offsets=_offsets(offsets))

    def committed(self, topic: str, partition: int) -> int | None:
        """`committed` {topic, partition}: an offset or null."""
        found = self._call("committed", topic=topic, partition=partition)
        return None if found is None else int(found)

    def end_offset(self, topic: str, partition: int) -> int:
        return int(self._call("end_offset", topic=topic, partition=partition))


class RemoteAdmin(_Remote):
    """`admin.open` {bootstrap}."""

    kind = "admin"

    def __init__(self, harness: Harness, bootstrap: str, access: Mapping[str, Any]) -> None:
        super().__init__(harness, {"bootstrap": bootstrap, **access})
        self._replicas = replicas(bootstrap)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """`create_topic` {name, partitions, replicas, configs: {name: value}}."""
        self._call(
            "create_topic", name=name, partitions=partitions, replicas=self._replicas, configs=dict(configs or {})
        )

    def delete_topic(self, name: str) -> None:
        self._call("delete_topic", name=name)

    def topics(self) -> dict[str, int]:
        """`topics` {}: {name: partitions}."""
        return dict(self._call("topics"))

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("add_partitions", topic=topic, total=total)

    def topic_config(self, topic: str, name: str) -> str:
        return str(self._call("topic_config", topic=topic, name=name))

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        self._call("set_topic_config", topic=topic, name=name, value=value)

    def groups(self) -> set[str]:
        """`groups` {}: [name, ...]."""
        return set(self._call("groups"))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._call("delete_records", topic=topic, partition=partition, before=before)

    def delete_group(self, group: str) -> None:
        self._call("delete_group", group=group)


class RemoteClient:
    """One client library at one version."""

    def __init__(self, name: str, process: Launched, access: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._process = process
        self._access = {} if access is None else {"access": dict(access)}

    def secured(self, access: Mapping[str, str]) -> "RemoteClient":
        """The same with settings of security, as `open` has them."""
        return RemoteClient(self.name, self._process, access)

    def start(self) -> None:
        """Start the process if it is not there. Raises `toolchains.NotHere`."""
        self._process.get()

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
    ) -> Producer:
        return RemoteProducer(
            self._process.get(),
            {
                "bootstrap": bootstrap,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": transaction_timeout_ms,
                "compression": compression,
                **self._access,
            },
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
        return RemoteConsumer(
            self._process.get(),
            {
                "bootstrap": bootstrap,
                "group": group,
                "instance_id": instance_id,
                "committed_only": committed_only,
                "max_wait_ms": max_wait_ms,
                **self._access,
            },
        )

    def admin(self, bootstrap: str) -> Admin:
        return RemoteAdmin(self._process.get(), bootstrap, self._access)


def remote(client: Client) -> RemoteClient | None:
    """The client, if it is one that needs a process."""
    return client if isinstance(client, RemoteClient) else None
