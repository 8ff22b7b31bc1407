"""When a coordinator is elected for a partition, and when it resigns (cluster.md 6.3)."""

import pytest

from eosin.cluster.joined.coordinator_elections import CoordinatorElections
from eosin.model.cluster import PartitionState
from eosin.protocol.names import TopicPartition

HERE, THERE, NOBODY = 1, 2, -1


def state(leader_id: int, leader_epoch: int) -> PartitionState:
    return PartitionState(leader_id, leader_epoch, (HERE, THERE), (HERE, THERE), ())


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, state(HERE, 0), ["elect 3"]),
        (state(THERE, 4), state(HERE, 5), ["elect 3"]),
        (state(HERE, 4), state(HERE, 5), ["elect 3"]),
        (state(HERE, 4), state(HERE, 4), []),
        (state(HERE, 4), state(THERE, 5), ["resign 3"]),
        (state(HERE, 4), state(NOBODY, 5), ["resign 3"]),
        (state(HERE, 4), None, ["resign 3"]),
        (state(THERE, 4), state(NOBODY, 5), []),
        (state(THERE, 4), None, []),
    ],
)
def test_a_new_leader_epoch_elects_and_only_a_lost_leadership_resigns(
    before: PartitionState | None, after: PartitionState | None, told: list[str]
) -> None:
    heard: list[str] = []
    elections = CoordinatorElections(
        "__transaction_state",
        node_id=HERE,
        elect=lambda index: heard.append(f"elect {index}"),
        resign=lambda index: heard.append(f"resign {index}"),
    )
    elections.partition_changed(TopicPartition("__consumer_offsets", 3), before, after)
    assert not heard
    elections.partition_changed(TopicPartition("__transaction_state", 3), before, after)
    assert heard == told


def test_a_log_that_comes_late_elects() -> None:
    heard: list[int] = []
    elections = CoordinatorElections("__transaction_state", node_id=HERE, elect=heard.append, resign=heard.append)
    elections.led_late(TopicPartition("__consumer_offsets", 3))
    elections.led_late(TopicPartition("__transaction_state", 3))
    assert heard == [3]
