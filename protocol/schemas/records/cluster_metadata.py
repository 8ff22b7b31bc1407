"""Records of `__eosin_metadata`: topics, producer id blocks, starts of a directory, settings changed at run time.

The log is compacted, so each key holds the newest of its kind. As in `__consumer_offsets`, the version in front of a
key says which kind it is. Values are flexible from version 0 on: what comes later goes into tagged fields.
"""

from typing import Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    Int32,
    Int64,
    Layout,
    Message,
    RecordKind,
    RecordSchema,
    Uuid,
    array,
    message,
    string,
)


class TopicKey(Message):
    name: str = ""


class TopicConfig(Message):
    """A setting of a topic that differs from the broker's default."""

    name: str = ""
    value: str = ""


class TopicRecord(Message):
    """One topic; a tombstone says that it was deleted."""

    topic_id: bytes = ZERO_UUID
    partitions: int = 0
    configs: tuple[TopicConfig, ...] = ()


class ProducerIdsKey(Message):
    """There is one record of this kind."""


class ProducerIdsRecord(Message):
    next_producer_id: int = 0  # the first that no block has covered


class StartKey(Message):
    """There is one record of this kind."""


class StartRecord(Message):
    start_count: int = 0  # starts of a broker on this directory; leader and coordinator epochs follow from it


class BrokerConfigsKey(Message):
    node_id: int = -1  # -1: every broker


class BrokerSetting(Message):
    """A broker setting that was changed at run time."""

    name: str = ""
    value: str = ""


class BrokerConfigsRecord(Message):
    configs: tuple[BrokerSetting, ...] = ()


def topic_key(version: int) -> Layout:
    """The key of a topic."""
    return message(TopicKey, False, "name" / string(False))


def topic_record(version: int) -> Layout:
    """The value of a topic."""
    flexible = True
    topic_config = message(
        TopicConfig,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible),
    )
    return message(
        TopicRecord,
        flexible,
        "topic_id" / Uuid,
        "partitions" / Int32,
        "configs" / array(topic_config, flexible),
    )


def producer_ids_key(version: int) -> Layout:
    """The key of the producer id blocks: nothing but its kind."""
    return message(ProducerIdsKey, False)


def producer_ids_record(version: int) -> Layout:
    """The value of the producer id blocks."""
    return message(ProducerIdsRecord, True, "next_producer_id" / Int64)


def start_key(version: int) -> Layout:
    """The key of the start counter: nothing but its kind."""
    return message(StartKey, False)


def start_record(version: int) -> Layout:
    """The value of the start counter."""
    return message(StartRecord, True, "start_count" / Int32)


def broker_configs_key(version: int) -> Layout:
    """The key of a broker's changed settings."""
    return message(BrokerConfigsKey, False, "node_id" / Int32)


def broker_configs_record(version: int) -> Layout:
    """The value of a broker's changed settings: all of them."""
    flexible = True
    setting = message(BrokerSetting, flexible, "name" / string(flexible), "value" / string(flexible))
    return message(BrokerConfigsRecord, flexible, "configs" / array(setting, flexible))


KINDS: Final = (
    RecordKind(
        key=RecordSchema(TopicKey, versions=range(0, 1), layout=topic_key),
        value=RecordSchema(TopicRecord, versions=range(0, 1), layout=topic_record),
    ),
    RecordKind(
        key=RecordSchema(ProducerIdsKey, versions=range(1, 2), layout=producer_ids_key),
        value=RecordSchema(ProducerIdsRecord, versions=range(0, 1), layout=producer_ids_record),
    ),
    RecordKind(
        key=RecordSchema(StartKey, versions=range(2, 3), layout=start_key),
        value=RecordSchema(StartRecord, versions=range(0, 1), layout=start_record),
    ),
    RecordKind(
        key=RecordSchema(BrokerConfigsKey, versions=range(3, 4), layout=broker_configs_key),
        value=RecordSchema(BrokerConfigsRecord, versions=range(0, 1), layout=broker_configs_record),
    ),
)
