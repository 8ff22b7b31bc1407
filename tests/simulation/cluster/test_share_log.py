"""The judge of stored states of share partitions passes what a share coordinator writes, and objects to what it may
not."""

import pytest

from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_state.rules.records import Change, StateSnapshot, StateUpdate
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.records.batch import build_batch
from simulation.cluster.share_log import judged

PARTITION = SharePartition("g", b"i" * 16, 0)
AVAILABLE, DONE, DYING = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVING


def snapshot(*batches: StateBatch, start: int = 4, state_epoch: int = 3, leader_epoch: int = 1) -> StateSnapshot:
    return StateSnapshot(1, state_epoch, leader_epoch, start, 0, 0, 0, batches)


def update(*batches: StateBatch, start: int = -1, leader_epoch: int = 1) -> StateUpdate:
    return StateUpdate(1, leader_epoch, start, 0, batches)


def objections(*changes: Change) -> list[str]:
    """Of a log that begins with the state of a partition whose records 5 and 6 were released and accepted."""
    begun = snapshot(StateBatch(5, 5, AVAILABLE, 2), StateBatch(6, 6, DONE, 1))
    logged = [bytes(build_batch([encoded(PARTITION, each)], timestamp=0)) for each in (begun, *changes)]
    moved = [offset.to_bytes(8, "big") + data[8:] for offset, data in enumerate(logged)]
    return list(judged(enumerate(moved)))


@pytest.mark.parametrize(
    "change",
    [
        update(StateBatch(5, 5, DONE, 2), start=5, leader_epoch=2),
        update(StateBatch(5, 6, AVAILABLE, 1)),  # late: what is there has more weight
        snapshot(StateBatch(5, 5, AVAILABLE, 2), StateBatch(6, 6, DONE, 1), start=5),
        snapshot(start=7),
        snapshot(start=0, state_epoch=4),  # an administrator's
        update(StateBatch(7, 9, DYING, 5)),
        None,
    ],
    ids=repr,
)
def test_what_a_coordinator_may_write(change: Change) -> None:
    assert objections(change) == []


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        (update(start=3), "the start went from 4 to 3"),
        (
            snapshot(StateBatch(5, 5, AVAILABLE, 2), StateBatch(6, 6, DONE, 1), start=3),
            "the start went from 4 to 3",
        ),
        (update(leader_epoch=0), "the leader epoch went from 1 to 0"),
        (snapshot(start=9, state_epoch=2), "the state epoch went from 3 to 2"),
        (update(StateBatch(6, 6, AVAILABLE, 2)), "the record 6 was ACKNOWLEDGED, and is AVAILABLE"),
        (snapshot(StateBatch(5, 5, AVAILABLE, 2)), "the record 6 was ACKNOWLEDGED, and is AVAILABLE"),
        (snapshot(StateBatch(6, 6, DONE, 1)), "the count of 5 went from 2 to 0"),
        (snapshot(StateBatch(5, 6, DONE, 1)), "the count of 5 went from 2 to 1"),
    ],
)
def test_what_it_may_not(change: Change, objection: str) -> None:
    (found,) = objections(change)
    assert found == f"{objection} at 1 of the states of g-0"


def test_nothing_is_known_behind_a_gap() -> None:
    data = bytes(build_batch([encoded(PARTITION, snapshot(start=4))], timestamp=0))
    later = bytes(build_batch([encoded(PARTITION, snapshot(start=2))], timestamp=0))
    assert list(judged([(0, data), (5, later)])) == []
