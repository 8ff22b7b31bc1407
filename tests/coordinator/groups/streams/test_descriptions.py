"""Descriptions of topologies: who is asked for one, and what is kept (KIP-1331; streams-groups.md 9.1)."""

import pytest
from streams_cluster import COUNTING, TOPOLOGY, Cluster

from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.rules.description import MOST_PATIENCE_MS, PATIENCE_MS
from eosin.coordinator.groups.streams.rules.events import StreamsResult, TopologyDescribed
from eosin.coordinator.groups.streams.rules.group import NO_DESCRIPTION, Description
from eosin.protocol.errors import ErrorCode

MOST = 10
LIMITED = StreamsGroupConfig(
    assignment_interval_ms=0, initial_rebalance_delay_ms=0, eosin_topology_description_max_bytes=MOST
)


def describe(cluster: Cluster, member_id: str = "m", epoch: int = 0, data: bytes = b"text") -> StreamsResult:
    found = cluster.happens(TopologyDescribed(member_id, epoch, data))
    assert found is not None
    assert cluster.kinds == [], "it is in memory alone"
    return found


def test_one_member_is_asked_and_another_when_it_did_not_answer_and_nobody_once_it_did() -> None:
    cluster = Cluster()
    assert cluster.join("m").asks_for_description
    assert not cluster.join("n").asks_for_description
    cluster.now_ms += PATIENCE_MS
    assert cluster.beat("n", 3).asks_for_description
    cluster.now_ms += PATIENCE_MS
    assert not cluster.beat("m", 2).asks_for_description, "the second one has twice as long"
    assert describe(cluster).error is ErrorCode.NONE
    assert cluster.group.description == Description(0, b"text")
    cluster.now_ms += MOST_PATIENCE_MS
    assert not cluster.beat("m", 2).asks_for_description


def test_a_clock_that_goes_back_delays_nothing_for_ever() -> None:
    cluster = Cluster()
    cluster.join("m")
    cluster.now_ms -= 2 * MOST_PATIENCE_MS
    assert cluster.beat("m", 2).asks_for_description


def test_members_of_version_0_and_those_with_an_older_topology_are_not_asked() -> None:
    cluster = Cluster()
    assert not cluster.join("m", TOPOLOGY._replace(epoch=1), version=0).asks_for_description
    assert not cluster.join("n").asks_for_description, "it is stale"
    assert cluster.beat("m", 2).asks_for_description


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("x", 0, ErrorCode.UNKNOWN_MEMBER_ID), ("m", 1, ErrorCode.INVALID_REQUEST)],
)
def test_descriptions_of_strangers_and_of_other_topologies_are_refused(
    member_id: str, epoch: int, error: ErrorCode
) -> None:
    cluster = Cluster()
    cluster.join("m")
    assert describe(cluster, member_id, epoch).error is error
    assert cluster.group.description.data == b""


def test_a_description_that_is_too_long_is_refused_once_and_not_asked_for_again() -> None:
    cluster = Cluster(LIMITED)
    cluster.join("m")
    assert describe(cluster, data=b"-" * MOST).error is ErrorCode.NONE
    assert describe(cluster, data=b"-" * (MOST + 1)).error is ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    cluster = Cluster(LIMITED)
    cluster.join("m")
    describe(cluster, data=b"-" * (MOST + 1))
    cluster.now_ms += MOST_PATIENCE_MS
    assert not cluster.beat("m", 2).asks_for_description


def test_another_topology_is_described_anew() -> None:
    cluster = Cluster(words=4, counts=4)
    cluster.join("m")
    describe(cluster)
    answer = cluster.join("m", COUNTING._replace(epoch=1))
    assert answer.error is ErrorCode.NONE
    assert answer.asks_for_description
    assert cluster.group.description.data == b""


def test_nobody_is_asked_where_descriptions_are_switched_off() -> None:
    cluster = Cluster(StreamsGroupConfig(initial_rebalance_delay_ms=0, eosin_topology_description_max_bytes=0))
    assert not cluster.join("m").asks_for_description
    assert cluster.group.description == NO_DESCRIPTION
