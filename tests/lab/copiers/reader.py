"""A consumer alone, as an application is written: `reader.py [uncommitted]`. It says the values that it reads."""

import os
import signal
import sys

from confluent_kafka import Consumer

POLL_S = float(os.environ.get("COPIER_POLL_S", "0.1"))
is_stopped = False


def stop(*_: object) -> None:
    global is_stopped
    is_stopped = True


signal.signal(signal.SIGTERM, stop)
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "group.id": "readers",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted" if "uncommitted" in sys.argv else "read_committed",
        "fetch.wait.max.ms": 100,
        "log_level": 2,
    }
)
consumer.subscribe(["input"])
while not is_stopped:
    records = [each for each in consumer.consume(20, POLL_S) if not each.error()]
    for record in records:
        print(record.value().decode(), flush=True)
    if records:
        consumer.commit(asynchronous=False)
consumer.close()
