"""A consumer is sent to a follower in its rack, and served there (KIP-392; cluster.md 4.20). Real logs and handlers;
what the cluster says is the test's."""

from collections.abc import Iterator, Mapping

import pytest
from batches import data, marker
from data_broker import DataBroker, batch, settle
from registrations import Broker, Partition

from eosin.broker.fetching.sessions import WantedPartition
from eosin.broker.handlers import describe_producers, fetch
from eosin.broker.partitions import Partitions
from eosin.cluster.replication.led_partitions import LedPartitions
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.model.cluster import Endpoint
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from eosin.settings.quorum import RACK_AWARE
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, VerificationGuard

ORDERS = TopicPartition("orders", 0)
LEADER, FOLLOWER = 1, 2
RACKS: Mapping[int, str] = {LEADER: "a", FOLLOWER: "b"}


class NoController:
    def request(self, *_: object) -> IsrChangeResult:
        raise AssertionError("the ISR stays")

    def withdraw(self, *_: object) -> None: ...


async def leading(monkeypatch: pytest.MonkeyPatch, *, selector: str | None = RACK_AWARE) -> DataBroker:
    """Leads `orders-0`, in rack a; broker 2 follows in rack b and has what is written when it is heard of."""
    broker = await DataBroker.started(replica_selector_class=selector)
    await broker.create_topic()
    brokers = {node_id: Broker(node_id) for node_id in RACKS}
    broker.services.led_partitions = LedPartitions(
        LEADER,
        brokers=lambda: brokers,
        own_epoch=lambda: LEADER,
        isr_changes=NoController(),
        progress=broker.partitions.long_polls,
        clock=broker.clock,
        max_lag_ms=30_000,
    )
    endpoints = [Endpoint(node_id, "host", 9092, rack) for node_id, rack in RACKS.items()]
    monkeypatch.setattr(broker.cluster, "brokers_for_readers", lambda _: endpoints)
    log = broker.log()
    log.become_leader(5)
    registration = Partition((LEADER, FOLLOWER), (LEADER, FOLLOWER), 5, 1)
    broker.services.led_partitions.lead(log, log.topic_id, registration)
    broker.begin_produce(batch("a", "b"))
    await settle()
    has_all = FetchPartition(0, current_leader_epoch=5, fetch_offset=2)
    follower = broker.services.led_partitions.follower(FOLLOWER, FOLLOWER)
    follower.fetched(log, WantedPartition(FetchTopic("orders"), has_all, key=0))
    assert log.high_watermark == 2
    return broker


class Following:
    """The replicas of a broker that follows `orders-0`."""

    def __init__(self, log: PartitionLog) -> None:
        self.log_ = log
        self.in_sync = True

    def followed(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        return iter([(ORDERS, self.log_)])

    def lag(self, partition: TopicPartition) -> int:
        return 0

    def log(self, partition: TopicPartition) -> PartitionLog | None:
        return self.log_

    def readable(self, partition: TopicPartition) -> PartitionLog | None:
        return self.log_ if self.in_sync else None

    def is_settling(self, partition: TopicPartition) -> bool:
        return True

    def opened(self, partition: TopicPartition) -> PartitionLog | None:
        return None


async def following(monkeypatch: pytest.MonkeyPatch, *, leader_epoch: int = 7) -> tuple[DataBroker, Following]:
    """Follows `orders-0` in an epoch of which it has no record yet."""
    broker = await DataBroker.started()
    await broker.create_topic()
    log = broker.log()
    broker.led_logs.let_go(ORDERS)
    log.become_follower()
    log.on_durable = lambda _: None  # the leader says what is committed
    broker.led_logs.follow(log)
    replicas = Following(log)
    broker.partitions = broker.services.partitions = Partitions(
        cluster=broker.cluster,
        led_logs=broker.led_logs,
        replicas=replicas,
        log_manager=broker.logs,
        clock=broker.clock,
        config=broker.config,
        leader_epoch=broker.cluster.leader_epoch,
        guard=lambda log: log,
    )
    monkeypatch.setattr(broker.cluster, "leader_epoch", lambda _: leader_epoch)
    return broker, replicas


def of(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


async def asked(broker: DataBroker, rack: str, offset: int = 0, *, version: int = 17, **how: int) -> FetchResponse:
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic("orders", broker.cluster.topics["orders"].topic_id, (wanted,))
    session = {"session_id": 0, "session_epoch": -1, **how}
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,), rack_id=rack, **session)
    response: FetchResponse = await broker.call(fetch.API, request, version)
    return response


async def test_a_consumer_is_sent_to_the_follower_in_its_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await leading(monkeypatch)
    answer = of(await asked(broker, "b"))
    assert (answer.error_code, answer.preferred_read_replica, answer.records) == (0, FOLLOWER, b"")
    assert (answer.high_watermark, answer.log_start_offset) == (2, 0)


@pytest.mark.parametrize("rack", ["", "a", "c"])
async def test_a_consumer_of_no_rack_or_the_leader_s_is_served_by_it(
    monkeypatch: pytest.MonkeyPatch, rack: str
) -> None:
    broker = await leading(monkeypatch)
    answer = of(await asked(broker, rack))
    assert answer.preferred_read_replica == -1
    assert len(answer.records or b"") > 0


async def test_without_the_selector_the_leader_serves_every_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await leading(monkeypatch, selector=None)
    assert of(await asked(broker, "b")).preferred_read_replica == -1


async def test_a_consumer_that_is_sent_away_is_not_held_up_and_is_told_in_a_session_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await leading(monkeypatch)
    response = await asked(broker, "b", 2, session_epoch=0)  # at the end, where there is nothing to read
    assert of(response).preferred_read_replica == FOLLOWER
    again = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, session_id=response.session_id, session_epoch=1, rack_id="b"
    )  # nothing has changed
    told: FetchResponse = await broker.call(fetch.API, again, 17)
    assert of(told).preferred_read_replica == FOLLOWER


async def test_a_version_that_cannot_be_sent_away_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await leading(monkeypatch)
    assert len((await broker.fetch(0, version=10)).records or b"") > 0


async def test_a_follower_shows_what_it_knows_to_be_committed_and_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await DataBroker.started()
    await leader.create_topic()
    source = leader.log()
    guard = source.begin_verification(producer_id=9, producer_epoch=0, base_sequence=0)
    assert isinstance(guard, VerificationGuard)
    transaction = data(2, pid=9, seq=0, txn=True)
    outcomes = (
        source.append(data(), now_ms=0),
        source.append(transaction, now_ms=0, guard=guard),
        source.append_marker(marker(9, 0, commit=False), now_ms=0),
        source.append(data(), now_ms=0),
    )
    assert all(isinstance(each, Appended) for each in outcomes), outcomes
    broker, replicas = await following(monkeypatch)
    log = replicas.log_
    for each in source.batches():
        log.append_as_follower(each, max_epoch=10, now_ms=0)
    broker.flusher.release()
    assert log.log_end_offset == 5

    async def ends() -> tuple[int, int, int, int]:
        plain, committed = await broker.fetch(0), await broker.fetch(0, isolation=1)
        assert plain.error_code == committed.error_code == 0
        return (
            plain.high_watermark, committed.last_stable_offset,
            *(len(each.records or b"") for each in (plain, committed)),
        )  # fmt: skip

    assert (await ends())[2:] == (0, 0), "nothing is known to be committed"
    log.advance_high_watermark(3)  # the marker is here, and not known to be committed
    high_watermark, stable, plain, committed = await ends()
    assert (high_watermark, stable) == (3, 1)
    assert 0 < committed < plain
    log.advance_high_watermark(5)
    answer = await broker.fetch(1, isolation=1)
    assert answer.last_stable_offset == 5
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()] == [(9, 1)]


async def test_a_consumer_waits_at_a_follower_for_what_its_leader_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, replicas = await following(monkeypatch)
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=(FetchTopic("orders", bytes(16), (wanted,)),))
    waiting = broker.begin(fetch.API, request, 12)
    replicas.log_.append_as_follower(bytearray(batch("a")), max_epoch=10, now_ms=0)
    broker.flusher.release()
    await settle()
    assert not waiting.done()
    replicas.log_.advance_high_watermark(1)
    await settle()
    assert waiting.done(), "no time has passed"
    assert of(waiting.result()).high_watermark == 1


async def test_a_follower_that_is_not_in_sync_sends_consumers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, replicas = await following(monkeypatch)
    replicas.in_sync = False
    assert (await broker.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_answers_no_version_that_knows_leaders_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _ = await following(monkeypatch)
    assert (await broker.fetch(0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await broker.fetch(0, version=11)).error_code == 0


@pytest.mark.parametrize(
    ("epoch", "error"), [(6, ErrorCode.FENCED_LEADER_EPOCH), (7, ErrorCode.NONE), (8, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_a_follower_goes_by_the_epoch_that_it_follows(
    monkeypatch: pytest.MonkeyPatch, epoch: int, error: ErrorCode
) -> None:
    broker, _ = await following(monkeypatch)
    assert (await broker.fetch(0, current_leader_epoch=epoch)).error_code == error


async def test_the_producers_of_a_followed_partition_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, replicas = await following(monkeypatch)
    replicas.log_.append_as_follower(bytearray(data(pid=9, seq=0)), max_epoch=10, now_ms=0)
    request = DescribeProducersRequest((TopicRequest("orders", (0,)),))
    answer = (await broker.call(describe_producers.API, request)).topics[0].partitions[0]
    assert answer.error_code == 0
    assert [each.producer_id for each in answer.active_producers] == [9]


async def test_a_follower_that_is_behind_does_not_tell_a_consumer_that_histories_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, _ = await following(monkeypatch)
    answer = await broker.fetch(5, last_fetched_epoch=7)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "clients ask the leader then"
    assert answer.diverging_epoch.end_offset == -1
