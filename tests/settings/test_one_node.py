"""A node of Kafka that is broker and controller in one runs alone, from a file of settings too."""

import pytest

from eosin.node.configuration import load_config
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig

KAFKAS_OWN = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
num.partitions=2
offsets.topic.replication.factor=1
"""
"""The settings of the file that Kafka brings along."""


def loaded(more: str = "") -> LoadedConfig:
    return load_config(properties=KAFKAS_OWN + more)


def test_kafkas_own_file_makes_a_broker_that_runs_alone() -> None:
    config = loaded().config
    assert not config.is_joined
    assert config.listeners == ("PLAINTEXT://:9092",)
    assert config.advertised_listeners == ("PLAINTEXT://localhost:9092",)
    assert (config.num_partitions, config.log_dirs) == (2, ("/tmp/kraft-combined-logs",))


def test_only_the_settings_without_use_are_named() -> None:
    assert loaded().warnings == ("Kafka settings that Eosin does not use: num.network.threads",)


def test_the_image_is_needed_for_open_listeners_to_be_implied() -> None:
    assert not loaded().config.eosin_allow_open_listeners


def test_its_own_voter_is_dropped_and_any_other_is_refused() -> None:
    assert not loaded("controller.quorum.voters=1@localhost:9093").config.is_joined
    with pytest.raises(SettingError, match="only controller, not '2'"):
        loaded("controller.quorum.voters=2@localhost:9093")
    with pytest.raises(SettingError, match="Eosin is a broker only"):
        loaded("controller.quorum.voters=1@a:9093,2@b:9093")


def test_a_listener_of_all_addresses_gets_the_name_of_the_machine() -> None:
    host = loaded("advertised.listeners=").config.advertised_listeners[0]
    assert host.startswith("PLAINTEXT://")
    assert host.endswith(":9092")
    assert len(host) > len("PLAINTEXT://:9092")


def test_a_controller_alone_is_refused() -> None:
    with pytest.raises(SettingError, match="Eosin has no controller"):
        load_config(properties="process.roles=controller")


def test_a_broker_alone_may_have_any_cluster_id() -> None:
    assert load_config(flags={"eosin.cluster.id": "test-cluster"}).config.eosin_cluster_id == "test-cluster"
    for text in ("", "a b", "x" * 65):
        with pytest.raises(SettingError, match=r"eosin\.cluster\.id must be 1 to 64"):
            load_config(flags={"eosin.cluster.id": text})
