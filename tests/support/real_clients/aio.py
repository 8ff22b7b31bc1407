"""aiokafka, driven from synchronous scenarios: all its clients live on one event loop in one thread."""

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import aiokafka
import leftovers
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata, TopicPartition
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

_T = TypeVar("_T")
_GROUP = (errors.IllegalGenerationError, errors.UnknownMemberIdError, errors.CommitFailedError)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    with leftovers.kept():
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="aiokafka", daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return asyncio.run_coroutine_threadsafe(work, _loop()).result(HANG_S)
    except errors.KafkaError as refused:
        raise _refused(refused) from refused
    except concurrent.futures.CancelledError as cancelled:  # it gave up one of its own tasks, and waited for it
        raise ClientRefused("other", cancelled) from cancelled
    except AssertionError as unusable:  # how it says that it is in no state for this call
        raise ClientRefused("other", unusable) from unusable


def _refused(error: BaseException) -> ClientRefused:
    if isinstance(error, errors.ProducerFenced | errors.InvalidProducerEpoch):
        return ClientRefused("fenced", error)
    if isinstance(error, errors.InvalidTransactionTimeout) or "InvalidTransactionTimeout" in str(error):
        return ClientRefused("timeout", error)
    return ClientRefused("group" if isinstance(error, _GROUP) else "other", error)


async def _started(make: Any, **config: Any) -> Any:
    made = make(**config)
    await made.start()
    return made


class AioConsumer:
    def __init__(self, group: str | None, config: dict[str, Any]) -> None:
        self.group = group
        self.raw: Any = _run(_started(aiokafka.AIOKafkaConsumer, **config))

    def assign(self, starts: Offsets) -> None:
        async def assign() -> None:
            self.raw.assign([TopicPartition(*each) for each in starts])
            for each, offset in starts.items():
                self.raw.seek(TopicPartition(*each), offset)

        _run(assign())

    def subscribe(self, topics: Iterable[str]) -> None:
        async def subscribe() -> None:
            self.raw.subscribe(list(topics))

        _run(subscribe())

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        deadline = time.monotonic() + timeout_s
        found: list[Received] = []
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            batches = _run(self.raw.getmany(timeout_ms=int(min(left, 0.2) * 1000), max_records=count - len(found)))
            for records in batches.values():
                found += [Received(each.topic, each.partition, each.offset, each.key, each.value) for each in records]
        return found

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.raw.assignment()}

    def commit(self, offsets: Offsets) -> None:
        _run(self.raw.commit({TopicPartition(*each): offset for each, offset in offsets.items()}))

    def committed(self, topic: str, partition: int) -> int | None:
        return _run(self.raw.committed(TopicPartition(topic, partition)))

    def end_offset(self, topic: str, partition: int) -> int:
        where = TopicPartition(topic, partition)
        return int(_run(self.raw.end_offsets([where]))[where])

    def close(self) -> None:
        _run(self.raw.stop())


class AioProducer:
    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._sent: list[asyncio.Future[Any]] = []
        self._raw: Any = None
        if config["transactional_id"] is None:
            self.init()

    @property
    def raw(self) -> Any:
        assert self._raw is not None, "aiokafka's producer starts with its init"
        return self._raw

    def init(self) -> None:
        # aiokafka asks for its producer id when it starts.
        self._raw = _run(_started(aiokafka.AIOKafkaProducer, **self._config))

    def begin(self) -> None:
        _run(self.raw.begin_transaction())

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None:
        self._sent.append(_run(self.raw.send(topic, value=value, key=key, partition=partition)))

    def flush(self) -> None:
        sent, self._sent = self._sent, []

        async def acknowledged() -> None:
            await asyncio.gather(*sent)

        _run(self.raw.flush())
        _run(acknowledged())

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None:
        assert isinstance(consumer, AioConsumer)
        assert consumer.group is not None
        wanted = {TopicPartition(*each): OffsetAndMetadata(offset, "") for each, offset in offsets.items()}
        _run(self.raw.send_offsets_to_transaction(wanted, consumer.group))

    def commit(self) -> None:
        _run(self.raw.commit_transaction())
        self._sent = []

    def abort(self) -> None:
        _run(self.raw.abort_transaction())
        self._sent = []

    def close(self) -> None:
        async def stop() -> None:
            # Records of an application that gave up are nobody's business any more.
            for future in self._sent:
                future.cancel()
            with contextlib.suppress(TimeoutError, errors.KafkaError):
                await asyncio.wait_for(self.raw.stop(), 5)

        if self._raw is not None:
            _run(stop())


class AioAdmin:
    def __init__(self, bootstrap: str) -> None:
        self.raw: Any = _run(_started(AIOKafkaAdminClient, bootstrap_servers=bootstrap))
        self._replicas = replicas(bootstrap)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(name, partitions, self._replicas, topic_configs=dict(configs or {}))
        _check(_run(self.raw.create_topics([new])).topic_errors)

    def delete_topic(self, name: str) -> None:
        _check(_run(self.raw.delete_topics([name])).topic_error_codes)

    def topics(self) -> dict[str, int]:
        return {each["topic"]: len(each["partitions"]) for each in _run(self.raw.describe_topics())}

    def add_partitions(self, topic: str, total: int) -> None:
        _check(_run(self.raw.create_partitions({topic: NewPartitions(total)})).topic_errors)

    def topic_config(self, topic: str, name: str) -> str:
        answers = _run(self.raw.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        (resource,) = answers[0].resources
        return next(str(entry[1]) for entry in resource[4] if entry[0] == name)

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        for answer in _run(self.raw.alter_configs([resource])):
            _check([(each[3], each[0]) for each in answer.resources])

    def groups(self) -> set[str]:
        return {each[0] for each in _run(self.raw.list_consumer_groups())}

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        _run(self.raw.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)}))

    def delete_group(self, group: str) -> None:
        raise NotImplementedError("aiokafka has no call that deletes a group")

    def close(self) -> None:
        _run(self.raw.close())


def _check(results: Iterable[Any]) -> None:
    for result in results:
        if result[1] != 0:
            raise _refused(errors.for_code(result[1])(str(result)))


class Aio:
    name = "aiokafka"

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
    ) -> Producer:
        return AioProducer(
            {
                "bootstrap_servers": bootstrap,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": transaction_timeout_ms,
                "enable_idempotence": True,
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
        return AioConsumer(
            group,
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
            },
        )

    def admin(self, bootstrap: str) -> Admin:
        return AioAdmin(bootstrap)


CLIENT: Client = Aio()
