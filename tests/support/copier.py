"""A transactional copier: one process that moves one partition of a topic to another, each record exactly once.

    python copier.py CLIENT BOOTSTRAP SOURCE TARGET PARTITION COUNT SEED

It commits its position inside the transactions that write its output, aborts some of them on purpose, and starts
itself anew after any failure, as a supervisor would do; also when a transaction takes too long, since each of the
clients has a way to wait for ever when its only broker goes away (docs/clients.md). It ends when COUNT records are
copied. EOSIN_COPIER_STUCK_AFTER_S, EOSIN_COPIER_GIVE_UP_AFTER_S and EOSIN_COPIER_LARGEST_BATCH change what the
constants of these names say.
"""

import contextlib
import faulthandler
import os
import random
import sys
import threading
import time

import own_client
from real_clients import aio, confluent, java, kafka_python
from real_clients.base import Client, ClientRefused, Consumer, Producer

CLIENTS: dict[str, Client] = {
    each.name: each
    for each in (confluent.CLIENT, kafka_python.CLIENT, aio.CLIENT, own_client.CLIENT, java.CLIENT, java.CLIENT_3)
}
ABORTED_SHARE = 0.3
LARGEST_BATCH = int(os.environ.get("EOSIN_COPIER_LARGEST_BATCH", "800"))
STUCK_AFTER_S = float(os.environ.get("EOSIN_COPIER_STUCK_AFTER_S", "6"))
GIVE_UP_AFTER_S = float(os.environ.get("EOSIN_COPIER_GIVE_UP_AFTER_S", "240"))


class Watchdog:
    """Replaces this process by a fresh one when nobody has shown a sign of life for `STUCK_AFTER_S`."""

    def __init__(self) -> None:
        self._alive_at = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def alive(self) -> None:
        """Something was finished just now."""
        self._alive_at = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() < self._alive_at + STUCK_AFTER_S:
            time.sleep(0.2)
        print(f"a copier is stuck and starts again: {sys.argv[1:]}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        os.execv(sys.executable, [sys.executable, *sys.argv])


class Copier:
    """The work of one instance, from its start to its first failure."""

    def __init__(self, client: Client, bootstrap: str, source: str, target: str, partition: int) -> None:
        self._where = (source, partition)
        self._target = target
        self._consumer: Consumer = client.consumer(bootstrap, group=f"copy-{source}-{partition}", max_wait_ms=100)
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
        position = self._consumer.committed(*self._where) or 0
        self._consumer.assign({self._where: position})
        return position

    def close(self) -> None:
        # A client that failed may fail again on its way out.
        with contextlib.suppress(ClientRefused, OSError):
            self._producer.close()
        with contextlib.suppress(ClientRefused, OSError):
            self._consumer.close()


def main() -> None:
    """Run instances until one of them finishes the work."""
    name, bootstrap, source, target, partition, count, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    watchdog = Watchdog()
    give_up = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        copier = None
        try:
            copier = Copier(CLIENTS[name], bootstrap, source, target, int(partition))
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
