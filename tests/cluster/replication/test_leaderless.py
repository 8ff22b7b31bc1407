"""What the log says of a partition that nobody leads: how far each copy reaches, and what lets one of them lead."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_images import broker, delta, image, partition, topic
from manual_clock import ManualClock

from eosin.cluster.quorum.rules.image import LOST_DIRECTORY, NO_LEADER, PartitionRegistration, TopicImage
from eosin.cluster.replication.leaderless import MAX_REPORTED, PATIENCE_MS, LeaderlessPartitions
from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.sorted_map import SortedMap

pytestmark = pytest.mark.virtual

US = 1
OURS: Uuid = b"d" * 16
ORDERS = TopicPartition("orders", 0)


class Watched:
    """The copies of broker 1, of a partition on the brokers 1, 2 and 3."""

    def __init__(
        self, caplog: pytest.LogCaptureFixture, *, end: int = 500, ends: Mapping[int, int] | None = None
    ) -> None:
        self.clock = ManualClock()
        self.caplog = caplog
        self.end = end
        self.ends = ends or {}
        self.asked: list[tuple[int, tuple[TopicPartition, ...]]] = []
        self.when_asked: Callable[[], None] = lambda: None
        self.brokers = tuple(replace(broker(node), log_dirs=(OURS,)) for node in (1, 2))
        self.image = image(topic(placed(leader=2)), brokers=self.brokers)
        self.leaderless = LeaderlessPartitions(
            US, self.image, directory_id=OURS, log=self.log, ends=self, clock=self.clock
        )

    def log(self, partition: TopicPartition) -> Any:
        return SimpleNamespace(failure=None, log_end_offset=self.end)

    async def fetch(self, node_id: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked.append((node_id, tuple(partitions)))
        self.when_asked()
        return dict.fromkeys(partitions, self.ends[node_id]) if node_id in self.ends else {}

    def publish(self, registration: PartitionRegistration) -> None:
        after = image(topic(registration), brokers=self.brokers)
        self.leaderless.apply(delta(self.image, after, ORDERS))
        self.image = after

    async def told_after(self, wait_ms: int) -> list[str]:
        self.caplog.clear()
        self.clock.advance(wait_ms)
        await self.leaderless.check()
        assert all(each.levelno == logging.ERROR for each in self.caplog.records)
        return [each.getMessage() for each in self.caplog.records]


def placed(
    *, leader: int = NO_LEADER, isr: tuple[int, ...] = (), elr: tuple[int, ...] = (), own: Uuid = OURS
) -> PartitionRegistration:
    made = partition(leader, replicas=(1, 2, 3))
    return replace(made, isr=isr, elr=elr, directories=(own, OURS, OURS))


async def test_a_complete_copy_that_may_not_lead_is_told_with_the_others_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, ends={2: 480})
    watched.publish(placed(elr=(3,)))
    assert await watched.told_after(PATIENCE_MS - 1) == []
    (said,) = await watched.told_after(1)
    assert said.startswith(
        "orders-0 has no leader: the controllers wait for broker 3, known to be complete. This broker has a complete"
        " copy, as far as others can be asked, up to 500, and is not electable; broker 2 has one up to 480, broker 3"
        " cannot be asked. If no complete copy returns, an unclean election"
    )
    assert "--election-type unclean --topic orders --partition 0" in said
    assert watched.asked == [(2, (ORDERS,))]
    assert await watched.told_after(PATIENCE_MS) == []
    watched.publish(placed(leader=2, isr=(2,)))
    watched.publish(placed(elr=(3,)))
    assert len(await watched.told_after(PATIENCE_MS)) == 1, "it happened again"


async def test_a_copy_that_others_exceed_is_not_called_complete(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, end=470, ends={2: 480})
    watched.publish(placed())
    (said,) = await watched.told_after(PATIENCE_MS)
    assert "wait for a complete copy. This broker has a copy up to 470, and is not electable;" in said


async def test_a_copy_that_began_anew_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, end=0, ends={2: 480})
    watched.publish(placed(isr=(1,), own=LOST_DIRECTORY))
    (said,) = await watched.told_after(PATIENCE_MS)
    assert (
        "This broker has what it could copy since it lost its own, up to 0, and is not electable; broker 2 has" in said
    )


async def test_who_is_about_to_be_elected_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, ends={2: 480})
    watched.publish(placed(elr=(1, 3)))
    assert await watched.told_after(PATIENCE_MS) == []
    watched.publish(placed(isr=(1,)))
    assert await watched.told_after(PATIENCE_MS) == []


async def test_a_leader_that_comes_while_others_are_asked_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog)
    watched.publish(placed(elr=(3,)))
    watched.when_asked = lambda: watched.publish(placed(leader=2, isr=(2,)))
    assert await watched.told_after(PATIENCE_MS) == []
    assert watched.asked


async def test_many_partitions_without_a_leader_are_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(caplog, ends={2: 480})
    count = MAX_REPORTED + 15
    many = TopicImage("orders", b"o" * 16, SortedMap({index: placed(elr=(3,)) for index in range(count)}))
    watched.leaderless = LeaderlessPartitions(
        US, image(many, brokers=watched.brokers), directory_id=OURS, log=watched.log, ends=watched, clock=watched.clock
    )
    said = await watched.told_after(PATIENCE_MS)
    assert len(said) == MAX_REPORTED + 1
    assert said[-1].startswith("15 more partitions have no leader")
    assert len(watched.asked) == 1
