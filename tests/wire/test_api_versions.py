"""ApiVersions: the first request of every client, the only API that answers a version it does not know (KIP-511)."""

import struct

import pytest
from kafka_releases import ANNOUNCED, FEATURES
from wire import Wire, better_than_kafka, exchange, records, request_header

from eosin.broker.handlers.registry import BY_KEY
from eosin.client.versions import TRANSACTION_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import build_batch
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponse
from eosin.protocol.wire.codec import decode_response

pytestmark = pytest.mark.virtual

CLIENT = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")


async def ranges(wire: Wire) -> dict[int, tuple[int, int]]:
    answer: ApiVersionsResponse = await wire.ask(CLIENT, 3)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


@pytest.mark.parametrize("version", range(6))
async def test_every_version_lists_the_same_apis(wire: Wire, version: int) -> None:
    answer: ApiVersionsResponse = await wire.ask(CLIENT, version)
    assert answer.error_code == ErrorCode.NONE
    assert {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys} == await ranges(wire)


@pytest.mark.parametrize("version", [6, 99, 32767])
async def test_an_unknown_version_is_answered_in_version_0_with_what_is_served(bootstrap: str, version: int) -> None:
    [frame] = await exchange(bootstrap, request_header(ApiKey.API_VERSIONS, version) + b"\0any bytes")
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, memoryview(frame))
    assert correlation_id == 7
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(ApiKey.API_VERSIONS, 0, 5)]


async def test_a_connection_survives_the_refusal_of_a_version(bootstrap: str) -> None:
    too_high = request_header(ApiKey.API_VERSIONS, 99) + b"\0"
    frames = await exchange(bootstrap, too_high, request_header(ApiKey.API_VERSIONS, 0, correlation_id=8))
    answers = [decode_response(ApiKey.API_VERSIONS, 0, memoryview(frame)) for frame in frames]
    assert [(number, answer.error_code) for number, answer in answers] == [
        (7, ErrorCode.UNSUPPORTED_VERSION),
        (8, ErrorCode.NONE),
    ]


@pytest.mark.parametrize("version", [3, 4])
async def test_the_transaction_protocol_is_a_finalized_feature(wire: Wire, version: int) -> None:
    answer: ApiVersionsResponse = await wire.ask(CLIENT, version)
    levels = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
    assert levels[TRANSACTION_VERSION] == (2, 2)
    assert answer.finalized_features_epoch >= 0


async def test_a_feature_that_starts_at_0_is_supported_from_version_4_on(wire: Wire) -> None:
    below, above = [
        {each.name: each.min_version for each in (await wire.ask(CLIENT, version)).supported_features}
        for version in (3, 4)
    ]
    assert TRANSACTION_VERSION not in below
    assert above[TRANSACTION_VERSION] == 0


async def test_features_are_unknown_to_old_versions(wire: Wire) -> None:
    answer: ApiVersionsResponse = await wire.ask(CLIENT, 2)
    assert answer.finalized_features == ()


async def test_the_apis_of_the_second_transaction_protocol_are_served(wire: Wire) -> None:
    served = await ranges(wire)
    for key, needed in ((ApiKey.PRODUCE, 12), (ApiKey.END_TXN, 5), (ApiKey.TXN_OFFSET_COMMIT, 5)):
        assert served[key][1] >= needed


async def test_the_api_versions_that_librdkafka_before_2_11_requires_are_served(wire: Wire) -> None:
    served = await ranges(wire)
    wanted = [(ApiKey.PRODUCE, 3), (ApiKey.FETCH, 4), (ApiKey.PRODUCE, 7), (ApiKey.FETCH, 10), (ApiKey.LIST_OFFSETS, 1)]
    wanted += [(ApiKey.FIND_COORDINATOR, 0), (ApiKey.INIT_PRODUCER_ID, 0), (ApiKey.JOIN_GROUP, 0)]
    for key, version in wanted:
        low, high = served[key]
        assert low <= version <= high, key.name
    assert served[ApiKey.PRODUCE][0] == 0  # else it does not compress


async def test_every_api_is_announced_up_to_the_version_that_apache_kafka_announces(wire: Wire) -> None:
    """Of those that a broker serves alone."""
    served = await ranges(wire)
    asked = sorted(BY_KEY.keys() - {ApiKey.ADD_PARTITIONS_TO_TXN})
    assert {key: served[key][1] for key in asked} == {key: ANNOUNCED[key][1] for key in asked}
    assert [key for key in asked if served[key][0] > ANNOUNCED[key][0]] == []


async def test_features_are_supported_up_to_the_level_of_apache_kafka(wire: Wire) -> None:
    answer: ApiVersionsResponse = await wire.ask(CLIENT, 4)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert {name: supported[name] for name in FEATURES} == FEATURES


@better_than_kafka("without other brokers nobody may send the brokers' versions of AddPartitionsToTxn")
async def test_versions_that_brokers_speak_among_themselves_are_not_announced(wire: Wire) -> None:
    assert (await ranges(wire))[ApiKey.ADD_PARTITIONS_TO_TXN] == (0, 3)


@pytest.mark.parametrize("name", ["", "has spaces", "-dash-first", "ends-with-dot."])
async def test_a_malformed_software_name_is_refused(wire: Wire, name: str) -> None:
    answer: ApiVersionsResponse = await wire.ask(ApiVersionsRequest(name, "1.0"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert (await wire.ask(CLIENT, 3)).error_code == ErrorCode.NONE


async def destination(wire: Wire) -> tuple[str, int]:
    """The cluster and the node that are asked."""
    answer: MetadataResponse = await wire.ask(MetadataRequest(()), 9)
    assert answer.cluster_id is not None
    return answer.cluster_id, answer.brokers[0].node_id


async def to(wire: Wire, cluster_id: str | None, node_id: int) -> int:
    """The error of a client that means that broker."""
    answer: ApiVersionsResponse = await wire.ask(ApiVersionsRequest("wire", "1.0", cluster_id, node_id), 5)
    assert bool(answer.api_keys) is (answer.error_code == ErrorCode.NONE)
    return answer.error_code


async def test_a_client_that_reached_the_broker_it_means_is_answered(wire: Wire) -> None:
    assert await to(wire, *await destination(wire)) == ErrorCode.NONE
    assert await to(wire, None, -1) == ErrorCode.NONE


async def test_a_client_that_reached_another_broker_has_to_bootstrap_again(wire: Wire) -> None:
    cluster_id, node_id = await destination(wire)
    assert await to(wire, "another-cluster", node_id) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await to(wire, cluster_id, node_id + 1) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert (await wire.ask(CLIENT, 3)).error_code == ErrorCode.NONE


async def test_a_client_names_cluster_and_node_or_neither(wire: Wire) -> None:
    cluster_id, node_id = await destination(wire)
    assert await to(wire, cluster_id, -1) == ErrorCode.INVALID_REQUEST
    assert await to(wire, None, node_id) == ErrorCode.INVALID_REQUEST


async def test_a_produce_older_than_served_closes_its_connection_and_writes_nothing(bootstrap: str, wire: Wire) -> None:
    partition = await wire.partition()
    batch = bytes(build_batch(records(1), timestamp=0))
    topic = partition.topic.encode()
    body = struct.pack(">hiih", 1, 1000, 1, len(topic)) + topic
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    assert await exchange(bootstrap, request_header(ApiKey.PRODUCE, 2) + body) == []
    assert await wire.end_offset(partition) == 0


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.FETCH, 3), (ApiKey.FETCH, 99), (ApiKey.END_TXN, -1), (ApiKey.END_TXN, 6), (999, 0)]
)
async def test_any_other_unserved_version_closes_the_connection(
    bootstrap: str, wire: Wire, key: int, version: int
) -> None:
    assert await exchange(bootstrap, request_header(key, version) + bytes(64)) == []
    assert (await wire.ask(CLIENT, 3)).error_code == ErrorCode.NONE
