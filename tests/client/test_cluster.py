"""A cluster as its operator sees it, from what brokers tell."""

import pytest

from eosin.cli.cluster import broker_rows, partition_row
from eosin.cli.common.remote_commands import table
from eosin.client.cluster import BrokerInfo, ClusterState, PartitionReplicas, lags, log_ends
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

ORDERS = TopicPartition("orders", 0)


def partition(
    *,
    leader: int = 1,
    in_sync: tuple[int, ...] = (1, 2, 3),
    min_in_sync: int | None = None,
    log_ends: dict[int, int] | None = None,
    **behind: int,
) -> PartitionReplicas:
    lags = {int(node[1:]): lag for node, lag in behind.items()}
    return PartitionReplicas(ORDERS, leader, 4, (1, 2, 3), in_sync, min_in_sync, lags, log_ends or {})


def broker(node_id: int, *, is_fenced: bool = False, is_silent: bool = False) -> BrokerInfo:
    return BrokerInfo(node_id, f"host-{node_id}", 9092, None, is_fenced, is_silent, 0)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (partition(), "ok"),
        (partition(in_sync=(1, 2)), "under-replicated"),
        (partition(in_sync=(1, 2), min_in_sync=2), "under-replicated"),
        (partition(in_sync=(1,), min_in_sync=2), "under min ISR"),
        (partition(in_sync=(), leader=-1), "offline"),
        (partition(leader=-1), "offline"),
    ],
)
def test_a_partition_s_state_is_the_worst_that_is_wrong_with_it(found: PartitionReplicas, state: str) -> None:
    assert found.state == state


def test_a_follower_lacks_what_its_leader_has_beyond_its_end() -> None:
    ends = {1: {ORDERS: 100}, 2: {ORDERS: 70}, 3: {ORDERS: 101}}
    assert lags(partition(), ends) == {2: 30, 3: 0}


def test_the_lag_of_a_follower_that_does_not_tell_its_end_is_not_known() -> None:
    assert lags(partition(), {1: {ORDERS: 100}, 2: None, 3: {}}) == {}
    assert lags(partition(), {1: None, 2: {ORDERS: 5}, 3: {ORDERS: 5}}) == {}
    assert lags(partition(leader=-1), {2: {ORDERS: 5}, 3: {ORDERS: 5}}) == {}


def test_a_broker_s_row_counts_what_it_leads_holds_and_lacks() -> None:
    found = ClusterState(
        (broker(1), broker(2), broker(3, is_fenced=True), broker(4, is_silent=True)),
        (partition(in_sync=(1, 2), _2=30), partition(leader=2, in_sync=(2, 1), _1=4)),
    )
    rows = broker_rows(found)
    columns = ("state", "leads", "replicas", "out_of_sync", "without_leader", "lag")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("alive", 1, 2, 0, 0, 4),
        ("alive", 1, 2, 0, 0, 30),
        ("fenced", 0, 2, 2, 0, None),
        ("silent", 0, 0, 0, 0, 0),
    ]


def test_a_broker_that_is_gone_has_a_row_as_long_as_it_has_replicas_and_nobody_s_partitions_are_counted() -> None:
    found = ClusterState((broker(1), broker(2)), (partition(leader=-1, in_sync=(3,)), partition(leader=1)))
    rows = broker_rows(found)
    columns = ("node_id", "address", "state", "leads", "replicas", "out_of_sync", "without_leader")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        (1, "host-1:9092", "alive", 1, 2, 1, 1),
        (2, "host-2:9092", "alive", 0, 2, 1, 1),
        (3, None, "unregistered", 0, 2, 0, 1),
    ]


def test_a_partition_that_nobody_leads_shows_where_each_copy_ends() -> None:
    ends = {1: {ORDERS: 0}, 2: {ORDERS: 500}, 3: None}
    assert log_ends(partition(leader=-1), ends) == {1: 0, 2: 500}
    assert log_ends(partition(leader=3), ends) == {1: 0, 2: 500}, "its leader does not answer"
    assert log_ends(partition(leader=1), ends) == {}
    row = partition_row(partition(leader=-1, log_ends={1: 0, 2: 500}))
    assert table([{"log_end": row["log_end"]}], {"log_end": "LOG END"}) == ["LOG END", "1=0, 2=500"]


def test_lags_are_shown_by_broker() -> None:
    row = partition_row(partition(_2=30, _3=0))
    assert row["lag"] == {"2": 30, "3": 0}
    assert table([{"lag": row["lag"]}, {"lag": {}}], {"lag": "LAG"}) == ["LAG", "2=30, 3=0", "-"]
