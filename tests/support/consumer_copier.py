"""A member of a consumer group (KIP-848) that copies a topic to another, each batch in a transaction with its offsets.

    python consumer_copier.py CLIENT BOOTSTRAP SOURCE TARGET GROUP NAME SEED

Its partitions are those that the group's coordinator assigns; what keeps two members from copying one record is the
member epoch in each commit of offsets (KIP-447). It aborts some transactions on purpose, and begins anew as another
member after those and after any failure, also when a call hangs. It goes on until SIGTERM.
"""

import atexit
import contextlib
import random
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from copier import Watchdog
from real_clients import confluent, java
from real_clients.base import ClientRefused, Consumer, Producer

PROTOCOL: Final = {"group.protocol": "consumer"}
ABORTED_SHARE: Final = 0.1
LARGEST_BATCH: Final = 100


def _librdkafka(bootstrap: str, group: str) -> Consumer:
    config = {
        **confluent.KEEP_BROKERS,
        **PROTOCOL,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "log_level": 0,  # that brokers go away is the point
    }
    return confluent.ConfluentConsumer(config)


_JAVA: Final = java.CLIENT.secured(PROTOCOL)
MEMBERS: Final[dict[str, tuple[Callable[[str, str], Consumer], Any]]] = {
    confluent.CLIENT.name: (_librdkafka, confluent.CLIENT),
    java.CLIENT.name: (lambda bootstrap, group: _JAVA.consumer(bootstrap, group=group), java.CLIENT),
}
"""How each client becomes a member, and the client that writes."""


class Abandoned(Exception):
    """A transaction that was aborted on purpose: its records are read again."""


def copy(consumer: Consumer, producer: Producer, target: str, chance: random.Random, watchdog: Watchdog) -> None:
    """Copy until something fails. Raises ClientRefused, Abandoned."""
    while True:
        watchdog.alive()
        batch = consumer.read(chance.randint(1, LARGEST_BATCH), timeout_s=0.5)
        if not batch:
            continue
        producer.begin()
        for record in batch:
            producer.send(target, record.value or b"", partition=record.partition)
        offsets = {(record.topic, record.partition): record.offset + 1 for record in batch}
        producer.send_offsets(offsets, consumer)
        if chance.random() < ABORTED_SHARE:
            producer.abort()
            raise Abandoned
        producer.commit()


def main() -> None:
    """Be one member after the other."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    name, bootstrap, source, target, group, own_name, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    watchdog = Watchdog(atexit._run_exitfuncs)  # what is left of Java ends as with the process
    new_consumer, client = MEMBERS[name]
    while True:
        consumer: Consumer | None = None
        producer: Producer | None = None
        try:
            producer = client.producer(bootstrap, transactional_id=f"{group}-{own_name}")
            producer.init()
            consumer = new_consumer(bootstrap, group)
            consumer.subscribe([source])
            copy(consumer, producer, target, chance, watchdog)
        except (ClientRefused, Abandoned, OSError, TimeoutError) as failure:
            if not isinstance(failure, Abandoned):
                print(f"{own_name} ({name}) begins anew after {failure!r}", file=sys.stderr, flush=True)
        finally:
            for each in (consumer, producer):
                if each is not None:
                    with contextlib.suppress(ClientRefused, OSError):
                        each.close()


if __name__ == "__main__":
    main()
