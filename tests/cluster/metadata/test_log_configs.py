"""The settings of each topic's logs."""

import pytest

from eosin.cluster.metadata.log_configs import LogConfigs
from eosin.model.cluster import Topic
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, ZERO_UUID
from eosin.settings.broker import BrokerConfig


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_an_internal_topic_is_compacted_whatever_a_controller_let_pass(
    policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of Apache Kafka take any policy (seen with 4.3.1), and retention would delete what is in use."""
    configs = {"cleanup.policy": policy, "retention.ms": "1"}
    topics = {
        CONSUMER_OFFSETS_TOPIC: Topic(CONSUMER_OFFSETS_TOPIC, ZERO_UUID, 1, configs, internal=True),
        "orders": Topic("orders", ZERO_UUID, 1, configs),
    }
    known = LogConfigs(BrokerConfig(), topics)
    assert known.of(CONSUMER_OFFSETS_TOPIC).cleanup_policy == {"compact"}
    assert known.of(CONSUMER_OFFSETS_TOPIC).retention_ms == 1
    assert known.of("orders").cleanup_policy == set(policy.split(","))
    assert "the cleanup.policy of an internal topic is always compact" in caplog.text


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "compact"}, {"retention.ms": "1000"}])
def test_nothing_but_its_coordinator_takes_records_from_the_topic_of_share_groups(configs: dict[str, str]) -> None:
    topics = {
        SHARE_GROUP_STATE_TOPIC: Topic(SHARE_GROUP_STATE_TOPIC, ZERO_UUID, 1, configs, internal=True),
    }
    found = LogConfigs(BrokerConfig(), topics).of(SHARE_GROUP_STATE_TOPIC)
    assert (found.cleanup_policy, found.retention_ms, found.retention_bytes) == ({"delete"}, -1, -1)
