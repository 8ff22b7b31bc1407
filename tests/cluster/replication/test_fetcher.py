"""What a fetcher asks its leader for, round by round (cluster.md 4.6 and 4.10)."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from batches import TOPIC_ID, data
from logs import Logs, read_now
from manual_flusher import ManualFlusher

from eosin.cluster.replication.fetch_session import FollowerFetchLimits
from eosin.cluster.replication.fetcher import HELD_CHECK_MS, Fetch, Fetcher, SendListOffsets, Wait
from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.cluster.replication.rules.followed_partition import Phase
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.schemas.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.partition_log import PartitionLog

EPOCH = 4
BACKOFF_MS = 1000
PATIENCE_MS = 200
BROKER_EPOCH = 9
SESSION = 77


class HeldBack:
    """A throttle (`Throttle`) that a test switches."""

    def __init__(self) -> None:
        self.partitions: set[int] = set()
        self.free_at = 0
        self.counted: list[tuple[int, int]] = []

    @property
    def is_on(self) -> bool:
        return self.free_at > 0

    def count(self, partition: TopicPartition, size: int, now_ms: int) -> None:
        self.counted.append((partition.partition, size))

    def holds(self, partition: TopicPartition, now_ms: int) -> bool:
        return partition.partition in self.partitions and now_ms < self.free_at

    def free_at_ms(self, now_ms: int) -> int:
        return max(now_ms, self.free_at)


class Pair:
    """A leader's logs, a follower's logs, and the follower's fetcher."""

    def __init__(self) -> None:
        self.throttle = HeldBack()
        self.leader = Logs(replicated=True)
        self.flusher = ManualFlusher()
        self.follower = Logs(
            durability=Durability.FSYNC, flusher=self.flusher, replicated=True, clock=self.leader.clock
        )
        limits = FollowerFetchLimits(2, max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1000)
        self.fetcher = Fetcher(limits, backoff_ms=BACKOFF_MS, sync_patience_ms=PATIENCE_MS, throttle=self.throttle)

    async def open(self) -> None:
        await self.leader.manager.open()
        await self.follower.manager.open()

    def follow(self, index: int) -> FollowedReplica:
        partition = TopicPartition("orders", index)
        self.leader.log(partition).become_leader(EPOCH)
        log = self.follower.log(partition)
        log.become_follower()
        replica = FollowedReplica(log, TOPIC_ID, EPOCH, clock=self.leader.clock, start=_refuse, backoff_ms=BACKOFF_MS)
        replica.changed = self.fetcher.changed
        self.fetcher.add(replica)
        return replica

    def produce(self, index: int, count: int = 1) -> None:
        self.leader.append(self.leader.log(TopicPartition("orders", index)), data(count))

    def step(self) -> Fetch | SendListOffsets | Wait:
        return self.fetcher.next_step(self.now_ms, broker_epoch=BROKER_EPOCH)

    @property
    def now_ms(self) -> int:
        return self.leader.clock.elapsed_ms()

    def fetch(self) -> dict[int, FetchPartition]:
        """The next step, which must be a fetch: what it names."""
        step = self.step()
        assert isinstance(step, Fetch), step
        self.forgotten = {each for topic in step.request.forgotten_topics_data for each in topic.partitions}
        return {each.partition: each for topic in step.request.topics for each in topic.partitions}

    def answer(self, *answers: PartitionData, error: ErrorCode = ErrorCode.NONE) -> None:
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)
        self.fetcher.fetched(
            FetchResponse(error_code=error, session_id=SESSION, responses=(topic,) if answers else ()), self.now_ms
        )

    def records(self, index: int, offset: int, *, high_watermark: int = 0) -> PartitionData:
        """What the leader's log holds from `offset` on."""
        records = everything(self.leader.log(TopicPartition("orders", index)), offset)
        return PartitionData(partition_index=index, high_watermark=high_watermark, log_start_offset=0, records=records)


def everything(log: PartitionLog, offset: int = 0) -> bytes:
    """The bytes of a log, as a replica reads them."""
    return b"".join(map(bytes, log.runs(offset)))


def _refuse(work: Coroutine[Any, Any, None]) -> None:
    work.close()
    pytest.fail("nothing of this takes time")


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    both = Pair()
    await both.open()
    yield both
    await both.follower.manager.close()
    await both.leader.manager.close()


async def test_a_fetcher_without_partitions_waits(pair: Pair) -> None:
    assert pair.step() == Wait(None)


async def test_records_are_taken_as_the_leader_wrote_them(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0, count=3)
    assert pair.fetch()[0].fetch_offset == 0
    pair.answer(pair.records(0, 0, high_watermark=2))
    assert replica.log.log_end_offset == 3
    assert replica.log.high_watermark == 2
    assert everything(replica.log) == everything(pair.leader.log(replica.partition)) != b""


async def test_the_high_watermark_never_passes_the_log_end(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0, count=3)
    pair.fetch()
    pair.answer(pair.records(0, 0, high_watermark=50))
    assert replica.log.high_watermark == 3


async def test_the_next_offset_is_asked_for_only_when_the_records_are_durable(pair: Pair) -> None:
    pair.follow(0)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    assert pair.step() == Wait(pair.now_ms + PATIENCE_MS)
    pair.flusher.flush()
    position = pair.fetch()[0]
    assert (position.fetch_offset, position.last_fetched_epoch, position.current_leader_epoch) == (1, EPOCH, EPOCH)


async def test_a_round_waits_for_the_syncs_of_all_its_partitions(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    assert isinstance(pair.step(), Wait)
    pair.flusher.flush()
    assert set(pair.fetch()) == {0}


async def test_a_partition_whose_sync_takes_long_is_forgotten_and_comes_back(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    pair.leader.clock.advance(PATIENCE_MS)
    assert pair.fetch() == {}
    assert pair.forgotten == {0}
    pair.answer()
    pair.flusher.flush()
    assert pair.fetch()[0].fetch_offset == 1
    assert pair.forgotten == set()


async def test_nothing_is_sent_while_no_partition_is_ready(pair: Pair) -> None:
    pair.follow(0)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    pair.leader.clock.advance(PATIENCE_MS)
    assert pair.step() == Wait(None)


async def test_an_answer_without_a_partition_has_nothing_new_for_it(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.fetch()
    pair.answer()
    assert pair.fetch() == {}
    assert pair.forgotten == set()
    assert replica.followed.phase is Phase.FETCHING


async def test_a_partition_that_is_not_followed_any_more_gets_no_answer(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    pair.fetch()
    pair.fetcher.remove(replica)
    pair.answer(pair.records(0, 0))
    assert replica.log.log_end_offset == 0
    assert pair.step() == Wait(None)


async def test_an_answer_of_the_leader_epoch_before_is_not_used(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    pair.fetch()
    replica.follow(EPOCH + 1)
    pair.answer(pair.records(0, 0))
    assert replica.log.log_end_offset == 0
    assert pair.fetch()[0].current_leader_epoch == EPOCH + 1


async def test_partitions_of_a_late_answer_are_asked_for_anew(pair: Pair) -> None:
    """A leader of Apache Kafka says a high watermark once in a session, also to who asks in a new leader epoch."""
    replica = pair.follow(0)
    pair.follow(1)
    pair.fetch()
    pair.answer()
    assert pair.fetch() == {}
    replica.follow(EPOCH + 1)
    pair.answer(PartitionData(partition_index=0, high_watermark=1, log_start_offset=0))
    step = pair.step()
    assert isinstance(step, Fetch)
    assert step.request.session_epoch == 0
    assert {each.partition for topic in step.request.topics for each in topic.partitions} == {0, 1}
    pair.answer()
    assert pair.fetch() == {}


async def test_records_of_a_later_epoch_than_the_one_followed_are_left_out(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    pair.leader.log(replica.partition).become_leader(EPOCH + 1)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    assert replica.log.log_end_offset == 1


async def test_an_answer_with_nothing_that_can_be_kept_is_not_asked_for_again_at_once(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.leader.log(replica.partition).become_leader(EPOCH + 1)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    assert replica.followed.phase is Phase.BACKING_OFF
    assert pair.step() == Wait(pair.now_ms + BACKOFF_MS)


async def test_damaged_records_are_not_kept_and_fetched_again_later(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    pair.fetch()
    sound = pair.records(0, 0)
    assert sound.records is not None
    damaged = bytearray(sound.records)
    damaged[-1] ^= 1
    pair.answer(PartitionData(partition_index=0, high_watermark=1, records=bytes(damaged)))
    assert (replica.log.log_end_offset, replica.log.high_watermark) == (0, 0)
    assert pair.step() == Wait(pair.now_ms + BACKOFF_MS)
    pair.leader.clock.advance(BACKOFF_MS)
    assert pair.fetch() == {}  # the leader's session still has it where it was
    assert pair.forgotten == set()


async def test_answers_that_are_damaged_again_and_again_are_logged_once(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    damaged = bytearray(everything(pair.leader.log(replica.partition)))
    damaged[-1] ^= 1
    for _ in range(3):
        pair.fetch()
        pair.answer(PartitionData(partition_index=0, high_watermark=1, records=bytes(damaged)))
        pair.leader.clock.advance(BACKOFF_MS)
    assert caplog.text.count("in a row") == 1


async def test_a_partition_that_backs_off_is_forgotten_until_its_time_has_come(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    pair.fetch()
    pair.answer(PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert pair.fetch() == {}
    assert pair.forgotten == {0}
    pair.answer()
    pair.leader.clock.advance(BACKOFF_MS)
    assert set(pair.fetch()) == {0}


async def test_a_lost_connection_is_followed_by_a_pause_and_a_full_request(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    pair.fetch()
    pair.fetcher.connection_lost(pair.now_ms)
    assert pair.step() == Wait(pair.now_ms + BACKOFF_MS)
    pair.leader.clock.advance(BACKOFF_MS)
    assert set(pair.fetch()) == {0, 1}


async def test_a_lost_session_is_followed_by_a_full_request_at_once(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    pair.fetch()
    pair.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert set(pair.fetch()) == {0, 1}


async def test_another_error_of_the_whole_answer_is_followed_by_a_pause(pair: Pair) -> None:
    pair.follow(0)
    pair.fetch()
    pair.answer(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert pair.step() == Wait(pair.now_ms + BACKOFF_MS)


async def test_a_partition_out_of_range_asks_for_the_leaders_log_end(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.fetch()
    pair.answer(PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    step = pair.step()
    assert isinstance(step, SendListOffsets)
    (topic,) = step.request.topics
    (asked,) = topic.partitions
    assert (step.request.replica_id, topic.name) == (2, "orders")
    assert (asked.partition_index, asked.current_leader_epoch, asked.timestamp) == (0, EPOCH, -1)
    told = ListOffsetsPartitionResponse(partition_index=0, offset=5)
    pair.fetcher.offsets_listed(ListOffsetsResponse(topics=(ListOffsetsTopicResponse("orders", (told,)),)))
    assert replica.followed.phase is Phase.ASKING_EARLIEST
    step = pair.step()
    assert isinstance(step, SendListOffsets)
    assert step.request.topics[0].partitions[0].timestamp == -2


async def test_appended_records_are_for_replicas_and_not_yet_for_clients(pair: Pair) -> None:
    replica = pair.follow(0)
    pair.produce(0)
    pair.fetch()
    pair.answer(pair.records(0, 0))
    assert not read_now(replica.log, 0, isolation=IsolationLevel.READ_UNCOMMITTED).records
    assert read_now(replica.log, 0, isolation=None).records


async def test_a_partition_that_is_throttled_is_left_out_until_the_throttle_is_free(pair: Pair) -> None:
    pair.follow(0)
    pair.follow(1)
    assert set(pair.fetch()) == {0, 1}
    pair.answer()
    pair.throttle.partitions = {1}
    pair.throttle.free_at = pair.now_ms + 5000
    pair.produce(1)
    pair.answer(pair.records(1, 0))
    assert pair.throttle.counted == [(1, len(everything(pair.leader.log(TopicPartition("orders", 1)))))]
    pair.flusher.flush()
    pair.fetch()
    assert pair.forgotten == {1}
    pair.answer()
    pair.leader.clock.advance(5000)
    assert set(pair.fetch()) == {1}


async def test_a_fetcher_whose_partitions_are_all_throttled_waits_and_looks_again(pair: Pair) -> None:
    pair.throttle.partitions = {0}
    pair.throttle.free_at = pair.now_ms + 300
    replica = pair.follow(0)
    assert pair.step() == Wait(pair.now_ms + 300)
    pair.throttle.free_at = pair.now_ms + 90_000
    assert pair.step() == Wait(pair.now_ms + HELD_CHECK_MS)
    pair.throttle.partitions = set()
    assert set(pair.fetch()) == {0}
    pair.throttle.partitions = {0}
    pair.fetcher.changed(replica)
    assert isinstance(pair.step(), Wait)
    pair.fetcher.remove(replica)
    assert pair.step() == Wait(None)
