"""The producer and the consumer of Apache Kafka's own system tests agree on every record."""

import json
from typing import Any

from real_clients.tools import KafkaScripts, Ran
from scenario import Scenario

COUNT = 500


def told(ran: Ran, name: str) -> list[dict[str, Any]]:
    """The events of that name, among the lines of JSON that such a client prints."""
    events = [json.loads(line) for line in ran.lines if line.startswith("{")]
    return [event for event in events if event["name"] == name]


def test_the_verifiable_consumer_reads_all_that_the_verifiable_producer_was_acknowledged(
    tools: KafkaScripts, scenario: Scenario
) -> None:
    topic, group, count = scenario.topic(3), scenario.name("group"), ("--max-messages", str(COUNT))
    produced = tools.alone("kafka-verifiable-producer", "--topic", topic, *count, "--acks", "-1")
    (summary,) = told(produced, "tool_data")
    assert (summary["sent"], summary["acked"]) == (COUNT, COUNT)
    places = sorted((each["partition"], each["offset"]) for each in told(produced, "producer_send_success"))
    assert len(set(places)) == COUNT

    options = ("--group-id", group, "--reset-policy", "earliest", "--verbose")
    consumed = tools.run("kafka-verifiable-consumer", "--topic", topic, *count, *options)
    read = sorted((each["partition"], each["offset"]) for each in told(consumed, "record_data"))
    assert read == places
    assert sum(each["count"] for each in told(consumed, "records_consumed")) == COUNT
    assert all(each["success"] for each in told(consumed, "offsets_committed"))
