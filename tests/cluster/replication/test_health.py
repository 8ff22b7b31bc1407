"""Partitions in danger are told in one line when their number changes (cluster.md 14)."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from cluster_images import delta, image, partition, topic

from eosin.cluster.quorum.rules.image import PartitionRegistration
from eosin.cluster.replication.health import InDanger, ReplicationHealth
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TopicPartition

ORDERS = TopicPartition("orders", 0)
HERE = 1
NONE = InDanger()


def led(*in_sync: int) -> PartitionRegistration:
    """A partition of three replicas that this broker leads."""
    return partition(HERE, replicas=(1, 2, 3), isr=in_sync or (1, 2, 3))


class Watched:
    """A broker whose one partition changes."""

    def __init__(self) -> None:
        self.min_in_sync = 2
        self._image = image(topic(led()))
        self.health = ReplicationHealth(HERE, self._image, min_in_sync=lambda topic: self.min_in_sync)

    def becomes(self, registration: PartitionRegistration | None) -> InDanger:
        after = image() if registration is None else image(topic(registration))
        self.health.apply(delta(self._image, after, ORDERS))
        self._image = after
        return self.health.counts

    def configs_change(self, kind: ConfigResourceType, name: str) -> InDanger:
        change: Any = replace(delta(self._image, self._image), configs_changed=frozenset({(kind, name)}))
        self.health.apply(change)
        return self.health.counts


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (led(), NONE),
        (led(1, 2), InDanger(under_replicated=1)),
        (led(1), InDanger(under_replicated=1, under_min_isr=1)),
        (partition(-1, replicas=(1, 2), isr=(2,)), InDanger(leaderless=1)),
        (partition(-1, replicas=(2, 3)), NONE),
        (partition(2, replicas=(1, 2, 3), isr=(2,)), NONE),
        (None, NONE),
    ],
)
def test_a_partition_counts_where_this_broker_has_to_do_with_it(
    found: PartitionRegistration | None, counts: InDanger
) -> None:
    watched = Watched()
    assert watched.becomes(led(1)) == InDanger(1, 1, 0)
    assert watched.becomes(found) == counts
    if found is not None:
        assert ReplicationHealth(HERE, image(topic(found)), min_in_sync=lambda _: 2).counts == counts


@pytest.mark.parametrize(("kind", "name"), [(ConfigResourceType.TOPIC, "orders"), (ConfigResourceType.BROKER, "")])
def test_another_minimum_counts_at_once(kind: ConfigResourceType, name: str) -> None:
    watched = Watched()
    watched.becomes(led(1, 2))
    watched.min_in_sync = 3
    assert watched.configs_change(ConfigResourceType.TOPIC, "another") == InDanger(under_replicated=1)
    assert watched.configs_change(kind, name) == InDanger(under_replicated=1, under_min_isr=1)


def test_one_line_tells_of_a_change_and_one_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched()
    watched.health.log_counts()
    watched.becomes(led(1))
    watched.health.log_counts()
    watched.health.log_counts()
    watched.becomes(led())
    watched.becomes(led(1, 2))
    watched.becomes(led())
    watched.health.log_counts()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "WARNING",
            "of the partitions that this broker leads, 1 lack a replica in sync, and 1 are below min.insync.replicas;"
            " 0 of its partitions have no leader",
        ),
        ("INFO", "every partition of this broker has a leader and all its replicas in sync"),
    ]
