"""The admin calls that each client has."""

import contextlib

import pytest
from real_clients.base import ClientRefused
from real_clients.everyone import older_too
from scenario import Scenario
from waiting import wait_until


@older_too
def test_topics_are_created_listed_grown_and_deleted(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    wait_until(lambda: scenario.admin.topics().get(topic) == 3)  # Apache Kafka's own view may follow the answer
    scenario.admin.add_partitions(topic, 5)
    wait_until(lambda: scenario.admin.topics().get(topic) == 5)
    scenario.admin.delete_topic(topic)
    wait_until(lambda: topic not in scenario.admin.topics())


def test_a_topic_cannot_be_created_twice(scenario: Scenario) -> None:
    topic = scenario.topic()
    with pytest.raises(ClientRefused):
        scenario.admin.create_topic(topic)


def test_topic_settings_are_described_and_altered(scenario: Scenario) -> None:
    topic = scenario.topic(retention_ms="12345")
    assert scenario.admin.topic_config(topic, "retention.ms") == "12345"
    assert scenario.admin.topic_config(topic, "cleanup.policy") == "delete"
    scenario.admin.set_topic_config(topic, "retention.ms", "54321")
    wait_until(lambda: scenario.admin.topic_config(topic, "retention.ms") == "54321")


def test_an_unknown_topic_setting_is_refused(scenario: Scenario) -> None:
    with pytest.raises(ClientRefused):
        scenario.topic(no_such_setting="1")


def test_records_are_deleted_up_to_an_offset(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.producer()
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.flush()
    scenario.admin.delete_records(topic, 0, 7)
    reader = scenario.consumer()
    reader.assign({(topic, 0): 7})
    assert [each.value for each in reader.read(3)] == [b"7", b"8", b"9"]


def test_groups_are_listed_and_deleted_when_empty(scenario: Scenario) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    member = scenario.client.consumer(scenario.bootstrap, group=group)
    member.subscribe([topic])
    wait_until(lambda: member.read(1, timeout_s=0.3) or member.assignment())
    member.commit({(topic, 0): 0})
    assert group in scenario.admin.groups()
    if scenario.client.name != "aiokafka":  # it has no call that deletes a group
        with contextlib.suppress(ClientRefused):
            scenario.admin.delete_group(group)
        assert group in scenario.admin.groups(), "a group with members must not go"
    member.close()
    if scenario.client.name != "aiokafka":
        wait_until(lambda: _deleted(scenario, group))
        assert group not in scenario.admin.groups()


def _deleted(scenario: Scenario, group: str) -> bool:
    """Whether the group could be deleted; its last member's leave may still be on its way."""
    try:
        scenario.admin.delete_group(group)
    except ClientRefused:
        return False
    return True
