"""Real clients of a broker with three nodes: each commits while leaders and both of its coordinators move."""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonTopicPartition
from tls_files import TlsFiles
from waiting import HANG_S

from eosin.lab.broker import Broker

pytestmark = pytest.mark.process

TOPICS = {"orders": 1, "invoices": 3}
MOVES = 3
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "app", "sasl_password": "secret"}
USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="secret";'


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=TOPICS, nodes=3) as started:
        started.produce("orders", *(f"order {number}" for number in range(MOVES)))
        yield started


def move_all(broker: Broker, partition: int, transactional_id: str, group: str) -> None:
    """Move everything that a transaction needs."""
    broker.move_leader("invoices", partition)
    broker.move_coordinator("transaction", transactional_id)
    broker.move_coordinator("group", group)


def check_moves(broker: Broker, transactional_id: str, group: str) -> None:
    """All that was committed is there once; the wrong node was asked, and the right one afterwards."""
    expected = [b"%d %s the move" % (number, when) for number in range(MOVES) for when in (b"after", b"before")]
    assert sorted(filter(None, broker.topic("invoices").values())) == expected
    assert broker.transactions(transactional_id).outcomes == ["commit"] * MOVES
    assert broker.group(group).offset("orders") == MOVES
    for apis, code in (
        ({"Produce"}, "NOT_LEADER_OR_FOLLOWER"),
        ({"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"}, "NOT_COORDINATOR"),
        ({"TxnOffsetCommit"}, "NOT_COORDINATOR"),
    ):
        asked = [each for each in broker.history.requests() if each.api in apis]
        first = next((each for each in asked if each.code == code), None)
        assert first is not None, f"none of {apis} was sent to the wrong node"
        later = next(each for each in asked if each.number > first.number and each.code == "NONE")
        assert first.link is not None
        assert later.link is not None
        assert first.link.node != later.link.node


async def test_aiokafka_finds_leaders_and_coordinators_that_move(broker: Broker) -> None:
    async with AIOKafkaProducer(**broker.kwargs(transactional_id="aio-1")) as producer:
        for number in range(MOVES):
            await producer.begin_transaction()
            await producer.send_and_wait("invoices", b"%d before the move" % number, partition=number)
            await asyncio.to_thread(move_all, broker, number, "aio-1", "aio")
            await producer.send_and_wait("invoices", b"%d after the move" % number, partition=number)
            await producer.send_offsets_to_transaction({AioTopicPartition("orders", 0): number + 1}, "aio")
            await producer.commit_transaction()
    check_moves(broker, "aio-1", "aio")


@pytest.mark.full
def commit_while_all_moves(broker: Broker, **security: str) -> None:
    """Have librdkafka commit a transaction for each move."""
    consumer = Consumer(
        broker.conf(group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False, **security)
    )
    producer = Producer(broker.conf(transactional_id="billing-1", **security))
    try:
        consumer.subscribe(["orders"])
        producer.init_transactions(HANG_S)
        for number in range(MOVES):
            message = consumer.poll(HANG_S)
            assert message is not None
            assert message.error() is None
            producer.begin_transaction()
            producer.produce("invoices", b"%d before the move" % number, partition=number)
            assert producer.flush(HANG_S) == 0
            move_all(broker, number, "billing-1", "billing")
            producer.produce("invoices", b"%d after the move" % number, partition=number)
            place = TopicPartition("orders", 0, number + 1)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), HANG_S)
            producer.commit_transaction(HANG_S)
    finally:
        consumer.close()
    check_moves(broker, "billing-1", "billing")


def test_librdkafka_finds_leaders_and_coordinators_that_move(broker: Broker) -> None:
    commit_while_all_moves(broker)


@pytest.mark.full
def test_nodes_with_passwords_and_certificates_move_likewise(tls_files: TlsFiles) -> None:
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tls_files.broker,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": USERS,
    }
    with Broker(topics=TOPICS, nodes=3, settings=settings) as broker:
        broker.produce("orders", *(f"order {number}" for number in range(MOVES)))
        commit_while_all_moves(broker, ssl_ca_location=tls_files.ca, **LOGIN)
        assert {each.node for each in broker.history.connections()} == {1, 2, 3}
        broker.node(2).down()
        broker.history.clear()
        producer = Producer(broker.conf(transactional_id="after", ssl_ca_location=tls_files.ca, **LOGIN))
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        producer.produce("invoices", b"after the end of a node", partition=1)
        producer.commit_transaction(HANG_S)
        assert {each.link.node for each in broker.history.requests("Produce") if each.link} == {3}


@pytest.mark.full
def test_kafka_python_finds_leaders_and_coordinators_that_move(broker: Broker) -> None:
    with KafkaProducer(**broker.kwargs(transactional_id="python-1")) as producer:
        producer.init_transactions()
        for number in range(MOVES):
            producer.begin_transaction()
            producer.send("invoices", b"%d before the move" % number, partition=number).get(HANG_S)
            move_all(broker, number, "python-1", "python")
            producer.send("invoices", b"%d after the move" % number, partition=number).get(HANG_S)
            place = {PythonTopicPartition("orders", 0): OffsetAndMetadata(number + 1, "", -1)}
            producer.send_offsets_to_transaction(place, "python")
            producer.commit_transaction()
    check_moves(broker, "python-1", "python")
