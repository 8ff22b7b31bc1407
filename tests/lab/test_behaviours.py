"""The brokers that one of the lab behaves like: as strict as the one of production."""

import pytest
from confluent_kafka import KafkaException, Producer
from waiting import HANG_S

from eosin.lab.behaviours import BEHAVIOURS
from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

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


def test_like_kafka_it_meets_a_next_transaction_before_the_markers_of_the_last_one() -> None:
    with Broker(topics=["orders"], behaviour="kafka") as broker:
        for value in ("a", "b", "c"):
            broker.produce("orders", value, transactional_id="t")
        codes = {each.code for each in broker.history.requests() if each.transactional_id == "t"}
        assert codes <= {"NONE", "CONCURRENT_TRANSACTIONS", ""}
        client = Producer(broker.conf(transactional_id="u"))
        client.init_transactions(HANG_S)
        for _ in range(2):
            client.begin_transaction()
            client.produce("orders", b"d")
            client.commit_transaction(HANG_S)
        assert any(each.code == "CONCURRENT_TRANSACTIONS" for each in broker.history.requests())


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
