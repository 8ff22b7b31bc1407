"""A cluster as its operator sees it, from what brokers tell."""

import pytest

from eosin.broker.cli.cluster import broker_rows, partition_row
from eosin.broker.cli.remote_commands import table
from eosin.client.cluster import BrokerState, ClusterState, PartitionReplicas, lags
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

ORDERS = TopicPartition("orders", 0)


def partition(
    *, leader: int = 1, in_sync: tuple[int, ...] = (1, 2, 3), min_in_sync: int | None = None, **behind: int
) -> PartitionReplicas:
    return PartitionReplicas(
        ORDERS, leader, 4, (1, 2, 3), in_sync, min_in_sync, {int(node[1:]): lag for node, lag in behind.items()}
    )


def broker(node_id: int, *, is_fenced: bool = False, is_silent: bool = False) -> BrokerState:
    return BrokerState(node_id, f"host-{node_id}", 9092, None, is_fenced, is_silent, 0)


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
    assert [(row["state"], row["leads"], row["replicas"], row["out_of_sync"], row["lag"]) for row in rows] == [
        ("alive", 1, 2, 0, 4),
        ("alive", 1, 2, 0, 30),
        ("fenced", 0, 2, 2, None),
        ("silent", 0, 0, 0, 0),
    ]


def test_lags_are_shown_by_broker() -> None:
    row = partition_row(partition(_2=30, _3=0))
    assert row["lag"] == {"2": 30, "3": 0}
    assert table([{"lag": row["lag"]}, {"lag": {}}], {"lag": "LAG"}) == ["LAG", "2=30, 3=0", "-"]
