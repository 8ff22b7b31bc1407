"""A committed transaction in a broker that the Kafka module of Testcontainers for Python starts.

    python transaction.py IMAGE

Both ways of the module: with ZooKeeper, which is its default, and with KRaft.
"""

import sys
from typing import Final

from confluent_kafka import Consumer, Producer
from testcontainers.community.kafka import KafkaContainer

HANG_S: Final = 120.0
"""What takes longer hangs."""


def main(image: str) -> None:
    """Start the image in each way. Raises if the record is not read."""
    for way, container in (("ZooKeeper", KafkaContainer(image)), ("KRaft", KafkaContainer(image).with_kraft())):
        with container:
            commit_and_read(container.get_bootstrap_server())
        print(f"{way}: committed and read")


def commit_and_read(address: str) -> None:
    """Commit a record, and read it as read_committed. Raises if it is not there."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce("orders", value="committed")
    producer.commit_transaction(HANG_S)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["orders"])
    (message,) = consumer.consume(1, timeout=HANG_S)
    consumer.close()
    assert message.error() is None, message.error()
    assert message.value() == b"committed", message.value()


if __name__ == "__main__":
    main(*sys.argv[1:])
