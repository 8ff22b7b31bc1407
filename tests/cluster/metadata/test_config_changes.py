"""Changes of settings at run time."""

import time

import pytest

from eosin.cluster.metadata.config_changes import (
    DYNAMIC_BROKER_SETTINGS,
    changed_configs,
    check_broker_configs,
    check_topic_configs,
    is_list_config,
    tolerant_overrides,
    topic_defaults,
)
from eosin.cluster.metadata.internal_topics import fixed_configs
from eosin.model.cluster import ConfigChange, ConfigOperation, Outcome
from eosin.protocol.errors import ErrorCode
from eosin.settings.broker import BrokerConfig
from eosin.storage.log.config import LogConfig

DEFAULTS = LogConfig()
CURRENT = {"retention.ms": "1", "segment.bytes": "2"}


def after(*changes: ConfigChange, current: dict[str, str] = CURRENT, replace: bool = False) -> dict[str, str] | Outcome:
    return changed_configs(
        current, changes, replace=replace, is_list=is_list_config, effective={"cleanup.policy": "delete"}.get
    )


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Outcome)
    assert outcome.message
    return outcome.error


def test_an_incremental_change_touches_only_what_it_names() -> None:
    assert after(ConfigChange("retention.ms", "9")) == {"retention.ms": "9", "segment.bytes": "2"}
    assert after(ConfigChange("retention.ms", None, ConfigOperation.DELETE)) == {"segment.bytes": "2"}


def test_a_whole_change_forgets_what_it_does_not_name() -> None:
    assert after(ConfigChange("flush.ms", "9"), replace=True) == {"flush.ms": "9"}
    assert after(replace=True) == {}


def test_configs_are_kept_in_order_of_name() -> None:
    changed = after(ConfigChange("a", "1"), ConfigChange("z", "2"))
    assert list(changed) == ["a", "retention.ms", "segment.bytes", "z"]


def test_appending_starts_from_what_holds() -> None:
    assert after(ConfigChange("cleanup.policy", "compact,delete", ConfigOperation.APPEND), current={}) == {
        "cleanup.policy": "delete,compact"
    }
    assert after(
        ConfigChange("cleanup.policy", "delete", ConfigOperation.SUBTRACT),
        current={"cleanup.policy": "compact, delete"},
    ) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("operation", [ConfigOperation.APPEND, ConfigOperation.SUBTRACT])
def test_a_long_list_is_changed_in_time_that_grows_with_it(operation: int) -> None:
    """16,000 entries fill a string; a look at all of them for each took seconds of the event loop."""
    there, other = (",".join(f"{first}{number:x}" for number in range(9000)) for first in "ab")
    began = time.thread_time()
    changed = after(ConfigChange("cleanup.policy", other, operation), current={"cleanup.policy": there})
    took_s = time.thread_time() - began
    assert isinstance(changed, dict)
    assert changed["cleanup.policy"] == (f"{there},{other}" if operation == ConfigOperation.APPEND else there)
    assert took_s < 0.1


@pytest.mark.parametrize("operation", [ConfigOperation.APPEND, ConfigOperation.SUBTRACT])
def test_only_lists_can_be_appended_to(operation: int) -> None:
    assert code(after(ConfigChange("retention.ms", "1", operation))) == ErrorCode.INVALID_CONFIG


def test_a_null_value_and_a_double_name_and_an_unknown_operation_are_invalid_requests() -> None:
    assert code(after(ConfigChange("retention.ms", None))) == ErrorCode.INVALID_REQUEST
    assert code(after(ConfigChange("a", "1"), ConfigChange("a", "2"))) == ErrorCode.INVALID_REQUEST
    assert code(after(ConfigChange("a", "1", 4))) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such": "1"},
        {"retention.ms": "soon"},
        {"cleanup.policy": "burn"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
    ],
)
def test_a_topic_config_that_makes_no_sense_is_invalid(configs: dict[str, str]) -> None:
    assert code(check_topic_configs(configs, defaults=DEFAULTS)) == ErrorCode.INVALID_CONFIG


def test_an_internal_topic_stays_compacted() -> None:
    fixed = fixed_configs("__transaction_state")
    assert code(check_topic_configs({}, defaults=DEFAULTS, fixed=fixed)) == ErrorCode.INVALID_CONFIG
    both = {"cleanup.policy": "compact,delete"}
    assert code(check_topic_configs(both, defaults=DEFAULTS, fixed=fixed)) == ErrorCode.INVALID_CONFIG
    assert check_topic_configs({"cleanup.policy": "compact"}, defaults=DEFAULTS, fixed=fixed) is None


@pytest.mark.parametrize(
    "change", [{"cleanup.policy": "compact"}, {"retention.ms": "1000"}, {"retention.bytes": "1"}, {}]
)
def test_nothing_deletes_from_the_topic_of_share_groups_but_its_coordinator(change: dict[str, str]) -> None:
    fixed = dict(fixed_configs("__share_group_state"))
    assert check_topic_configs(fixed, defaults=DEFAULTS, fixed=fixed) is None
    changed = fixed | change if change else {}
    assert code(check_topic_configs(changed, defaults=DEFAULTS, fixed=fixed)) == ErrorCode.INVALID_CONFIG


def test_only_the_defaults_of_topics_and_what_is_about_dead_letters_change_without_a_restart() -> None:
    assert "log.retention.ms" in DYNAMIC_BROKER_SETTINGS
    assert check_broker_configs({"log.retention.ms": "5"}) is None
    assert check_broker_configs({"errors.deadletterqueue.topic.name.prefix": "dead-"}) is None
    assert check_broker_configs({"errors.deadletterqueue.auto.create.topics.enable": "true"}) is None
    for configs in ({"node.id": "2"}, {"log.retention.ms": "x"}, {"group.share.max.size": "9"}, {"no.such": "1"}):
        assert code(check_broker_configs(configs)) == ErrorCode.INVALID_REQUEST


def test_a_brokers_own_change_wins_over_everyones_and_that_over_the_start() -> None:
    config = BrokerConfig(log_retention_ms=7)
    assert topic_defaults(config).retention_ms == 7
    assert topic_defaults(config, {"log.retention.ms": "8"}, {}).retention_ms == 8
    assert topic_defaults(config, {"log.retention.ms": "8"}, {"log.retention.ms": "9"}).retention_ms == 9


def test_a_config_that_has_become_unusable_is_left_out_and_told() -> None:
    log_config, complaints = tolerant_overrides(DEFAULTS, {"gone.config": "1", "retention.ms": "5"})
    assert log_config.retention_ms == 5
    assert complaints == ["Unknown topic config name: gone.config"]
