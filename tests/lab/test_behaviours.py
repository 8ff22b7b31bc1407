"""The brokers that one of the lab behaves like: as strict as the one of production."""

import pytest
from confluent_kafka import KafkaException, Producer
from waiting import HANG_S

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer as EosinProducer
from eosin.lab.async_broker import AsyncBroker
from eosin.lab.behaviours import BEHAVIOURS
from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

pytestmark = pytest.mark.process


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_every_behaviour_commits_and_shows_the_outcome(behaviour: str) -> None:
    with Broker(topics=["orders"], behaviour=behaviour) as broker:
        broker.produce("orders", "a", transactional_id="t")
        broker.produce("orders", "b", transactional_id="t")
        assert broker.topic("orders").values() == [b"a", b"b"]
        assert broker.transactions("t").outcomes == ["commit", "commit"]


def test_a_behaviour_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LabError, match='there is no behaviour "kafak"; did you mean kafka'):
        Broker(behaviour="kafak")


def test_settings_of_a_test_are_stronger_than_a_behaviour() -> None:
    with Broker(topics=["orders"], behaviour="kafka", settings={"eosin.transaction.version": 1}) as broker:
        broker.produce("orders", "a", transactional_id="t")
        assert broker.transactions("t").epoch == 0  # TV2 raises it at each end


def test_a_broker_is_as_strict_as_kafka_unless_a_test_asks_for_eosin() -> None:
    with Broker() as broker, Broker(behaviour="eosin") as kinder:
        assert broker._held.broker.options.behaviour == "kafka"
        assert broker._held.broker.node.config.eosin_end_txn_marker_wait_ms == 0
        assert kinder._held.broker.node.config.eosin_end_txn_marker_wait_ms > 0


@pytest.mark.parametrize(
    ("behaviour", "code"), [("kafka-2.5", "INVALID_PRODUCER_EPOCH"), ("kafka-3.9", "PRODUCER_FENCED")]
)
async def test_before_kip_588_a_fence_is_an_invalid_epoch(behaviour: str, code: str) -> None:
    async with AsyncBroker(topics=["orders"], behaviour=behaviour) as broker, Client(broker.bootstrap) as client:
        producer = EosinProducer(client, "t")
        await producer.init()
        producer.begin()
        await producer.send(TopicPartition("orders", 0), [NewRecord(None, b"late")])
        await broker.successor("t")
        with pytest.raises(BrokerError):
            await producer.commit()
        assert {each.code for each in await broker.history.requests("EndTxn")} == {code}


def test_like_kafka_it_meets_a_next_transaction_before_the_markers_of_the_last_one() -> None:
    with Broker(topics=["orders"], behaviour="kafka") as broker:
        for value in ("a", "b", "c"):
            broker.produce("orders", value, transactional_id="t")
        codes = {each.code for each in broker.history.requests() if each.transactional_id == "t"}
        assert codes <= {"NONE", "CONCURRENT_TRANSACTIONS", ""}
        client = Producer(broker.conf(transactional_id="u"))
        client.init_transactions(HANG_S)
        for _ in range(100):  # on a busy machine a client may be later than the markers
            client.begin_transaction()
            client.produce("orders", b"d")
            client.commit_transaction(HANG_S)
            if broker.history.requests(code="CONCURRENT_TRANSACTIONS"):
                return
        pytest.fail("no transaction has met the markers of the one before")


def test_like_kafka_it_fences_a_producer_whose_transaction_timed_out() -> None:
    with Broker(topics=["orders"], behaviour="kafka") as broker:
        client = Producer(broker.conf(transactional_id="t"))
        client.init_transactions(HANG_S)
        client.begin_transaction()
        client.produce("orders", b"late")
        client.flush(HANG_S)
        broker.clock.advance(minutes=2)
        with pytest.raises(KafkaException) as late:
            client.commit_transaction(HANG_S)
        assert late.value.args[0].fatal()
