"""The copier that goes through incidents (`eosin lab run`): one program for each client, right or with a planted bug.

    PYTHONPATH=tests/support KAFKA_BOOTSTRAP_SERVERS=... python tests/lab/copiers/confluent.py [BUG]

It reads `input` as a member of a group and writes each record to `output`, in transactions with its offsets. After an
error it aborts, or builds a new producer, and reads on from the committed offsets. BUG plants one of the mistakes of
`BUGS`, each of which somebody has made in production, so that a test can see it found.
"""

import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

BUGS: Final[Mapping[str, str]] = {
    "compares-times": "leaves out records whose time lies ahead of its own clock",
    "counts-to-end": "commits when the last record that it has is the one before the end offset",
    "fresh-id": "takes a new transactional id at each start, and sends offsets by the group's name alone",
    "offsets-outside": "commits offsets outside of the transaction",
    "plain": "writes without transactions and without idempotence",
    "redoes": "takes a commit without an answer for failed, and writes the same records again",
    "same-producer": "aborts after an error, and never builds another producer",
    "swallows": "reports an error, and goes on with the same producer behind the records",
    "taken-for-done": "takes a transaction for done whose calls had no answer in time, or an error",
    "two-producers": "keeps the producer whose init has failed, and uses it in turns with the next one",
    "uncommitted": "reads uncommitted records",
    "unstable-offsets": "takes a new transactional id at each start, and begins at offsets that are not decided yet",
}
"""Mistakes by name."""
_IMPATIENT: Final = ("redoes", "taken-for-done", "swallows", "two-producers")
_OF_ITS_OWN: Final = ("fresh-id", "unstable-offsets")
PATIENCE_S: Final = 0.7
"""Time that an impatient copier gives a call."""
CALL_S: Final = float(os.environ.get("COPIER_CALL_S", "20"))
POLL_S: Final = 0.1
STUCK_AFTER_S: Final = 30.0
MOST_RECORDS: Final = 20
GROUP: Final = "copiers"


class Failed(Exception):
    """A call of a client failed."""

    def __init__(self, cause: object, *, needs_abort: bool = False) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.needs_abort = needs_abort
        """True if the same producer goes on after an abort."""


@dataclass(frozen=True, slots=True)
class Got:
    """A record of the input."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


Offsets = Mapping[int, int]
"""The next offset to read, by partition of the input."""


class Consumer(Protocol):
    """A member of the group that reads the input. Each call raises Failed."""

    def poll(self, most: int, seconds: float) -> list[Got]: ...

    def commit(self, offsets: Offsets) -> None: ...

    def rewind(self) -> None:
        """Go back to the committed offsets."""

    def end(self, partition: int) -> int: ...

    def close(self) -> None: ...


class Producer(Protocol):
    """A producer of the output. Each call raises Failed."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, record: Got) -> None: ...

    def send_offsets(self, offsets: Offsets, consumer: Any, *, by_name: bool) -> None: ...

    def commit(self) -> None: ...

    def flush(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """A client library. A producer without a transactional id is a plain one; a call of it takes `call_s` at most."""

    def producer(self, transactional_id: str | None, call_s: float) -> Producer: ...

    def consumer(self, *, reads_committed: bool) -> Consumer: ...


class Copier:
    """One instance."""

    def __init__(self, client: Client, bug: str) -> None:
        self._client: Final = client
        self._bug: Final = bug
        self._call_s: Final = PATIENCE_S if bug in _IMPATIENT else CALL_S
        own = uuid.uuid4().hex
        self._transactional_id: Final = (
            f"copier-{own}" if bug in _OF_ITS_OWN else None if bug == "plain" else "copier-1"
        )
        self._spare: Producer | None = None
        self._records: list[Got] = []
        """Records that are read and in no transaction yet."""
        self._is_stopped = False
        self._alive_at = time.monotonic()

    def run(self) -> None:
        """Copy until SIGTERM."""
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._watch, daemon=True).start()
        producer = self._built()
        consumer = self._client.consumer(reads_committed=self._bug not in ("uncommitted", "unstable-offsets"))
        while not self._is_stopped:
            self._alive_at = time.monotonic()
            try:
                self._read(consumer)
                if self._is_due(consumer):
                    self._copy(consumer, producer)
                    self._records = []
            except Failed as error:
                producer = self._recovered(error, consumer, producer)
            if self._spare is not None:
                producer, self._spare = self._spare, producer
        consumer.close()

    def _stop(self, *_: object) -> None:
        self._is_stopped = True

    def _watch(self) -> None:
        """End the process when it makes no progress: a client can wait for ever (docs/clients.md)."""
        while time.monotonic() < self._alive_at + STUCK_AFTER_S:
            time.sleep(0.2)
        print("copier: stuck", file=sys.stderr, flush=True)
        os._exit(3)

    def _read(self, consumer: Consumer) -> None:
        if self._records and self._bug == "redoes":
            return
        found = consumer.poll(MOST_RECORDS, POLL_S)
        if self._bug == "compares-times":
            latest = time.time() * 1000 + 60_000
            found = [each for each in found if each.timestamp_ms < latest]
        self._records += found

    def _is_due(self, consumer: Consumer) -> bool:
        if not self._records or self._bug != "counts-to-end":
            return bool(self._records)
        return all(consumer.end(partition) == offset for partition, offset in self._offsets().items())

    def _offsets(self) -> dict[int, int]:
        return {each.partition: each.offset + 1 for each in self._records}

    def _copy(self, consumer: Consumer, producer: Producer) -> None:
        """Copy what was read in one transaction. Raises Failed."""
        if self._bug == "plain":
            for each in self._records:
                producer.send(each)
            producer.flush()
            consumer.commit(self._offsets())
            return
        producer.begin()
        for each in self._records:
            producer.send(each)
        if self._bug == "offsets-outside":
            producer.flush()
            consumer.commit(self._offsets())
        else:
            producer.send_offsets(self._offsets(), consumer, by_name=self._bug in _OF_ITS_OWN)
        producer.commit()

    def _recovered(self, error: Failed, consumer: Consumer, producer: Producer) -> Producer:
        """The producer to go on with."""
        say(error)
        if self._bug in ("swallows", "two-producers"):
            self._records = []
            return producer
        if self._bug in ("taken-for-done", "redoes"):
            if self._bug == "taken-for-done":
                self._records = []
            return self._rebuilt(producer)
        self._records = []
        while not self._is_stopped:
            self._alive_at = time.monotonic()
            try:
                producer = self._mended(error, producer)
                consumer.rewind()
                break
            except Failed as again:
                say(again)
                error = again
                time.sleep(POLL_S)
        return producer

    def _mended(self, error: Failed, producer: Producer) -> Producer:
        if self._bug == "plain":
            return producer
        if error.needs_abort or self._bug == "same-producer":
            try:
                producer.abort()
            except Failed as failed:
                say(failed)
            else:
                return producer
        return producer if self._bug == "same-producer" else self._rebuilt(producer)

    def _rebuilt(self, producer: Producer) -> Producer:
        closing = threading.Thread(target=producer.close, daemon=True)
        closing.start()
        closing.join(PATIENCE_S)
        return self._built()

    def _built(self) -> Producer:
        while True:
            self._alive_at = time.monotonic()
            producer = self._client.producer(self._transactional_id, self._call_s)
            if self._bug == "plain":
                return producer
            try:
                producer.init()
            except Failed as failed:
                say(failed)
                if self._bug in ("swallows", "same-producer"):
                    return producer
                if self._bug == "two-producers" and self._spare is None:
                    self._spare = producer
                if self._is_stopped:
                    return producer
                time.sleep(POLL_S)
            else:
                return producer


def say(error: object) -> None:
    """Leave a line in the log."""
    print(f"copier: {error}", file=sys.stderr, flush=True)


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call that may take so long; one that takes longer goes on in a thread that nobody waits for.
    Raises Failed for that, and what the call raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    def made() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            errors.append(error)

    thread = threading.Thread(target=made, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Failed(TimeoutError(f"no answer within {seconds} s"))
    if errors:
        raise errors[0]
    return results[0]


def main(client: Callable[[str], Client], words: Sequence[str]) -> None:
    """Run a copier of this client at the broker that the environment names."""
    bug = words[0] if words else ""
    if bug and bug not in BUGS:
        sys.exit(f"BUG is one of {', '.join(BUGS)}, not {bug}")
    Copier(client(os.environ["KAFKA_BOOTSTRAP_SERVERS"]), bug).run()
    sys.stderr.flush()
    os._exit(0)  # clients of dead producers would wait for their brokers
