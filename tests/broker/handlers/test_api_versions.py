"""ApiVersions: what is announced is what is served, and features switch on the newer transaction protocol."""

from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kafka_releases import ANNOUNCED

from eosin.broker.handlers import api_versions
from eosin.broker.handlers.registry import APIS, BY_KEY
from eosin.broker.services import Services
from eosin.model.features import features_alone
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.settings.broker import BrokerConfig

NOT_BUILT: Final[set[str]] = set()
"""Features of Apache Kafka that Eosin does not have."""


def ask(
    version: int = 4,
    *,
    name: str = "a-client",
    software_version: str = "1.0",
    level: int = 2,
    two_phase: bool = False,
    cluster_id: str | None = None,
    node_id: int = -1,
) -> tuple[ApiVersionsResponse, RequestContext]:
    services: Any = SimpleNamespace(
        config=BrokerConfig(transaction_two_phase_commit_enable=two_phase),
        cluster=SimpleNamespace(
            features=features_alone(transaction_version=level, epoch=7), cluster_id="this-cluster", node_id=3
        ),
    )
    context = RequestContext(version, None, "/127.0.0.1", "PLAINTEXT")
    request = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version, cluster_id=cluster_id, node_id=node_id
    )
    answer = api_versions.respond(request, context, cast(Services, services))
    assert isinstance(answer, ApiVersionsResponse)
    return answer, context


def test_every_api_is_announced_with_the_versions_that_are_served() -> None:
    rows = {row.api_key: range(row.min_version, row.max_version + 1) for row in ask(two_phase=True)[0].api_keys}
    assert rows == {int(api.key): api.advertised or api.versions for api in APIS}
    assert list(rows) == sorted(rows)


@pytest.mark.parametrize(("two_phase", "highest"), [(False, 5), (True, 6)])
def test_the_version_with_two_phase_commit_is_announced_only_where_it_is_on(two_phase: bool, highest: int) -> None:
    (row,) = [row for row in ask(two_phase=two_phase)[0].api_keys if row.api_key == ApiKey.INIT_PRODUCER_ID]
    assert (row.min_version, row.max_version) == (0, highest)


def test_every_served_version_has_a_schema() -> None:
    for api in APIS:
        schema = schema_of(api.key)
        assert schema is not None
        for version in api.versions:
            assert version in schema.versions, f"{api.key.name} {version}"


ABSENT: Final = {38, 39, 40, 41, 64, 80, 81, 94}
LOWER: Final = {ApiKey.ADD_PARTITIONS_TO_TXN: 3}
"""What docs/semantics.md says of them: not served, and not up to Kafka's highest version."""


def test_apis_of_apache_kafka_are_served_except_those_that_the_page_names() -> None:
    ours = {row.api_key: (row.min_version, row.max_version) for row in ask()[0].api_keys}
    assert ANNOUNCED.keys() - ours.keys() == ABSENT
    assert ours.keys() <= ANNOUNCED.keys()
    for key, (lowest, highest) in ours.items():
        assert lowest <= ANNOUNCED[key][0], ApiKey(key).name
        assert highest == LOWER.get(ApiKey(key), ANNOUNCED[key][1]), ApiKey(key).name


def test_produce_is_announced_from_0_for_clients_that_judge_codecs_by_it_and_served_from_3() -> None:
    produce = BY_KEY[ApiKey.PRODUCE]
    assert produce.advertised is not None
    assert (produce.advertised.start, produce.versions.start) == (0, 3)
    assert produce.advertised.stop == produce.versions.stop
    assert produce.versions.stop in (13, 14)


@pytest.mark.parametrize(
    ("key", "served"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, range(0, 4)),
        (ApiKey.INIT_PRODUCER_ID, range(0, 7)),
        (ApiKey.END_TXN, range(0, 6)),
        (ApiKey.TXN_OFFSET_COMMIT, range(0, 7)),
        (ApiKey.FETCH, range(4, 19)),
    ],
)
def test_the_apis_of_transactions_are_served_at_the_versions_clients_switch_on(key: ApiKey, served: range) -> None:
    assert BY_KEY[key].versions == served


def test_the_finalized_transaction_version_is_told_with_an_epoch_that_grows_with_every_start() -> None:
    answer, _ = ask()
    (feature,) = answer.finalized_features
    assert (feature.name, feature.max_version_level) == ("transaction.version", 2)
    assert answer.finalized_features_epoch == 7


def test_a_range_from_0_is_hidden_from_clients_that_fail_on_it() -> None:
    assert ask(3)[0].supported_features == ()
    assert ask(3)[0].finalized_features != ()
    ranges = {each.name: (each.min_version, each.max_version) for each in ask(4)[0].supported_features}
    assert ranges["transaction.version"] == (0, 2)


def test_features_that_are_not_built_are_supported_at_level_0_alone_and_not_finalized() -> None:
    answer, _ = ask(4)
    ranges = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert {name for name, levels in ranges.items() if levels == (0, 0)} == NOT_BUILT
    assert not NOT_BUILT & {each.name for each in answer.finalized_features}


def test_a_feature_at_level_0_is_not_finalized() -> None:
    assert ask(level=0)[0].finalized_features == ()
    assert ask(level=1)[0].finalized_features[0].max_version_level == 1


def test_the_clients_name_is_kept() -> None:
    _, context = ask(name="librdkafka", software_version="2.3.0-rc1")
    assert (context.client_software_name, context.client_software_version) == ("librdkafka", "2.3.0-rc1")


@pytest.mark.parametrize("name", ["", "-", "a b", "a-", "näme", "a\n"])
def test_a_name_that_kafka_would_not_take_is_an_invalid_request(name: str) -> None:
    assert ask(name=name)[0].error_code == ErrorCode.INVALID_REQUEST
    assert ask(software_version=name)[0].error_code == ErrorCode.INVALID_REQUEST
    assert ask(2, name=name)[0].error_code == ErrorCode.NONE, "older versions do not carry it"


def test_a_client_that_means_this_broker_or_nobody_in_particular_is_answered() -> None:
    answer, _ = ask(5, cluster_id="this-cluster", node_id=3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.NONE, ask(4)[0].api_keys)
    assert ask(5)[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("cluster_id", "node_id"), [("another-cluster", 3), ("this-cluster", 4), ("", 0)])
def test_a_client_that_means_another_broker_is_sent_back_to_its_bootstrap_servers(
    cluster_id: str, node_id: int
) -> None:
    answer, _ = ask(5, cluster_id=cluster_id, node_id=node_id)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.REBOOTSTRAP_REQUIRED, ())


@pytest.mark.parametrize(("cluster_id", "node_id"), [("this-cluster", -1), (None, 3)])
def test_half_of_a_destination_is_an_invalid_request(cluster_id: str | None, node_id: int) -> None:
    assert ask(5, cluster_id=cluster_id, node_id=node_id)[0].error_code == ErrorCode.INVALID_REQUEST


def test_older_versions_carry_no_destination() -> None:
    assert ask(4, cluster_id="another-cluster", node_id=4)[0].error_code == ErrorCode.NONE
