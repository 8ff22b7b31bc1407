"""A commit of kafka-python says nothing of a record that was refused (docs/clients/python.md)."""

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.errors import OutOfOrderSequenceNumberError, UnknownProducerIdError
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.lab_thread import end_idle_threads


@pytest.fixture(scope="module", autouse=True)
def _no_thread_is_kept() -> Iterator[None]:
    yield
    end_idle_threads()


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", OutOfOrderSequenceNumberError),
        ("UNKNOWN_PRODUCER_ID", UnknownProducerIdError),
    ],
)
def test_a_commit_returns_although_its_record_was_refused_and_nothing_is_committed(
    code: str, raised: type[Exception]
) -> None:
    """Its client has asked for a new epoch meanwhile, by which the transaction is aborted."""
    with Broker(topics=["orders"]) as eosin:
        producer = KafkaProducer(**eosin.kwargs(transactional_id="t"))
        producer.init_transactions()
        producer.begin_transaction()
        with eosin.faults.on("Produce").error(code):
            sent = producer.send("orders", b"one book", partition=0)
            producer.commit_transaction()
        with pytest.raises(raised):
            sent.get(timeout=HANG_S)
        producer.close()
        assert eosin.topic("orders").values() == []
        assert eosin.history.requests("EndTxn") == []
