"""Groups by the newer protocols (KIP-848, KIP-932, KIP-1071) as a broker of the lab tells of them, and takes members
out of them: consumers of librdkafka; the others over the wire."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from waiting import HANG_S
from wire import Wire
from wire_share_group import ShareMember
from wire_streams_group import StreamsMember, counting

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "invoices": 1}) as started:
        started.set_features(share_version=1, streams_version=1)
        yield started


@pytest.fixture
async def wire(broker: Broker) -> AsyncIterator[Wire]:
    opened = await Wire.open(broker.bootstrap)
    yield opened
    await opened.close()


def member_of(broker: Broker, group: str) -> Consumer:
    """A member that has its partitions."""
    consumer = Consumer(
        broker.conf(group_id=group, group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False)
    )
    consumer.subscribe(["orders"])
    polled_until(broker, consumer, lambda: len(consumer.assignment()) == 2)
    return consumer


def polled_until(broker: Broker, consumer: Consumer, condition: object) -> None:
    def holds() -> bool:
        consumer.poll(0)
        assert callable(condition)
        return bool(condition())

    broker.wait_until(holds, timeout=HANG_S)


@pytest.mark.parametrize("way", ["kick", "expire"])
def test_a_member_that_was_taken_out_of_a_consumer_group_comes_back_with_another_epoch(
    broker: Broker, way: str
) -> None:
    group = broker.group(f"{way}-group")
    consumer = member_of(broker, group.group_id)
    try:
        (member,) = group.members
        before = group.generation
        assert before is not None
        assert (group.state, member.epoch) == ("Stable", before)
        assert [str(each) for each in member.partitions] == ["orders-0", "orders-1"]
        getattr(group, way)(member.member_id)
        assert group.generation == before + 1
        polled_until(broker, consumer, lambda: [each.epoch for each in group.members] == [before + 2])
        with pytest.raises(LabError, match="is a consumer group, whose members never join again together: kick or"):
            group.rebalance()
        with pytest.raises(LabError, match="there is no member of group"):
            group.expire("me")
    finally:
        consumer.close()
    assert [each.code for each in broker.history.requests("ConsumerGroupHeartbeat", group=group.group_id)].count(
        "UNKNOWN_MEMBER_ID"
    ) == 1


def test_offsets_of_a_member_that_has_expired_are_refused_by_its_epoch(broker: Broker) -> None:
    group = broker.group("billing")
    broker.produce("orders", "one", partition=0)
    consumer, producer = member_of(broker, "billing"), Producer(broker.conf(transactional_id="billing-1"))
    try:
        producer.init_transactions(HANG_S)
        metadata = consumer.consumer_group_metadata()
        producer.begin_transaction()
        producer.produce("invoices", b"invoice")
        group.expire()
        with pytest.raises(Exception, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION|not in current"):
            producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], metadata, HANG_S)
        producer.abort_transaction(HANG_S)
    finally:
        consumer.close()
    assert (group.offset("orders"), group.pending("orders")) == (None, None)
    assert broker.transactions("billing-1").outcomes == ["abort"]


def test_a_heartbeat_whose_answer_is_lost_is_sent_again(broker: Broker) -> None:
    consumer = member_of(broker, "lossy")
    try:
        with broker.faults.on("ConsumerGroupHeartbeat", group="lossy").lose("answer") as lost:
            lost.wait_fired(timeout=HANG_S)
        with broker.faults.on("ConsumerGroupHeartbeat", group="lossy").error("FENCED_MEMBER_EPOCH") as fenced:
            fenced.wait_fired(timeout=HANG_S)
        polled_until(
            broker,
            consumer,
            lambda: any(
                "epoch 0" in each.detail and each.code == "NONE"
                for each in broker.history.requests("ConsumerGroupHeartbeat", group="lossy")[2:]
            ),
        )
        polled_until(broker, consumer, lambda: len(consumer.assignment()) == 2)
    finally:
        consumer.close()


@pytest.mark.parametrize("way", ["kick", "expire"])
async def test_a_member_of_a_share_group_is_taken_out(broker: Broker, wire: Wire, way: str) -> None:
    group = broker.group(f"sharers-{way}")
    member = await ShareMember(wire, group.group_id).joined("orders", partitions=2)
    assert [each.epoch for each in group.members] == [group.generation]
    getattr(group, way)()
    assert (group.members, group.state) == ([], "Empty")
    assert (await member.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("way", ["kick", "expire"])
async def test_a_member_of_a_group_of_kafka_streams_is_taken_out(broker: Broker, wire: Wire, way: str) -> None:
    group = broker.group(f"counters-{way}")
    member = StreamsMember(wire, group.group_id)
    await member.join(counting("orders", group.group_id))
    getattr(group, way)()
    assert (group.members, group.state) == ([], "Empty")
    assert (await member.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_lag_of_a_share_group_is_that_of_its_partitions(broker: Broker, wire: Wire) -> None:
    group = broker.group("behind")
    member = await ShareMember(wire, "behind").joined("invoices")
    assert group.lag("orders") == len(broker.topic("orders").records())
    assert await member.leave() == ErrorCode.NONE


async def test_a_share_consumer_that_waits_for_records_leaves_a_broker_quiet(broker: Broker, wire: Wire) -> None:
    member = await ShareMember(wire, "waiting").joined("invoices")
    ((topic_id, partition),) = member.assigned
    topic = FetchTopic(topic_id, (FetchPartition(partition),))
    waits = ShareFetchRequest("waiting", member.member_id, 0, 60_000, 1, 1000, 10, 10, topics=(topic,))
    answer = wire.send(waits, 1)
    await asyncio.to_thread(broker.wait_until, lambda: broker.history.events()[-1].api == "ShareFetch")
    await asyncio.to_thread(broker.settle, quiet_ms=50)
    assert [each.waits_for for each in broker.connections() if each.client_id == "wire"][-1] == ()
    broker.produce("invoices", "one")
    assert (await answer).responses[0].partitions[0].error_code == ErrorCode.NONE
    asked = broker.history.requests("ShareFetch", group="waiting")[-1]
    assert [str(each) for each in asked.partitions] == ["invoices-0"]


def test_a_feature_that_is_not_there_is_named_with_the_nearest_one(broker: Broker) -> None:
    with pytest.raises(LabError, match=r'there is no feature "shares.version"; did you mean share.version\?'):
        broker.set_features(shares_version=1)


def test_the_session_of_a_member_of_a_classic_group_ends_on_demand(broker: Broker) -> None:
    consumer = Consumer(broker.conf(group_id="classic", heartbeat_interval_ms=100))
    group = broker.group("classic")
    try:
        consumer.subscribe(["orders"])
        polled_until(broker, consumer, lambda: bool(consumer.assignment()))
        (member,) = group.members
        group.expire(member.member_id)
        assert group.members == []
        polled_until(broker, consumer, lambda: group.generation == 3)
        assert [each.member_id for each in group.members] != [member.member_id]
    finally:
        consumer.close()


async def test_a_broker_in_asyncio_has_the_same() -> None:
    from eosin.testing import AsyncBroker

    async with AsyncBroker(topics=["orders"]) as broker:
        await broker.set_features(share_version=1)
        opened = await Wire.open(broker.bootstrap)
        await ShareMember(opened, "sharers").joined("orders")
        await broker.group("sharers").expire()
        assert await broker.group("sharers").members == []
        await opened.close()
