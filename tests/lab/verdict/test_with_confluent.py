"""Applications of confluent-kafka before the judge: one that is right, and one with the usual fault."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import EosinAssertion
from eosin.lab.verdict.findings import Finding

pytestmark = pytest.mark.process
NAMES = [f"order-{number}" for number in range(12)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "invoices": 1}) as started:
        for name in NAMES:
            started.produce("orders", name, key=name)
        yield started


def invoice(broker: Broker, *, offsets_outside: bool) -> None:
    """Copy the orders in transactions of three; the second is aborted once, and done again after a restart from the
    committed offsets. With `offsets_outside` these are committed whether or not the transaction is."""
    producer = Producer(broker.conf(transactional_id="invoicing-1"))
    producer.init_transactions(HANG_S)
    has_failed = False
    consumer = None
    done = 0
    while done < len(NAMES):
        if consumer is None:
            consumer = Consumer(broker.conf(group_id="invoicing", enable_auto_commit=False))
            (place,) = consumer.committed([TopicPartition("orders", 0)], HANG_S)
            done = max(0, place.offset)
            consumer.assign([TopicPartition("orders", 0, done)])
            continue
        records = consumer.consume(3, HANG_S)
        producer.begin_transaction()
        for each in records:
            producer.produce("invoices", each.value(), key=each.key())
        after = [TopicPartition("orders", 0, done + len(records))]
        if offsets_outside:
            consumer.commit(offsets=after, asynchronous=False)
        else:
            producer.send_offsets_to_transaction(after, consumer.consumer_group_metadata(), HANG_S)
        if done and not has_failed:
            has_failed = True
            producer.flush(HANG_S)
            producer.abort_transaction(HANG_S)
            consumer.close()
            consumer = None
            continue
        producer.commit_transaction(HANG_S)
        done = after[0].offset
    if consumer is not None:
        consumer.close()


def test_an_application_that_aborts_and_goes_on_is_exactly_once(broker: Broker) -> None:
    invoice(broker, offsets_outside=False)
    broker.wait_until_consumed("invoicing", "orders", timeout=HANG_S)
    verdict = broker.assert_exactly_once("orders", "invoices", "invoicing")
    assert verdict.output_records == len(NAMES)
    (aborted,) = broker.history.requests("EndTxn", transactional_id="invoicing-1", detail="abort*")
    assert aborted.link is not None
    assert "rdkafka" in aborted.link.software
    broker.assert_requests(["InitProducerId", "TxnOffsetCommit", {"api": "EndTxn", "detail": "abort*"}, "EndTxn"])


def test_offsets_outside_of_the_transaction_lose_what_is_aborted(broker: Broker) -> None:
    invoice(broker, offsets_outside=True)
    with pytest.raises(EosinAssertion) as failed:
        broker.assert_exactly_once("orders", "invoices", "invoicing")
    (finding,) = failed.value.findings
    assert isinstance(finding, Finding)
    assert finding.kind == "lost"
    assert len(finding.evidence) == 3
    assert 'orders-0:3 key "order-3" "order-3"; written, but not visible: invoices-0:' in finding.evidence[0]
    assert finding.evidence[0].endswith("aborted")
