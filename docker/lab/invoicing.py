"""Writes an invoice for each order, exactly once: an application to take through incidents (docs/lab/run.md).

    KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092 python invoicing.py

It reads the topic orders as a member of the group invoicing, and writes the topic invoices until SIGTERM. The
transaction that writes the invoices commits the offsets of the orders too. After any error a new session begins: its
producer has the same transactional id, so that the broker finishes or aborts what the last one has left, and it reads
on behind what is committed.
"""

import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException, Producer

ADDRESS = {
    "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    "metadata.recovery.strategy": "none",  # librdkafka's issue 5511
}
AT_ONCE = 20
"""Orders in one transaction."""
POLL_S = 0.1
CALL_S = 10.0
"""For so long a call waits for the broker, before another session begins."""


def main() -> None:
    """One session after the other, until SIGTERM."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    while not stopping:
        consumer = Consumer(
            {
                **ADDRESS,
                "group.id": "invoicing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,  # the transaction commits them
            }
        )
        try:
            producer = Producer({**ADDRESS, "transactional.id": "invoicing-1"})
            producer.init_transactions(CALL_S)
            consumer.subscribe(["orders"])
            while not stopping:
                invoice(consumer, producer)
        except KafkaException as error:
            print(f"invoicing: begins anew after {error}", file=sys.stderr, flush=True)
        finally:
            consumer.close()


def invoice(consumer: Consumer, producer: Producer) -> None:
    """Write the invoices of the next orders, if there are any, in one transaction. Raises KafkaException."""
    orders = [each for each in consumer.consume(AT_ONCE, POLL_S) if not each.error()]
    if not orders:
        return
    producer.begin_transaction()
    for order in orders:
        producer.produce("invoices", key=order.key(), value=order.value(), partition=order.partition())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), CALL_S)
    producer.commit_transaction(CALL_S)


if __name__ == "__main__":
    main()
