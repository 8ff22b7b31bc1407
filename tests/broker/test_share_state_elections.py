"""A share coordinator follows the leaders of its topic's partitions (share-state.md 4)."""

from types import SimpleNamespace
from typing import Any

import pytest
from group_fakes import FakeOffsetsLogs
from manual_clock import ManualClock

from eosin.broker.share_states import ShareStates
from eosin.coordinator.share_states import SharePartition
from eosin.model.cluster import ClusterListener, PartitionState, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, TopicPartition
from eosin.runtime.chance import SeededChance
from eosin.settings.broker import BrokerConfig

TOPIC = Topic("orders", b"x" * 16, 1)
STATE = SharePartition("group", TOPIC.topic_id, 0)
STATES = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)


def led(leader_id: int, leader_epoch: int, isr: tuple[int, ...] = (1, 2)) -> PartitionState:
    return PartitionState(leader_id, leader_epoch, (1, 2), isr, ())


class World:
    """Broker 1, which has led the only partition of the states in epoch 5."""

    def __init__(self) -> None:
        self.logs = FakeOffsetsLogs()
        self.listeners: list[ClusterListener] = []
        cluster: Any = SimpleNamespace(
            node_id=1,
            topic_by_id={TOPIC.topic_id: TOPIC}.get,
            leader_epoch=lambda partition: 0,
            subscribe=self.listeners.append,
            want_internal_topic=lambda name: None,
        )
        partitions: Any = SimpleNamespace(share_group_state_logs=self.logs)
        self.states = ShareStates(
            cluster=cluster, partitions=partitions, clock=ManualClock(), chance=SeededChance(1), config=BrokerConfig()
        )

    async def begin(self) -> None:
        coordinator = self.states.coordinator
        assert await coordinator.initialize(STATE, state_epoch=1, start_offset=-1) is ErrorCode.NONE

    def change(self, before: PartitionState | None, after: PartitionState | None, at: TopicPartition = STATES) -> None:
        (listener,) = self.listeners
        listener.partition_changed(at, before, after)

    @property
    def keeps(self) -> bool:
        return self.states.coordinator.states == 1


def test_nobody_is_followed_before_a_state_is_asked_for() -> None:
    assert World().listeners == []


@pytest.mark.parametrize(
    ("after", "keeps"),
    [(led(1, 5, isr=(1,)), True), (led(1, 6), False), (led(2, 6), False), (led(-1, 6), False), (None, False)],
)
async def test_a_partition_is_read_anew_after_each_election_and_after_nothing_else(
    after: PartitionState | None, keeps: bool
) -> None:
    world = World()
    await world.begin()
    world.change(led(1, 5), after)
    assert world.keeps is keeps


async def test_elections_of_other_topics_change_nothing() -> None:
    world = World()
    await world.begin()
    world.change(led(1, 5), led(2, 6), TopicPartition("orders", 0))
    assert world.keeps


async def test_a_deleted_topic_takes_its_states_along() -> None:
    world = World()
    await world.begin()
    (listener,) = world.listeners
    listener.topic_deleted(TOPIC)
    assert not world.keeps
