"""Requests as unmodified clients sent them, recorded by `tests/support/record_clients.py`.

Three independent implementations agree with our declarations: what they wrote is read, and written again to the same
bytes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnTopic
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.wire import codec

FOLDER = Path(__file__).parent / "golden"


def recordings() -> Iterator[object]:
    for path in sorted(FOLDER.glob("*.json")):
        for number, recorded in enumerate(json.loads(path.read_text())["requests"]):
            name = f"{path.stem}-{recorded['api']}-v{recorded['version']}-{number}"
            yield pytest.param(
                ApiKey[recorded["api"]], recorded["version"], bytes.fromhex(recorded["request"]), id=name
            )


@pytest.mark.parametrize(("key", "version", "frame"), list(recordings()))
def test_a_recorded_request_is_read_and_written_again(key: ApiKey, version: int, frame: bytes) -> None:
    header = codec.decode_request_header(frame)
    assert (header.api_key, header.api_version) == (key, version)
    request = codec.decode_request(key, version, memoryview(frame), header.body_offset)
    schema = schema_of(key)
    assert schema is not None
    assert codec.interpret(schema.request_layout(version), frame[header.body_offset :]) == request
    again = codec.encode_request(key, version, header.correlation_id, header.client_id, request)
    assert b"".join(again)[4:] == frame


def first(client: str, key: ApiKey) -> object:
    """The message of the first request of one kind that a client sent."""
    (path,) = FOLDER.glob(f"{client}-*.json")
    recorded = next(each for each in json.loads(path.read_text())["requests"] if each["api"] == key.name)
    frame = bytes.fromhex(recorded["request"])
    return codec.decode_request(key, recorded["version"], frame, codec.decode_request_header(frame).body_offset)


def test_every_client_is_recorded() -> None:
    assert {path.stem.rpartition("-")[0] for path in FOLDER.glob("*.json")} == {
        "aiokafka",
        "confluent-kafka",
        "kafka-python",
    }


def test_librdkafka_introduces_itself() -> None:
    request = first("confluent-kafka", ApiKey.API_VERSIONS)
    assert isinstance(request, ApiVersionsRequest)
    assert request.client_software_name == "confluent-kafka-python"


@pytest.mark.parametrize("client", ["aiokafka", "confluent-kafka", "kafka-python"])
def test_a_recorded_request_decodes_to_the_call_of_the_application(client: str) -> None:
    added = first(client, ApiKey.ADD_PARTITIONS_TO_TXN)
    assert added.v3_and_below_transactional_id == "tx"  # type: ignore[attr-defined]
    assert added.v3_and_below_topics == (AddPartitionsToTxnTopic("target", (0,)),)  # type: ignore[attr-defined]
    ended = first(client, ApiKey.END_TXN)
    assert (ended.transactional_id, ended.committed) == ("tx", True)  # type: ignore[attr-defined]
