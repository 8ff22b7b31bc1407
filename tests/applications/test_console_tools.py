"""Apache Kafka's console tools show an operator what is there, and do what they are told."""

import json
from typing import Any

import pytest
from real_clients.tools import KafkaScripts
from scenario import Scenario

QUIET_MS = "4000"
"""How long the console consumer waits for one more record before it ends."""


def consumed(tools: KafkaScripts, topic: str, isolation: str, *more: str) -> list[str]:
    """The values that the console consumer prints."""
    options = ("--isolation-level", isolation, "--timeout-ms", QUIET_MS, *more)
    return tools.run("kafka-console-consumer", "--topic", topic, *options).lines


def objects(text: str) -> list[dict[str, Any]]:
    """JSON objects that stand one behind the other."""
    found, at = [], 0
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
    return found


def test_topics_are_made_shown_grown_and_deleted(tools: KafkaScripts, scenario: Scenario) -> None:
    topic = scenario.name("topic")
    made = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    tools.run("kafka-topics", *made, "--config", "retention.ms=77777")
    assert topic in tools.run("kafka-topics", "--list").lines
    tools.run("kafka-topics", *made, "--if-not-exists")
    tools.run("kafka-topics", *made, code=1)

    tools.run("kafka-topics", "--alter", "--topic", topic, "--partitions", "3")
    first, *partitions = tools.run("kafka-topics", "--describe", "--topic", topic).lines
    assert "PartitionCount: 3" in first
    assert "retention.ms=77777" in first
    assert [f"Partition: {number}" in line for number, line in enumerate(partitions)] == [True] * 3
    assert all("Isr: " in line for line in partitions)
    for trouble in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert topic not in tools.run("kafka-topics", "--describe", trouble).out

    tools.run("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tools.run("kafka-topics", "--list").lines


def test_settings_of_a_topic_are_changed_and_changed_back(tools: KafkaScripts, scenario: Scenario) -> None:
    topic = ("--entity-type", "topics", "--entity-name", scenario.topic())
    tools.run(
        "kafka-configs", *topic, "--alter", "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]"
    )
    told = tools.run("kafka-configs", *topic, "--describe").out
    assert "retention.ms=1234567" in told
    assert "cleanup.policy=compact,delete" in told
    tools.run("kafka-configs", *topic, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=" not in tools.run("kafka-configs", *topic, "--describe").out
    assert "retention.ms=604800000" in tools.run("kafka-configs", *topic, "--describe", "--all").out
    assert "retention.ms" in tools.run("kafka-configs", *topic, "--alter", "--add-config", "retention.ms=x", code=1).err


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_console_producer_writes_what_the_console_consumer_reads(
    tools: KafkaScripts, scenario: Scenario, acks: str
) -> None:
    topic = scenario.topic()
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    tools.run("kafka-console-producer", "--topic", topic, "--request-required-acks", acks, *keyed, given="a:1\nb:2\n")
    printed = ("--from-beginning", "--property", "print.key=true", "--property", "print.offset=true")
    assert consumed(tools, topic, "read_committed", *printed) == ["Offset:0\ta\t1", "Offset:1\tb\t2"]


def test_the_console_consumer_reads_by_its_isolation_level(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, producer = scenario.topic(), scenario.transactional()
    for value, end in ((b"committed", producer.commit), (b"aborted", producer.abort), (b"open", producer.flush)):
        producer.begin()
        producer.send(topic, value)
        producer.flush()
        end()
    assert consumed(tools, topic, "read_committed", "--from-beginning") == ["committed"]
    assert consumed(tools, topic, "read_uncommitted", "--from-beginning") == ["committed", "aborted", "open"]
    producer.commit()
    assert consumed(tools, topic, "read_committed", "--from-beginning") == ["committed", "open"]


def test_offsets_count_records_and_markers(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, producer = scenario.topic(2), scenario.transactional()
    producer.begin()
    for number in range(3):
        producer.send(topic, b"%d" % number, partition=0)
    producer.commit()

    def offsets(*options: str) -> list[str]:
        return tools.run("kafka-get-offsets", "--topic", topic, *options).lines

    assert offsets() == [f"{topic}:0:4", f"{topic}:1:0"]
    assert offsets("--time", "earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("--partitions", "0", "--exclude-internal-topics") == [f"{topic}:0:4"]


def test_groups_are_listed_described_reset_and_deleted(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    producer = scenario.transactional()
    for number in range(3):
        producer.begin()
        producer.send(topic, b"%d" % number)
        producer.commit()
    consumed(tools, topic, "read_committed", "--from-beginning", "--group", group)
    assert group in tools.run("kafka-consumer-groups", "--list").lines
    of_it = ("--group", group)
    (described,) = tools.run("kafka-consumer-groups", "--describe", *of_it).table
    assert (described["CURRENT-OFFSET"], described["LOG-END-OFFSET"], described["LAG"]) == ("6", "6", "0")
    (state,) = tools.run("kafka-consumer-groups", "--describe", *of_it, "--state").lines[1:]
    assert "Empty" in state

    to_two = ("--reset-offsets", *of_it, "--topic", topic, "--to-offset", "2", "--execute")
    assert tools.run("kafka-consumer-groups", *to_two).table[0]["NEW-OFFSET"] == "2"
    assert consumed(tools, topic, "read_committed", "--group", group) == ["1", "2"]
    tools.run("kafka-consumer-groups", "--delete-offsets", *of_it, "--topic", topic)
    tools.run("kafka-consumer-groups", "--delete", *of_it)
    assert group not in tools.run("kafka-consumer-groups", "--list").lines


def test_committed_offsets_are_decoded_from_their_topic(tools: KafkaScripts, scenario: Scenario) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    scenario.consumer(group=group).commit({(topic, 0): 7})
    with_offsets = scenario.consumer(group=group)
    producer = scenario.transactional()
    producer.begin()
    producer.send_offsets({(topic, 0): 9}, with_offsets)
    producer.commit()
    formatter = ("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter", "--from-beginning")
    told = objects("".join(consumed(tools, "__consumer_offsets", "read_committed", *formatter)))
    key = {"group": group, "topic": topic, "partition": 0}
    assert [each["value"]["data"]["offset"] for each in told if each["key"]["data"] == key] == [7, 9]


def test_the_versions_that_the_broker_speaks_are_shown(tools: KafkaScripts) -> None:
    told = tools.run("kafka-broker-api-versions").out
    for api in ("Produce(0)", "Fetch(1)", "InitProducerId(22)", "AddPartitionsToTxn(24)", "EndTxn(26)"):
        assert api in told
    features = tools.run("kafka-features", "describe").out
    assert "Feature: transaction.version" in features
    assert "FinalizedVersionLevel: 2" in features
    for feature in ("group.version", "share.version", "streams.version"):
        assert f"Feature: {feature}" in features


def test_a_group_of_another_kind_is_no_share_group_and_classic_groups_stay_listed(
    tools: KafkaScripts, scenario: Scenario
) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    scenario.consumer(group=group).commit({(topic, 0): 0})
    assert [group, "Classic"] in [line.split()[:2] for line in tools.run("kafka-groups", "--list").lines]
    told = tools.run("kafka-share-groups", "--describe", "--group", group)
    assert f"Group {group} is not a share group" in told.out
