"""A transactional copier: one process that moves one partition of a topic to another, each record exactly once.

    python copier.py CLIENT BOOTSTRAP SOURCE TARGET PARTITION COUNT SEED

It commits its position inside the transactions that write its output, aborts some of them on purpose, and starts
itself anew after any failure, as a supervisor would do; also when a transaction takes too long, since each of the
clients has a way to wait for ever when its only broker goes away (docs/clients.md). It ends when COUNT records are
copied. Before a stuck instance goes, it prints its stack and what a client in Python did last.
EOSIN_COPIER_STUCK_AFTER_S, EOSIN_COPIER_GIVE_UP_AFTER_S and EOSIN_COPIER_LARGEST_BATCH change what the constants of
these names say. EOSIN_COPIER_BESIDE_APACHE_KAFKA=1 has librdkafka ask for the position of aiokafka, which takes a
refusal by a coordinator of Apache Kafka for a group that has committed nothing (docs/clients/python.md).
"""

import contextlib
import faulthandler
import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import own_client
from real_clients import aio, confluent, franz_go, java, kafka_python, kafkajs
from real_clients.base import Client, ClientRefused, Consumer, Producer

CLIENTS: dict[str, Client] = {
    each.name: each
    for each in (
        confluent.CLIENT,
        kafka_python.CLIENT,
        aio.CLIENT,
        own_client.CLIENT,
        java.CLIENT,
        java.CLIENT_3,
        franz_go.CLIENT,
        kafkajs.CLIENT,
    )
}
ABORTED_SHARE = 0.3
LARGEST_BATCH = int(os.environ.get("EOSIN_COPIER_LARGEST_BATCH", "800"))
STUCK_AFTER_S = float(os.environ.get("EOSIN_COPIER_STUCK_AFTER_S", "6"))
BESIDE_APACHE_KAFKA = os.environ.get("EOSIN_COPIER_BESIDE_APACHE_KAFKA") == "1"
GIVE_UP_AFTER_S = float(os.environ.get("EOSIN_COPIER_GIVE_UP_AFTER_S", "240"))


LOGGERS = ("kafka.producer.sender", "kafka.producer.transaction_manager", "aiokafka.producer.sender")
"""The loggers that show each request of a transaction and its response."""
TURNS = ("Nodes with data ready to send", "Created 0 produce requests", "not ready; delaying produce")
"""The lines that kafka-python logs in each turn of its sender in which it sends nothing."""


class LastSaid(logging.Handler):
    """Keeps the last lines of a client's log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("    %(asctime)s %(message)s"))
        self.lines: deque[str] = deque(maxlen=40)
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).setLevel(logging.DEBUG)

    def emit(self, record: logging.LogRecord) -> None:
        said = self.format(record)
        if not any(turn in said for turn in TURNS):
            self.lines.append(said[:400])


class Watchdog:
    """Replaces this process by a fresh one when nobody has shown a sign of life for `STUCK_AFTER_S`."""

    def __init__(self, leave: Callable[[], object] = lambda: None) -> None:
        """`leave` is called before the process is replaced."""
        self._leave = leave
        self._alive_at = time.monotonic()
        self._last_said = LastSaid()
        threading.Thread(target=self._watch, daemon=True).start()

    def alive(self) -> None:
        """Something was finished just now."""
        self._alive_at = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() < self._alive_at + STUCK_AFTER_S:
            time.sleep(0.2)
        print(f"a copier is stuck and starts again: {sys.argv[1:]}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        print("\n".join(["it said at last:", *self._last_said.lines]), file=sys.stderr, flush=True)
        self._leave()
        os.execv(sys.executable, [sys.executable, *sys.argv])


def keep_what_was_said(books: Path, series: int, said: str) -> None:
    """Keep what the copiers of a series `said` beside the books of a campaign. Raises OSError."""
    books.parent.mkdir(parents=True, exist_ok=True)
    books.with_name(f"{books.stem}-stuck-{series}.log").write_text(said)


class Copier:
    """The work of one instance, from its start to its first failure."""

    def __init__(self, client: Client, bootstrap: str, source: str, target: str, partition: int) -> None:
        self._where = (source, partition)
        self._target = target
        self._new_consumer = lambda: client.consumer(bootstrap, group=f"copy-{source}-{partition}", max_wait_ms=100)
        self._can_go_back = client is not kafkajs.CLIENT  # which can subscribe once
        self._consumer: Consumer = self._new_consumer()
        self._asked: Consumer | None = None
        """Knows the position, if the consumer is not to be relied on."""
        if client is aio.CLIENT and BESIDE_APACHE_KAFKA:
            self._asked = confluent.CLIENT.consumer(bootstrap, group=f"copy-{source}-{partition}")
        self._producer: Producer = client.producer(bootstrap, transactional_id=f"copy-{source}-{partition}")

    def run(self, count: int, chance: random.Random, watchdog: Watchdog) -> None:
        """Copy until `count` records of the partition are done. Raises ClientRefused when a call fails."""
        # First the fence, then the position: the other way round a predecessor could still move it.
        self._producer.init()
        position = self._restart()
        while position < count:
            watchdog.alive()
            batch = self._consumer.read(chance.randint(1, LARGEST_BATCH), timeout_s=1)
            if not batch:
                continue
            self._producer.begin()
            for record in batch:
                self._producer.send(self._target, record.value or b"", partition=self._where[1])
            self._producer.send_offsets({self._where: batch[-1].offset + 1}, self._consumer)
            if chance.random() < ABORTED_SHARE:
                self._producer.flush()
                self._producer.abort()
                position = self._restart()
            else:
                self._producer.commit()
                position = batch[-1].offset + 1

    def _restart(self) -> int:
        position = (self._asked or self._consumer).committed(*self._where) or 0
        if not self._can_go_back:
            self._consumer.close()
            self._consumer = self._new_consumer()
        self._consumer.assign({self._where: position})
        return position

    def close(self) -> None:
        # A client that failed may fail again on its way out.
        with contextlib.suppress(ClientRefused, OSError):
            self._producer.close()
        for consumer in filter(None, (self._consumer, self._asked)):
            with contextlib.suppress(ClientRefused, OSError):
                consumer.close()


class SessionCopier:
    """The same with franz-go, which reads and writes with one client. The source has one partition."""

    def __init__(self, client: Client, bootstrap: str, source: str, target: str, partition: int) -> None:
        assert partition == 0, "a session reads every partition of its topic"
        group = f"copy-{source}-{partition}"
        self._target = target
        self._session = franz_go.Session(bootstrap, transactional_id=group, group=group, topics=[source])
        self._asking: Consumer = client.consumer(bootstrap, group=group)
        self._source = source

    def run(self, count: int, chance: random.Random, watchdog: Watchdog) -> None:
        """As the other's."""
        position = self._asking.committed(self._source, 0) or 0
        while position < count:
            watchdog.alive()
            self._session.begin()
            batch = self._session.read(chance.randint(1, LARGEST_BATCH), timeout_s=1)
            for record in batch:
                self._session.send(self._target, record.value or b"")
            # Without a record there is nothing to commit; what it reads again after an abort is its own doing.
            if self._session.end(commit=bool(batch) and chance.random() >= ABORTED_SHARE):
                position = batch[-1].offset + 1

    def close(self) -> None:
        """As the other's."""
        with contextlib.suppress(ClientRefused, OSError):
            self._session.close()
        with contextlib.suppress(ClientRefused, OSError):
            self._asking.close()


def main() -> None:
    """Run instances until one of them finishes the work."""
    name, bootstrap, source, target, partition, count, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    watchdog = Watchdog()
    give_up = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        copier: Copier | SessionCopier | None = None
        try:
            made = SessionCopier if name == franz_go.CLIENT.name else Copier
            copier = made(CLIENTS[name], bootstrap, source, target, int(partition))
            copier.run(int(count), chance, watchdog)
        except (ClientRefused, OSError, TimeoutError) as failure:
            print(f"copier {partition} ({name}) starts again after {failure!r}", file=sys.stderr, flush=True)
            if time.monotonic() > give_up:
                sys.exit(1)
            time.sleep(0.2)
        else:
            return
        finally:
            if copier is not None:
                copier.close()


if __name__ == "__main__":
    main()
