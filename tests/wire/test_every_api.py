"""Each API that a broker announces: all versions answer, and malformed bytes harm no other connection."""

import asyncio
from typing import Any, Final

import pytest
from wire import Wire, better_than_kafka, exchange

from eosin.broker.handlers.registry import APIS
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES

pytestmark = pytest.mark.smoke

HELLO: Final = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")
KEYS: Final = sorted({api.key for api in APIS}, key=lambda key: key.name)
"""What ours announces; of another broker the versions that it announces of them."""
NO_EMPTY_REQUEST: Final = {ApiKey.PRODUCE, ApiKey.DESCRIBE_ACLS}
"""A Produce without content has no answer, since its acks are 0; and a filter for rights of no kind is none."""
NEVER_ANSWERED: Final = better_than_kafka("Apache Kafka never answers an AddPartitionsToTxn that names no partition")
NEVER_TRUNCATED: Final = {ApiKey.API_VERSIONS}
"""Its header alone is a whole request."""


async def served(wire: Wire, key: ApiKey) -> range:
    """The versions of one API that the broker announces and that this project can write."""
    answer = await wire.ask(HELLO, 3)
    announced = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
    versions, schema = announced.get(key, range(0)), schema_of(key)
    assert schema is not None
    return range(max(versions.start, schema.versions.start), min(versions.stop, schema.versions.stop))


def empty_request(key: ApiKey) -> Any:
    """A request that names nothing."""
    schema = schema_of(key)
    assert schema is not None
    return schema.request()


def frame(key: ApiKey, version: int, message: Any, correlation_id: int = 7) -> bytes:
    """The bytes of a request, without their size."""
    return b"".join(bytes(each) for each in encode_request(key, version, correlation_id, "wire", message))[SIZE_BYTES:]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, id=key.name, marks=NEVER_ANSWERED if key is ApiKey.ADD_PARTITIONS_TO_TXN else ())
        for key in KEYS
        if key not in NO_EMPTY_REQUEST
    ],
)
async def test_each_version_answers_a_request_that_names_nothing(bootstrap: str, wire: Wire, key: ApiKey) -> None:
    versions = await served(wire, key)
    if not versions:
        pytest.skip(f"this broker does not announce {key.name}")
    for version in versions:
        [told] = await exchange(bootstrap, frame(key, version, empty_request(key)))
        assert decode_response(key, version, memoryview(told))[0] == 7, f"version {version}"


@pytest.mark.parametrize("key", [key for key in KEYS if key not in NEVER_TRUNCATED], ids=lambda key: key.name)
async def test_a_request_that_is_cut_off_closes_its_own_connection_only(
    bootstrap: str, wire: Wire, key: ApiKey
) -> None:
    """At any byte behind its header."""
    versions = await served(wire, key)
    if not versions:
        pytest.skip(f"this broker does not announce {key.name}")
    for version in {versions[0], versions[-1]}:
        whole = frame(key, version, empty_request(key))
        for end in range(_header(key, version), len(whole)):
            assert await exchange(bootstrap, whole[:end]) == [], f"version {version}, {end} of {len(whole)} bytes"
    assert (await wire.ask(MetadataRequest(topics=()), 12)).error_code == 0


def _header(key: ApiKey, version: int) -> int:
    """The size of its header."""
    schema = schema_of(key)
    assert schema is not None
    return 2 + 2 + 4 + 2 + len("wire") + int(schema.is_flexible(version))


async def test_the_version_after_the_last_closes_the_connection(bootstrap: str, wire: Wire) -> None:
    """Of every API but ApiVersions, which says what is served, and InitProducerId, whose last version is announced to
    those only who may use it."""
    answer = await wire.ask(HELLO, 3)
    others = {ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID}
    asked = [(each.api_key, each.max_version + 1) for each in answer.api_keys if each.api_key not in others]
    told = await asyncio.gather(*[exchange(bootstrap, _raw(key, version)) for key, version in asked])
    assert [at for at, answers in zip(asked, told, strict=True) if answers] == []


def _raw(key: int, version: int) -> bytes:
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
    return header + b"\0\4wire" + bytes(64)
