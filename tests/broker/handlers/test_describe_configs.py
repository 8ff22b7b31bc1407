"""DescribeConfigs."""

import logging
from typing import Any

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers.describe_configs import API
from eosin.model.cluster import ConfigChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.settings.broker import BrokerConfig

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LONG = 5


async def described(
    broker: DataBroker, kind: int, name: str, *keys: str, version: int = 4, details: bool = True
) -> Any:
    resource = DescribeConfigsResource(kind, name, keys or None)
    request = DescribeConfigsRequest((resource,), include_synonyms=details, include_documentation=details)
    (result,) = (await broker.call(API, request, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def config(broker: DataBroker, kind: int, name: str, key: str) -> Any:
    result = await described(broker, kind, name, key)
    assert result.error_code == 0
    (entry,) = result.configs
    assert entry.name == key
    return entry


def synonyms(entry: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_describes_a_topic(version: int) -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders", configs={"retention.ms": "5"})
    result = await described(broker, TOPIC, "orders", version=version)
    entries = {each.name: each for each in result.configs}
    assert len(entries) > 25
    own, default = entries["retention.ms"], entries["flush.ms"]
    assert (own.value, own.read_only, own.is_sensitive) == ("5", False, False)
    assert (own.is_default, default.is_default) == ((False, True) if version == 0 else (False, False))
    assert (own.config_source, default.config_source) == ((-1, -1) if version == 0 else (1, 5))
    assert own.config_type == (LONG if version >= 3 else 0)
    assert bool(own.documentation) == (version >= 3)
    assert bool(own.synonyms) == (version >= 1)


async def test_details_are_left_out_when_not_asked_for() -> None:
    broker = await DataBroker.started()
    result = await described(broker, TOPIC, "__consumer_offsets", details=False)
    assert all(not each.synonyms and each.documentation is None for each in result.configs)


async def test_a_value_comes_from_the_nearest_place_and_the_others_are_its_synonyms() -> None:
    broker = await DataBroker.started(BrokerConfig(log_retention_ms=7, given={"log.retention.ms": "7"}))
    default = ("log.retention.hours", "168", 5)
    await broker.cluster.create_topic("orders")
    entry = await config(broker, TOPIC, "orders", "retention.ms")
    assert (entry.value, entry.config_source) == ("7", 4)
    assert synonyms(entry) == [("log.retention.ms", "7", 4), default]

    await broker.cluster.alter_broker_configs(None, [ConfigChange("log.retention.ms", "8")])
    await broker.cluster.alter_broker_configs(1, [ConfigChange("log.retention.ms", "9")])
    entry = await config(broker, TOPIC, "orders", "retention.ms")
    assert (entry.value, entry.config_source) == ("9", 2)

    await broker.cluster.alter_topic_configs("orders", [ConfigChange("retention.ms", "10")])
    entry = await config(broker, TOPIC, "orders", "retention.ms")
    assert (entry.value, entry.config_source) == ("10", 1)
    assert synonyms(entry) == [
        ("retention.ms", "10", 1),
        ("log.retention.ms", "9", 2),
        ("log.retention.ms", "8", 3),
        ("log.retention.ms", "7", 4),
        default,
    ]


async def test_the_finer_of_two_broker_settings_wins_wherever_it_was_set() -> None:
    broker = await DataBroker.started(BrokerConfig(log_retention_ms=7, given={"log.retention.ms": "7"}))
    await broker.cluster.create_topic("orders")
    await broker.cluster.alter_broker_configs(1, [ConfigChange("log.retention.hours", "1")])
    entry = await config(broker, TOPIC, "orders", "retention.ms")
    assert (entry.value, entry.config_source) == ("7", 4)


async def test_a_config_without_a_broker_setting_is_its_own_synonym() -> None:
    broker = await DataBroker.started()
    entry = await config(broker, TOPIC, "__consumer_offsets", "remote.storage.enable")
    assert synonyms(entry) == [("remote.storage.enable", "false", 5)]


async def test_an_internal_config_is_told_where_it_is_set() -> None:
    broker = await DataBroker.started(BrokerConfig(offsets_topic_segment_bytes=4096))
    entry = await config(broker, TOPIC, "__consumer_offsets", "internal.segment.bytes")
    assert (entry.value, entry.config_source) == ("4096", 1)


async def test_a_broker_tells_every_setting_and_which_can_change() -> None:
    broker = await DataBroker.started(BrokerConfig(num_partitions=3, given={"num.partitions": "3"}))
    entry = await config(broker, BROKER, "1", "num.partitions")
    assert (entry.value, entry.config_source, entry.read_only) == ("3", 4, True)
    assert synonyms(entry) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
    entry = await config(broker, BROKER, "1", "log.retention.ms")
    assert (entry.value, entry.config_source, entry.read_only) == (None, 5, False)
    await broker.cluster.alter_broker_configs(1, [ConfigChange("log.retention.ms", "9")])
    entry = await config(broker, BROKER, "1", "log.retention.ms")
    assert (entry.value, entry.config_source) == ("9", 2)


async def test_the_empty_broker_name_tells_what_was_changed_for_all() -> None:
    broker = await DataBroker.started()
    assert (await described(broker, BROKER, "")).configs == ()
    await broker.cluster.alter_broker_configs(None, [ConfigChange("log.retention.ms", "8")])
    (entry,) = (await described(broker, BROKER, "")).configs
    assert (entry.name, entry.value, entry.config_source) == ("log.retention.ms", "8", 3)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_each_fault_has_its_code_and_a_message(kind: int, name: str, error: ErrorCode) -> None:
    broker = await DataBroker.started()
    result = await described(broker, kind, name)
    assert (result.error_code, result.configs) == (error, ())
    assert result.error_message


async def test_an_empty_list_of_keys_asks_for_all() -> None:
    broker = await DataBroker.started()
    request = DescribeConfigsRequest((DescribeConfigsResource(BROKER, "1", ()),))
    (result,) = (await broker.call(API, request)).results
    assert len(result.configs) > 50


def test_a_refusal_names_each_resource() -> None:
    request = DescribeConfigsRequest((DescribeConfigsResource(TOPIC, "orders"),))
    (result,) = refused(API, request, ErrorCode.UNKNOWN_SERVER_ERROR, 4).results
    assert (result.resource_name, result.error_code) == ("orders", -1)


async def test_advertised_listeners_are_what_clients_are_told() -> None:
    broker = await DataBroker.started()
    entry = await config(broker, BROKER, "1", "advertised.listeners")
    assert (entry.value, entry.config_source) == ("PLAINTEXT://localhost:9092", 5)
    given = BrokerConfig(
        advertised_listeners=("PLAINTEXT://eosin:9",), given={"advertised.listeners": "PLAINTEXT://eosin:9"}
    )
    entry = await config(await DataBroker.started(given), BROKER, "1", "advertised.listeners")
    assert (entry.value, entry.config_source) == ("PLAINTEXT://eosin:9", 4)


async def test_a_setting_without_effect_is_told_as_it_was_kept() -> None:
    broker = await DataBroker.started()
    await broker.cluster.alter_broker_configs(1, [ConfigChange("log.cleaner.threads", "2")])
    entry = await config(broker, BROKER, "1", "log.cleaner.threads")
    assert (entry.value, entry.config_source, entry.read_only) == ("2", 2, False)
    assert "no effect" in entry.documentation
    await broker.cluster.alter_broker_configs(None, [ConfigChange("num.io.threads", "9")])
    assert (await config(broker, BROKER, "", "num.io.threads")).value == "9"


async def test_loggers_are_told_with_their_levels() -> None:
    broker = await DataBroker.started()
    logging.getLogger("eosin.network.exchange").setLevel(logging.WARNING)
    try:
        entries = {each.name: each for each in (await described(broker, BROKER_LOGGER, "1")).configs}
    finally:
        logging.getLogger("eosin.network.exchange").setLevel(logging.NOTSET)
    assert (entries["eosin.network.exchange"].value, entries["eosin.network.exchange"].config_source) == ("WARN", 6)
    assert entries["root"].value in {"DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
    for name in ("", "2"):
        assert (await described(broker, BROKER_LOGGER, name)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_subscription_to_client_metrics_is_described_as_empty() -> None:
    broker = await DataBroker.started()
    result = await described(broker, CLIENT_METRICS, "any")
    assert (result.error_code, result.configs) == (0, ())


@pytest.mark.parametrize("kind", [CLIENT_METRICS, GROUP])
async def test_a_resource_without_a_name_is_refused(kind: int) -> None:
    broker = await DataBroker.started()
    assert (await described(broker, kind, "")).error_code == ErrorCode.INVALID_REQUEST
