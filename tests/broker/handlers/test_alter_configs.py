"""AlterConfigs and IncrementalAlterConfigs."""

import logging
from collections.abc import Iterator

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers import alter_configs, incremental_alter_configs
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas import alter_configs as whole
from eosin.protocol.schemas import incremental_alter_configs as incremental

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def replace(
    *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False
) -> whole.AlterConfigsRequest:
    return whole.AlterConfigsRequest(
        tuple(
            whole.AlterConfigsResource(kind, name, tuple(whole.AlterableConfig(*item) for item in configs.items()))
            for kind, name, configs in resources
        ),
        validate_only,
    )


def change(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(
        tuple(
            incremental.AlterConfigsResource(
                kind, name, tuple(incremental.AlterableConfig(*config) for config in configs)
            )
            for kind, name, configs in resources
        ),
        validate_only,
    )


async def with_orders() -> DataBroker:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders", configs={"flush.messages": "3"})
    return broker


@pytest.mark.parametrize("version", alter_configs.API.versions)
async def test_a_whole_change_replaces_all_configs(version: int) -> None:
    broker = await with_orders()
    request = replace((TOPIC, "orders", {"retention.ms": "5"}))
    (response,) = (await broker.call(alter_configs.API, request, version)).responses
    assert (response.error_code, response.resource_type, response.resource_name) == (0, TOPIC, "orders")
    assert broker.cluster.topics["orders"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize("version", incremental_alter_configs.API.versions)
async def test_an_incremental_change_touches_what_it_names(version: int) -> None:
    broker = await with_orders()
    configs = [("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact"), ("flush.messages", DELETE, None)]
    (response,) = (
        await broker.call(incremental_alter_configs.API, change((TOPIC, "orders", configs)), version)
    ).responses
    assert (response.error_code, response.resource_type, response.resource_name) == (0, TOPIC, "orders")
    assert broker.cluster.topics["orders"].configs == {"cleanup.policy": "delete,compact", "retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "config", "error"),
    [
        (TOPIC, "unknown", ("retention.ms", SET, "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ("retention.ms", SET, "5"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", 9, "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", ("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG),
        (BROKER, "2", ("log.retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("node.id", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("max.connections", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("no.such", SET, "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("ssl.keystore.location", SET, "/k"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "5"), ErrorCode.INVALID_CONFIG),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
        (77, "x", ("a", SET, "5"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_each_fault_has_its_code_and_a_message(
    kind: int, name: str, config: tuple[str, int, str | None], error: ErrorCode
) -> None:
    broker = await with_orders()
    (response,) = (await broker.call(incremental_alter_configs.API, change((kind, name, [config])))).responses
    assert response.error_code == error
    assert response.error_message
    assert broker.cluster.topics["orders"].configs == {"flush.messages": "3"}


async def test_resources_succeed_and_fail_on_their_own() -> None:
    broker = await with_orders()
    request = replace((TOPIC, "orders", {"retention.ms": "5"}), (TOPIC, "unknown", {}))
    answer = await broker.call(alter_configs.API, request)
    assert [each.error_code for each in answer.responses] == [0, 3]


async def test_a_resource_that_is_named_twice_is_refused_each_time() -> None:
    broker = await with_orders()
    request = replace((TOPIC, "orders", {"retention.ms": "5"}), (TOPIC, "orders", {}))
    answer = await broker.call(alter_configs.API, request)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


async def test_broker_settings_change_for_one_and_for_all() -> None:
    broker = await with_orders()
    request = change(
        (BROKER, "", [("log.retention.ms", SET, "8")]), (BROKER, "1", [("log.cleanup.policy", APPEND, "compact")])
    )
    answer = await broker.call(incremental_alter_configs.API, request)
    assert [each.error_code for each in answer.responses] == [0, 0]
    assert broker.cluster.log_config("orders").retention_ms == 8
    assert broker.cluster.log_config("orders").cleanup_policy == {"delete", "compact"}


async def test_a_setting_that_kafka_changes_and_eosin_does_not_have_is_kept_without_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await with_orders()
    configs: list[tuple[str, int, str | None]] = [("log.cleaner.threads", SET, "2"), ("log.retention.ms", SET, "8")]
    with caplog.at_level(logging.WARNING):
        answer = await broker.call(incremental_alter_configs.API, change((BROKER, "1", configs)))
    assert [each.error_code for each in answer.responses] == [0]
    assert broker.cluster.broker_configs(1) == {"log.cleaner.threads": "2", "log.retention.ms": "8"}
    assert broker.cluster.log_config("orders").retention_ms == 8
    assert "log.cleaner.threads is kept, and has no effect" in caplog.text
    gone: list[tuple[str, int, str | None]] = [("log.cleaner.threads", DELETE, None)]
    await broker.call(incremental_alter_configs.API, change((BROKER, "1", gone)))
    assert broker.cluster.broker_configs(1) == {"log.retention.ms": "8"}


@pytest.fixture
def loggers() -> Iterator[logging.Logger]:
    """One of our loggers, without a level of its own before and after."""
    logger, root = logging.getLogger("eosin.network.connection"), logging.getLogger()
    before = root.level
    logger.setLevel(logging.NOTSET)
    yield logger
    logger.setLevel(logging.NOTSET)
    root.setLevel(before)


async def test_levels_of_loggers_change_at_run_time(loggers: logging.Logger) -> None:
    broker = await with_orders()

    async def level(*configs: tuple[str, int, str | None], name: str = "1", validate_only: bool = False) -> int:
        request = change((BROKER_LOGGER, name, list(configs)), validate_only=validate_only)
        (response,) = (await broker.call(incremental_alter_configs.API, request)).responses
        return int(response.error_code)

    assert await level((loggers.name, SET, "DEBUG"), validate_only=True) == 0
    assert loggers.level == logging.NOTSET
    assert await level((loggers.name, SET, "DEBUG"), ("root", SET, "ERROR")) == 0
    assert (loggers.level, logging.getLogger().level) == (logging.DEBUG, logging.ERROR)
    assert await level((loggers.name, DELETE, None)) == 0
    assert loggers.getEffectiveLevel() == logging.ERROR
    assert await level(("root", SET, "INFO"), ("no.such", SET, "DEBUG")) == ErrorCode.INVALID_CONFIG
    assert await level(("root", SET, "LOUD")) == ErrorCode.INVALID_CONFIG
    assert await level(("root", DELETE, None)) == ErrorCode.INVALID_REQUEST
    assert await level(("root", APPEND, "INFO")) == ErrorCode.INVALID_REQUEST
    assert await level(("root", SET, "INFO"), name="") == ErrorCode.INVALID_REQUEST
    assert await level(("root", SET, "INFO"), name="2") == ErrorCode.INVALID_REQUEST
    assert logging.getLogger().level == logging.ERROR
    (response,) = (await broker.call(alter_configs.API, replace((BROKER_LOGGER, "1", {"root": "INFO"})))).responses
    assert response.error_code == ErrorCode.INVALID_REQUEST, "KIP-412 leaves it out"


async def test_dry_runs_change_nothing() -> None:
    broker = await with_orders()
    await broker.call(alter_configs.API, replace((TOPIC, "orders", {"retention.ms": "5"}), validate_only=True))
    configs: list[tuple[str, int, str | None]] = [("retention.ms", SET, "5")]
    await broker.call(incremental_alter_configs.API, change((TOPIC, "orders", configs), validate_only=True))
    assert broker.cluster.topics["orders"].configs == {"flush.messages": "3"}


def test_refusals_name_each_resource() -> None:
    for api, request in (
        (alter_configs.API, replace((TOPIC, "orders", {}))),
        (incremental_alter_configs.API, change((TOPIC, "orders", []))),
    ):
        (response,) = refused(api, request, ErrorCode.NOT_CONTROLLER, 1).responses
        assert (response.resource_name, response.error_code) == ("orders", 41)
