"""The table of leaders: where partitions begin, who is elected, what a snapshot keeps."""

import pytest

from eosin.lab.nodes.table import NodeState, NodeTable
from eosin.model.cluster import NO_LEADER
from eosin.protocol.names import TopicPartition

ORDERS = [TopicPartition("orders", index) for index in range(4)]


def leaders(table: NodeTable) -> list[int]:
    return [table.leader(each) for each in ORDERS]


def test_partitions_begin_at_one_node_after_the_other() -> None:
    assert leaders(NodeTable(3)) == [1, 2, 3, 1]
    assert leaders(NodeTable(1)) == [1, 1, 1, 1]


def test_an_election_makes_the_epoch_of_its_partition_higher_and_no_other() -> None:
    table = NodeTable(3)
    table.elect(ORDERS[0], 3)
    table.elect(ORDERS[0], 3)
    assert leaders(table) == [3, 2, 3, 1]
    assert [table.elections(each) for each in ORDERS] == [2, 0, 0, 0]


def test_the_next_node_leads_what_a_dead_one_has_led() -> None:
    table = NodeTable(3)
    table.down.add(3)
    assert table.fence(3, ORDERS) == [ORDERS[2]]
    assert (leaders(table), table.live) == ([1, 2, 1, 1], [1, 2])
    table.down.add(1)
    assert table.fence(1, ORDERS) == [ORDERS[0], ORDERS[2], ORDERS[3]]
    assert leaders(table) == [2, 2, 2, 2]
    assert table.elections(ORDERS[2]) == 2


def test_leaders_stay_where_they_are_when_a_node_comes_back() -> None:
    table = NodeTable(3)
    table.fence(3, ORDERS)
    assert table.unfence(3, ORDERS) == []
    assert leaders(table) == [1, 2, 1, 1]


def test_the_last_node_that_dies_leaves_no_leader_and_the_first_to_come_back_leads() -> None:
    table = NodeTable(2)
    for node in (1, 2):
        table.down.add(node)
        table.fence(node, ORDERS)
    assert leaders(table) == [NO_LEADER] * 4
    assert table.unfence(2, ORDERS) == ORDERS
    assert leaders(table) == [2] * 4


def test_a_new_partition_is_placed_at_a_node_that_is_there() -> None:
    table = NodeTable(3)
    table.fence(1, [])
    table.place(ORDERS[0])
    assert table.leader(ORDERS[0]) == 2
    table.unfence(1, ORDERS)
    assert table.leader(ORDERS[0]) == 2


def test_a_topic_that_is_deleted_leaves_nothing() -> None:
    table = NodeTable(3)
    table.elect(ORDERS[0], 3)
    table.forget("orders")
    assert (table.leader(ORDERS[0]), table.elections(ORDERS[0])) == (1, 0)


def test_a_snapshot_keeps_leaders_epochs_and_the_dead() -> None:
    table = NodeTable(3)
    table.elect(ORDERS[0], 3)
    table.down.add(2)
    table.fence(2, ORDERS)
    other = NodeTable(3)
    other.paused.add(1)
    other.adopt(table.state())
    assert leaders(other) == leaders(table)
    assert other.elections(ORDERS[0]) == 1
    assert (other.down, other.fenced, other.paused) == ({2}, {2}, set())


@pytest.mark.parametrize("count", [1, 2])
def test_a_snapshot_of_more_nodes_fits_into_fewer(count: int) -> None:
    table = NodeTable(3)
    table.elect(ORDERS[0], 3)
    table.elect(ORDERS[1], 1)
    fewer = NodeTable(count)
    fewer.adopt(table.state())
    assert leaders(fewer)[:2] == [1, 1]
    assert fewer.elections(ORDERS[0]) == 1


def test_a_table_that_has_not_changed_has_nothing_to_keep() -> None:
    assert NodeTable(3).state() == NodeState()
