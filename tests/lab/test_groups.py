"""Groups as a broker of the lab tells of them, with real clients in them: one test for each library of Python."""

from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "invoices": 1}) as started:
        yield started


def polled(consumer: Consumer) -> Message:
    message = consumer.poll(HANG_S)
    assert message is not None
    assert message.error() is None
    return message


def test_offsets_of_a_transaction_of_librdkafka_are_pending_until_it_ends(broker: Broker) -> None:
    broker.produce("orders", "one", "two", partition=0)
    consumer = Consumer(broker.conf(group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False))
    producer = Producer(broker.conf(transactional_id="billing-1"))
    group = broker.group("billing")
    try:
        consumer.subscribe(["orders"])
        assert [polled(consumer).value(), polled(consumer).value()] == [b"one", b"two"]
        assert group.state == "Stable"
        (member,) = group.members
        assert (member.client_id, [str(each) for each in member.partitions]) == ("rdkafka", ["orders-0", "orders-1"])
        assert (group.generation, group.offset("orders"), group.pending("orders"), group.lag()) == (1, None, None, 2)
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        producer.produce("invoices", b"invoice")
        producer.send_offsets_to_transaction(
            [TopicPartition("orders", 0, 2)], consumer.consumer_group_metadata(), HANG_S
        )
        producer.flush(HANG_S)
        assert (group.offset("orders"), group.pending("orders")) == (None, 2)
        assert broker.topic("invoices").values() == []
        producer.commit_transaction(HANG_S)
        assert (group.offset("orders"), group.pending("orders"), group.lag()) == (2, None, 0)
        assert broker.topic("invoices").values() == [b"invoice"]
        assert broker.transactions("billing-1").outcomes == ["commit"]
        assert {each.client_id for each in broker.connections()} == {"rdkafka"}
        group.kick(member.member_id)
        broker.wait_until(lambda: group.generation != 1, timeout=HANG_S)
    finally:
        consumer.close()


def test_kafka_python_reads_what_it_has_committed(broker: Broker) -> None:
    with KafkaProducer(**broker.kwargs(transactional_id="python")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("invoices", b"aborted").get(HANG_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("invoices", b"committed").get(HANG_S)
        producer.commit_transaction()
    assert broker.transactions("python").outcomes == ["abort", "commit"]
    settings = broker.kwargs(auto_offset_reset="earliest", isolation_level="read_committed")
    with KafkaConsumer("invoices", **settings) as reader:
        found: list[bytes] = []
        while b"committed" not in found:
            found += [each.value for some in reader.poll(HANG_S * 1000).values() for each in some]
    assert b"aborted" not in found


async def test_aiokafka_commits_while_the_broker_runs_in_its_own_thread(broker: Broker) -> None:
    async with AIOKafkaProducer(**broker.kwargs(transactional_id="async")) as producer:
        async with producer.transaction():
            await producer.send_and_wait("invoices", b"async")
            assert broker.transactions("async").outcomes == ["open"]
        assert broker.transactions("async").outcomes == ["commit"]
    assert b"async" in broker.topic("invoices").values()


def test_a_group_that_is_not_there_has_nothing(broker: Broker) -> None:
    group = broker.group("nobody")
    assert (group.state, group.members, group.generation) == ("Dead", [], None)
    assert (group.offset("orders"), group.pending("orders"), group.lag()) == (None, None, 0)
    with pytest.raises(LabError, match="group nobody has no members"):
        group.kick()


def test_a_member_that_is_not_there_cannot_be_kicked(broker: Broker) -> None:
    with pytest.raises(LabError, match='there is no member of group nobody "me"'):
        broker.group("nobody").kick("me")


def test_a_client_that_waits_when_a_strict_broker_closes_is_named(caplog: pytest.LogCaptureFixture) -> None:
    slow = {"group.initial.rebalance.delay.ms": 60_000}
    broker = Broker(topics=["orders"], settings=slow, strict_clients=True)
    consumer = Consumer(broker.conf(group_id="waits"))
    try:
        consumer.subscribe(["orders"])

        def joins() -> bool:
            consumer.poll(0)
            return any("JOIN_GROUP" in each.waits_for for each in broker.connections())

        broker.wait_until(joins, timeout=HANG_S)
        with pytest.raises(LabError, match=r"closed while rdkafka .* waits for JOIN_GROUP: close clients first"):
            broker.close()
        assert "the broker is closed while rdkafka" in caplog.text
        broker.close()
    finally:
        consumer.close()


def test_a_fenced_producer_of_librdkafka_is_told_as_fenced(broker: Broker) -> None:
    first, second = (Producer(broker.conf(transactional_id="twice")) for _ in range(2))
    first.init_transactions(HANG_S)
    first.begin_transaction()
    first.produce("invoices", b"zombie")
    first.flush(HANG_S)
    second.init_transactions(HANG_S)
    with pytest.raises(Exception, match=r"fenced|epoch") as refused:
        first.commit_transaction(HANG_S)
    assert isinstance(refused.value.args[0], KafkaError)
    assert broker.transactions("twice").outcomes == ["fenced"]
    assert b"zombie" not in broker.topic("invoices").values()
