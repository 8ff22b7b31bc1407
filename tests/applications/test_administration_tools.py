"""Tools for what a cluster of many nodes needs find one node that has nothing to do, and say so."""

import json
from pathlib import Path

from real_clients.tools import KafkaScripts
from scenario import Scenario
from wire import unique


def test_leaders_that_lead_need_no_election(tools: KafkaScripts, scenario: Scenario) -> None:
    tools.run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    of_one = ("--topic", scenario.topic(), "--partition", "0")
    for kind in ("preferred", "unclean"):
        told = tools.run("kafka-leader-election", "--election-type", kind, *of_one).out
        assert "Valid replica already elected for partitions" in told


def test_a_reassignment_to_the_same_broker_is_complete_at_once(
    tools: KafkaScripts, scenario: Scenario, tmp_path: Path
) -> None:
    topic, to_move, plan = scenario.topic(2), tmp_path / "topics.json", tmp_path / "plan.json"
    to_move.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ("--generate", "--topics-to-move-json-file", str(to_move), "--broker-list", "1")
    plan.write_text(tools.run("kafka-reassign-partitions", *generate).lines[-1])
    of_plan = ("--reassignment-json-file", str(plan))
    done = tools.run("kafka-reassign-partitions", "--execute", *of_plan, "--throttle", "1000000").out
    assert "Successfully started partition reassignments for" in done
    told = tools.run("kafka-reassign-partitions", "--verify", *of_plan).out
    assert [f"Reassignment of partition {topic}-{index} is completed." in told for index in (0, 1)] == [True, True]
    assert "None of the specified partition reassignments are active" in (
        tools.run("kafka-reassign-partitions", "--cancel", *of_plan).out
    )


def test_a_feature_is_given_the_level_that_it_has(tools: KafkaScripts) -> None:
    assert "transaction.version" in tools.run("kafka-features", "describe").out
    told = tools.run("kafka-features", "upgrade", "--feature", "transaction.version=2").out
    assert "transaction.version was upgraded to 2." in told
    tools.run("kafka-features", "upgrade", "--feature", "transaction.version=9", code=1)


def test_an_entity_without_settings_of_its_own_is_described(tools: KafkaScripts) -> None:
    for kind in ("users", "clients", "ips", "groups", "client-metrics"):
        tools.run("kafka-configs", "--describe", "--entity-type", kind)
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    assert "root=" in tools.run("kafka-configs", "--describe", *loggers).out


def test_a_setting_of_kafkas_is_changed_and_described(tools: KafkaScripts) -> None:
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    tools.run("kafka-configs", "--alter", *of_broker, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tools.run("kafka-configs", "--describe", *of_broker).out
    tools.run("kafka-configs", "--alter", *of_broker, "--delete-config", "log.cleaner.threads")
    assert "log.cleaner.threads=2" not in tools.run("kafka-configs", "--describe", *of_broker).out
    every = tools.run("kafka-configs", "--describe", *of_broker, "--all").out
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:" in every


def test_without_an_authorizer_rights_are_neither_given_nor_taken(tools: KafkaScripts) -> None:
    right = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "any")
    for what in (("--add", *right), ("--remove", "--force", *right), ("--list",)):
        ran = tools.run("kafka-acls", *what, code=1)
        assert "SecurityDisabledException" in ran.out + ran.err


def test_kafka_configs_sets_describes_and_removes_a_quota(tools: KafkaScripts) -> None:
    entity = ("--entity-type", "users", "--entity-name", unique("quota"))
    tools.run("kafka-configs", "--alter", *entity, "--add-config", "producer_byte_rate=1024,request_percentage=50")
    told = tools.run("kafka-configs", "--describe", *entity).out
    assert "producer_byte_rate=1024.0" in told
    assert "request_percentage=50.0" in told
    tools.run("kafka-configs", "--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage")
    assert "producer_byte_rate" not in tools.run("kafka-configs", "--describe", *entity).out
