"""A client that commits one record after the other while something is done to its cluster, and the look afterwards."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka as ck
from real_clients import confluent
from real_clients.base import ClientRefused
from waiting import HANG_S, wait_until
from wire import unique


class Committing:
    """A producer that commits one record after the other, until it is told to stop."""

    def __init__(
        self, addresses: str, topic: str, *, partitions: int = 1, security: Mapping[str, Any] | None = None
    ) -> None:
        """To so many partitions in turn, each in a transaction of its own. `security` as librdkafka wants it."""
        self.sent: list[bytes] = []
        self.error: Exception | None = None
        self._partitions = partitions
        self._producer = confluent.CLIENT.producer(addresses, transactional_id=unique("tx"), security=security)
        self._producer.init()
        self._topic = topic
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                value = b"%d" % len(self.sent)
                self._producer.begin()
                self._producer.send(self._topic, value, partition=len(self.sent) % self._partitions)
                self._producer.commit()
                self.sent.append(value)
                time.sleep(0.01)
        except (ClientRefused, ck.KafkaException) as error:
            self.error = error

    def progress(self, more: int = 10) -> None:
        """Wait until so many more are committed, or until it fails, which `stop` tells."""
        before = len(self.sent)
        wait_until(lambda: self.error is not None or len(self.sent) >= before + more)

    def stop(self) -> list[bytes]:
        """All that was committed. Raises what the client has raised: an error that it did not retry by itself."""
        self._stopped.set()
        self._thread.join(HANG_S)
        if self.error is not None:
            raise self.error
        assert not self._thread.is_alive(), "the producer did not come to an end"
        return self.sent


def read_all(address: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` values of the topic's partition 0, as a `read_committed` consumer sees them."""
    consumer = confluent.CLIENT.consumer(address, group=unique("readers"))
    consumer.assign({(topic, 0): 0})
    try:
        return [each.value for each in consumer.read(count)]
    finally:
        consumer.close()
