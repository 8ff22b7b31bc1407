"""Records of the metadata log: what Apache Kafka's own classes wrote is read, and written again to the same bytes.

`tests/support/record_metadata.py` made the recordings: every type at every version that 4.4.0 knows, once with defaults
and once with every field.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eosin.protocol.names import uuid_text
from eosin.protocol.records.metadata import (
    decode_metadata_record,
    decode_quorum_control,
    encode_metadata_record,
    encode_quorum_control,
)
from eosin.protocol.schemas.records import metadata, quorum
from eosin.protocol.schemas.records.metadata import FeatureLevelRecord, RegisterBrokerRecord
from eosin.protocol.types import DecodeError, EncodeError, Message
from eosin.protocol.wire import codec

FOLDER = Path(__file__).parent / "golden" / "metadata-records"
TYPES = {schema.struct.__name__: (number, schema) for number, schema in metadata.TYPES.items()}
FRAME_BYTES = 3


def recordings() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.json")):
        for number, each in enumerate(json.loads(path.read_text())["records"]):
            name = f"{each['record']}-v{each['version']}-{number}"
            yield pytest.param(each["record"], each["version"], bytes.fromhex(each["bytes"]), each["fields"], id=name)


@pytest.mark.parametrize(("name", "version", "data", "fields"), list(recordings()))
def test_records_of_apache_kafka_are_read_and_written_again(
    name: str, version: int, data: bytes, fields: dict[str, Any]
) -> None:
    record = decode_metadata_record(data)
    assert type(record).__name__ == name
    shown = as_json(record)
    assert fields == {key: value for key, value in shown.items() if key in fields}
    assert encode_metadata_record(record, version) == data
    layout = TYPES[name][1].layout(version)
    assert codec.interpret(layout, data[FRAME_BYTES:]) == record
    assert codec.build(layout, record) == data[FRAME_BYTES:]


def test_every_record_that_is_written_at_our_metadata_versions_was_recorded() -> None:
    """The versions of cluster.md 3.8, and those below that Apache Kafka 4.4.0 still writes."""
    recorded = {(param.values[0], param.values[1]) for param in recordings()}
    missing = {
        (name, version)
        for name, (_, schema) in TYPES.items()
        for version in schema.versions
        if (name, version) not in recorded
    }
    # The releases from 4.0 on have forgotten the first versions of these two, from the time of ZooKeeper.
    assert missing <= {("RegisterBrokerRecord", 0), ("RegisterBrokerRecord", 1)}
    assert len(TYPES) == 27
    assert not {6, 13, 16} & set(metadata.TYPES)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "no whole frame"),
        ("01", "no whole frame"),
        ("01 0c", "no whole frame"),
        ("02 0c 00 01 0000 00", "frame version 2"),
        ("00 0c 00 01 0000 00", "frame version 0"),
        ("01 06 00", "type 6"),
        ("01 1e 00", "type 30"),
        ("01 0c 01 01 0000 00", "FeatureLevelRecord version 1"),
        ("01 03 03", "PartitionRecord version 3"),
        ("01 0c 00 01 0000 00 00", "1 bytes"),
        ("01 0c 00 01 00", "cut short"),
    ],
)
def test_a_record_that_is_not_understood_to_its_last_byte_is_refused(data: str, reason: str) -> None:
    """cluster.md 1.8"""
    with pytest.raises(DecodeError, match=reason):
        decode_metadata_record(bytes.fromhex(data))


def test_a_field_that_a_version_does_not_know_is_left_out() -> None:
    record = RegisterBrokerRecord(broker_id=7, log_dirs=(bytes(range(16)),), cordoned_log_dirs=())
    assert decode_metadata_record(encode_metadata_record(record, 4)) == record
    assert decode_metadata_record(encode_metadata_record(record, 2)) == RegisterBrokerRecord(broker_id=7)


def test_a_record_of_another_kind_or_version_is_not_written() -> None:
    with pytest.raises(EncodeError, match="version 9"):
        encode_metadata_record(FeatureLevelRecord(), 9)
    with pytest.raises(EncodeError, match="KRaftVersionRecord"):
        encode_metadata_record(quorum.KRaftVersionRecord(), 0)


@pytest.mark.parametrize("number", sorted(quorum.TYPES))
def test_control_records_are_read_as_they_were_written(number: int) -> None:
    schema = quorum.TYPES[number]
    for version in schema.versions:
        key, value = encode_quorum_control(schema.struct(), version)
        assert key == bytes((0, 0, 0, number))
        assert value[:2] == version.to_bytes(2, "big")
        assert decode_quorum_control(key, value) == schema.struct()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0000 0007", "0000 00"),
        ("0001 0004", "0000 00"),
        ("0000 0004", "0001 00"),
        ("0000 0004", "0000 00 00"),
        ("0000", "0000 00"),
        ("0000 0004", "00"),
    ],
)
def test_a_control_record_that_is_not_understood_is_refused(key: str, value: str) -> None:
    with pytest.raises(DecodeError):
        decode_quorum_control(bytes.fromhex(key), bytes.fromhex(value))


def as_json(record: Message) -> dict[str, Any]:
    """A record as Apache Kafka's converters show it."""
    return {
        re.sub(r"_([a-z])", lambda found: found[1].upper(), name): shown(value)
        for name, value in msgspec.structs.asdict(record).items()
    }


def shown(value: Any) -> Any:
    if isinstance(value, Message):
        return as_json(value)
    if isinstance(value, tuple):
        return [shown(each) for each in value]
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == 16 else base64.b64encode(value).decode()
    return value
