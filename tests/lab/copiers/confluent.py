"""A transactional copier of confluent-kafka, as an application is written: `python confluent.py [BUG]`.

It reads `input` as a member of a group and writes each record to `output`, in transactions with its offsets. After an
error it aborts, or builds a new producer, and reads on from the committed offsets. BUG plants one of the mistakes of
`BUGS`, so that a test can see it found.
"""

import os
import signal
import sys
import threading
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BUGS = ("", "offsets-outside", "swallows", "same-producer", "uncommitted", "fresh-id")
BUG = sys.argv[1] if len(sys.argv) > 1 else ""
assert BUG in BUGS, f"BUG is one of {BUGS}"
BOOTSTRAP = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
FAST = {
    "bootstrap.servers": BOOTSTRAP,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "enable.sparse.connections": False,
    "log_level": 2,
    "metadata.recovery.strategy": "none",
}
CALL_S = float(os.environ.get("COPIER_CALL_S", "3"))
POLL_S = CALL_S / 30
STUCK_AFTER_S = 4
is_stopped = False
alive_at = time.monotonic()


def stop(*_: object) -> None:
    global is_stopped
    is_stopped = True


def watch() -> None:
    """End the process when it makes no progress: librdkafka can wait for ever (docs/clients.md)."""
    while time.monotonic() < alive_at + STUCK_AFTER_S:
        time.sleep(0.1)
    print("copier: stuck", file=sys.stderr, flush=True)
    os._exit(3)


def new_producer() -> Producer:
    transactional_id = f"copier-{uuid.uuid4()}" if BUG == "fresh-id" else "copier-1"
    producer = Producer({**FAST, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(CALL_S)
    return producer


def new_consumer() -> Consumer:
    consumer = Consumer(
        {
            **FAST,
            "group.id": "copiers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted" if BUG == "uncommitted" else "read_committed",
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.subscribe(["input"])
    return consumer


def copy(consumer: Consumer, producer: Producer) -> None:
    """Copy some records in one transaction. Raises KafkaException."""
    records = [each for each in consumer.consume(20, POLL_S) if not each.error()]
    if not records:
        return
    producer.begin_transaction()
    for each in records:
        producer.produce("output", each.value(), key=each.key(), partition=each.partition())
    ends = {(each.topic(), each.partition()): each.offset() + 1 for each in records}
    offsets = [TopicPartition(*place, offset) for place, offset in ends.items()]
    if BUG == "offsets-outside":
        consumer.commit(offsets=offsets, asynchronous=False)
    else:
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), CALL_S)
    for _ in range(10):
        try:
            return producer.commit_transaction(CALL_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    raise KafkaException("the outcome is unknown")


def rewind(consumer: Consumer) -> None:
    """Go back to the committed offsets. Raises KafkaException."""
    for each in consumer.committed(consumer.assignment(), CALL_S):
        consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


def recovered(error: KafkaException, consumer: Consumer, producer: Producer) -> Producer:
    """The producer to go on with."""
    print(f"copier: {error}", file=sys.stderr, flush=True)
    if BUG == "swallows":
        return producer
    needs_another = not getattr(error.args[0], "txn_requires_abort", lambda: False)()
    if not needs_another or BUG == "same-producer":
        try:
            producer.abort_transaction(CALL_S)
        except KafkaException as failed:
            print(f"copier: {failed}", file=sys.stderr, flush=True)
            needs_another = True
    if needs_another and BUG != "same-producer":
        producer = new_producer()
    rewind(consumer)
    return producer


def main() -> None:
    global alive_at
    signal.signal(signal.SIGTERM, stop)
    producer = new_producer()
    consumer = new_consumer()
    threading.Thread(target=watch, daemon=True).start()
    while not is_stopped:
        alive_at = time.monotonic()
        try:
            copy(consumer, producer)
        except KafkaException as error:
            producer = recovered(error, consumer, producer)
    consumer.close()


if __name__ == "__main__":
    main()
