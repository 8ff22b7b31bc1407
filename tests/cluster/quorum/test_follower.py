"""The metadata follower against a quorum in memory: what it publishes, and when (cluster.md 3.6)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from quorum_log import HOST, LISTENER, QuorumLog
from waiting import until

from eosin.client.addresses import Address
from eosin.client.peer import Peer
from eosin.cluster.quorum import follower as follower_module
from eosin.cluster.quorum.follower import (
    SLICE_MS,
    ActiveController,
    MetadataFollower,
    ObserverConfig,
    QuorumLost,
    QuorumUnreadable,
)
from eosin.cluster.quorum.rules.image import ImageDelta
from eosin.protocol.schemas.records import quorum
from eosin.protocol.schemas.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.virtual

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
CONFIG = ObserverConfig(
    cluster_id="cluster",
    node_id=7,
    directory_id=ID,
    listener=LISTENER,
    bootstrap=(Address(HOST, 100), Address(HOST, 101)),
    retry_backoff_ms=1,
)
MV = FeatureLevelRecord("metadata.version", 30)
TOPIC = TopicRecord("orders", ID)
PARTITION = PartitionRecord(0, ID, replicas=(7,), isr=(7,), leader=7, leader_epoch=0, partition_epoch=0)


class SlowMachine(SystemClock):
    """Every look at the clock finds 5 ms gone."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.turns = 0

    def elapsed_ms(self) -> int:
        self.now += 5
        return self.now

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        self.turns += delay_ms == 0
        await super().sleep(delay_ms)


class Following:
    """A follower that runs, and what it has published."""

    def __init__(self, follower: MetadataFollower) -> None:
        self.follower = follower
        self.published: list[ImageDelta] = []
        follower.on_publication.append(self.published.append)
        self.task = asyncio.create_task(follower.run())

    async def until(self, is_so: Callable[[], bool]) -> None:
        def shown() -> bool:
            if self.task.done():
                self.task.result()
            return is_so()

        await until(shown)


@asynccontextmanager
async def following(
    log: QuorumLog, config: ObserverConfig = CONFIG, supported: dict[str, tuple[int, int]] | None = None
) -> AsyncIterator[Following]:
    made = Following(MetadataFollower(config, clock=SystemClock(), dial=log.dial, supported=supported))
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


def a_log() -> QuorumLog:
    log = QuorumLog()
    log.append_control(quorum.LeaderChangeMessage(100))
    log.append(MV)
    return log


async def test_it_catches_up_and_names_the_active_controller() -> None:
    log = a_log()
    async with following(log) as made:
        await made.follower.caught_up()
        assert made.follower.leader == ActiveController(100, 1, HOST, 100)
        assert made.follower.published_offset == 1
        assert made.follower.image.metadata_version == 30
        assert made.follower.high_watermark == 2
        [delta] = made.published
        assert delta.after is made.follower.image


async def test_the_first_publication_waits_for_all_that_is_committed() -> None:
    """cluster.md 3.6.3"""
    log = a_log()
    log.append(TOPIC, is_committed=False)
    async with following(log) as made:
        await made.until(lambda: made.follower.published_offset == 1)
        assert not made.follower.image.topics
        log.append(PARTITION)
        await made.follower.reached(3)
        assert [delta.after.offset for delta in made.published] == [1, 3]


async def test_nothing_is_published_before_there_is_a_record() -> None:
    """cluster.md 3.6.3"""
    log = QuorumLog()
    log.append_control(quorum.LeaderChangeMessage(100))
    async with following(log) as made:
        await made.until(lambda: made.follower.high_watermark == 1)
        await made.until(lambda: len(log.requests) > 5)
        assert not made.published
        log.append(MV)
        await made.follower.caught_up()
        assert made.follower.published_offset == 1


async def test_the_first_publication_waits_for_the_end_of_the_first_transaction() -> None:
    """cluster.md 3.6.3: a new quorum writes its features inside one"""
    log = QuorumLog()
    log.append(NoOpRecord())
    log.append(BeginTransactionRecord("bootstrap"), MV)
    async with following(log) as made:
        await made.until(lambda: len(log.requests) > 10)
        assert not made.published
        log.append(EndTransactionRecord())
        await made.follower.caught_up()
        assert made.follower.image.metadata_version == 30


async def test_control_records_count_as_offsets() -> None:
    """cluster.md 3.4"""
    log = a_log()
    async with following(log) as made:
        await made.follower.caught_up()
        log.elect(101)
        await made.follower.reached(2)
        assert made.follower.published_offset == 2
        assert made.follower.image.epoch == 2


async def test_it_goes_over_to_a_new_leader() -> None:
    log = a_log()
    async with following(log) as made:
        await made.follower.caught_up()
        log.elect(101)
        log.append(TOPIC)
        await made.follower.reached(3)
        assert made.follower.leader == ActiveController(101, 2, HOST, 101)
        log.dead.add(101)
        await made.until(lambda: made.follower.leader is None)
        log.elect(100)
        await made.follower.reached(4)
        assert made.follower.leader == ActiveController(100, 3, HOST, 100)


async def test_it_finds_the_quorum_when_the_first_controller_is_dead() -> None:
    log = a_log()
    log.dead.add(100)
    log.elect(101)
    async with following(log) as made:
        await made.follower.caught_up()
        assert made.follower.leader == ActiveController(101, 2, HOST, 101)


async def test_a_transaction_of_the_controller_is_published_at_its_end() -> None:
    """cluster.md 3.6.2"""
    log = a_log()
    async with following(log) as made:
        await made.follower.caught_up()
        log.append(BeginTransactionRecord("t"), TOPIC)
        log.append(PARTITION)
        await made.until(lambda: made.follower.high_watermark == 5)
        await made.until(lambda: len(log.requests) > 10)
        assert made.follower.published_offset == 1
        log.append(EndTransactionRecord())
        await made.follower.reached(5)
        assert [delta.after.offset for delta in made.published] == [1, 5]
        assert made.follower.image.partition("orders", 0) is not None
        log.append(BeginTransactionRecord(), RemoveTopicRecord(ID))
        log.append(AbortTransactionRecord())
        await made.follower.reached(8)
        assert made.follower.image.partition("orders", 0) is not None


async def test_a_snapshot_is_the_whole_cluster_and_the_log_goes_on_behind_it() -> None:
    """cluster.md 3.5"""
    log = a_log()
    log.append(TOPIC, PARTITION)
    log.compact(MV, TOPIC, PARTITION)
    log.append(PartitionChangeRecord(0, ID, leader=7))
    async with following(log, replace(CONFIG, snapshot_max_bytes=50)) as made:
        await made.follower.caught_up()
        # Not at the snapshot's end: what came since may say that a topic which it lacks is there (cluster.md 3.6.3).
        assert [delta.after.offset for delta in made.published] == [4]
        partition = made.follower.image.partition("orders", 0)
        assert partition is not None
        assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)


async def test_a_snapshot_in_the_middle_is_published_as_a_difference() -> None:
    """cluster.md 3.5: topics that it lacks are deletions"""
    log = a_log()
    log.append(TOPIC, PARTITION)
    async with following(log) as made:
        await made.follower.caught_up()
        log.append(RemoveTopicRecord(ID))
        log.append(TopicRecord("other", OTHER_ID))
        log.append(NoOpRecord())
        log.compact(MV, TopicRecord("other", OTHER_ID))
        await made.follower.reached(6)
        assert [topic.name for topic in made.published[-1].topics_deleted] == ["orders"]
        assert [topic.name for topic in made.published[-1].topics_created] == ["other"]
        log.append(RemoveTopicRecord(OTHER_ID))
        await made.follower.reached(7)
        assert not made.follower.image.topics


async def test_listeners_see_the_new_image_in_the_step_in_which_it_is_published() -> None:
    """cluster.md 3.6.4"""
    log = a_log()
    async with following(log) as made:
        seen: list[tuple[str, bool]] = []
        made.follower.on_publication += [
            lambda delta: seen.append(("first", made.follower.image is delta.after)),
            lambda delta: seen.append(("second", made.follower.image is delta.after)),
        ]
        await made.follower.caught_up()
        assert seen == [("first", True), ("second", True)]


async def test_nothing_counts_as_published_before_everybody_has_followed_in_their_steps() -> None:
    """cluster.md 2.10 and 3.6: heartbeats tell that offset"""
    log = a_log()
    clock = SlowMachine()
    follower = MetadataFollower(CONFIG, clock=clock, dial=log.dial)
    seen: list[tuple[str, int]] = []

    def follow(delta: ImageDelta) -> Generator[None, None, None]:
        for _ in range(100):
            seen.append(("step", follower.published_offset))
            yield

    follower.on_publication += [follow, lambda delta: seen.append(("next", follower.published_offset))]
    made = Following(follower)
    await follower.caught_up()
    assert seen == [("step", -1)] * 100 + [("next", -1)]
    assert follower.published_offset == follower.image.offset
    assert clock.turns >= 100 / (SLICE_MS / 5) - 2
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_another_cluster_ends_it_for_whoever_waits() -> None:
    log = a_log()
    async with following(log, replace(CONFIG, cluster_id="another")) as made:
        with pytest.raises(QuorumLost, match="another cluster than another"):
            await made.follower.caught_up()
        with pytest.raises(QuorumLost):
            await made.task
        with pytest.raises(QuorumLost):
            await made.follower.reached(1)


async def test_a_record_that_contradicts_the_image_ends_it_and_is_never_published() -> None:
    """cluster.md 1.8"""
    log = a_log()
    async with following(log) as made:
        await made.follower.caught_up()
        log.append(TOPIC, PartitionChangeRecord(3, ID, leader=7))
        with pytest.raises(QuorumUnreadable, match=r"PartitionChangeRecord at offset 3 .* orders-3 does not exist"):
            await made.task
        assert [delta.after.offset for delta in made.published] == [1]


async def test_a_feature_beyond_this_broker_is_told_with_its_level_and_range() -> None:
    """cluster.md 1.6 and 1.8; a level that was taken back before it was seen does not count"""
    log = a_log()
    log.append(FeatureLevelRecord("group.version", 1))
    log.append(FeatureLevelRecord("group.version", 0))
    async with following(log, supported={"metadata.version": (25, 30)}) as made:
        await made.follower.caught_up()
        log.append(FeatureLevelRecord("group.version", 1))
        with pytest.raises(QuorumUnreadable, match=r"group\.version at level 1 \(Eosin supports 0\): lower it with"):
            await made.task


async def test_a_large_snapshot_leaves_turns_of_the_event_loop_to_others() -> None:
    """cluster.md 2.10"""
    log = a_log()
    log.compact(MV, TOPIC, *(PartitionRecord(number, ID, replicas=(7,)) for number in range(3000)))
    clock = SlowMachine()
    made = Following(MetadataFollower(CONFIG, clock=clock, dial=log.dial))
    await made.follower.caught_up()
    assert made.follower.image.partition_count == 3000
    assert clock.turns >= 3000 / 64 / (SLICE_MS / 5) + 3000 / 256 / (SLICE_MS / 5) - 2
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


@pytest.mark.parametrize("patience_ms", [0, 60_000])
async def test_a_quorum_that_is_away_is_told_once_for_each_reason_and_once_while_it_may_be_starting(
    patience_ms: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again every 20 ms (cluster.md 3.2)."""
    monkeypatch.setattr(follower_module, "START_PATIENCE_MS", patience_ms)
    caplog.set_level(logging.INFO)
    log = a_log()
    log.dead |= {100, 101}
    dials = 0

    async def dial(address: Address, *, timeout_ms: int) -> Peer:
        nonlocal dials
        dials += 1
        return await log.dial(address, timeout_ms=timeout_ms)

    made = Following(MetadataFollower(CONFIG, clock=SystemClock(), dial=dial))
    await made.until(lambda: dials > 20)
    levels = [each.levelno for each in caplog.records]
    # One for each address, and one for both.
    assert levels == ([logging.INFO] if patience_ms else [logging.WARNING] * 3)
    log.dead.clear()
    await made.follower.caught_up()
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_tasks_that_wait_are_cancelled_with_it() -> None:
    log = QuorumLog()
    async with following(log) as made:
        waiting = asyncio.create_task(made.follower.caught_up())
        await made.until(lambda: len(log.requests) > 2)
        made.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
