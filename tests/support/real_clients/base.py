"""The interface that the scenarios of `tests/clients` are written against.

An adapter translates calls and errors; it never retries, hides or invents anything that its client does not do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from waiting import HANG_S

SESSION_TIMEOUT_MS: Final = 60_000
"""Of members of groups: a busy machine keeps one silent for many seconds."""


def replicas(bootstrap: str) -> int:
    """Of each topic that a scenario creates: as many as there are brokers in the address."""
    return bootstrap.count(",") + 1


@dataclass(frozen=True, slots=True)
class Received:
    """One record as a consumer saw it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class ClientRefused(Exception):
    """A client call failed. `kind` is what the application has to do about it."""

    def __init__(self, kind: str, cause: BaseException | str) -> None:
        super().__init__(f"{kind}: {cause!r}")
        self.kind = kind
        """`fenced` (another instance took over), `timeout` (transaction timeout refused), `group` (lost its membership)
        or `other`."""


Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) to the next offset to read."""


class Consumer(Protocol):
    """A consumer; by default read_committed, from the earliest offset, without auto-commit."""

    def assign(self, starts: Offsets) -> None: ...

    def subscribe(self, topics: Iterable[str]) -> None: ...

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        """Up to `count` records, sooner or later; what there is when `timeout_s` has passed."""

    def assignment(self) -> set[tuple[str, int]]: ...

    def commit(self, offsets: Offsets) -> None: ...

    def committed(self, topic: str, partition: int) -> int | None: ...

    def end_offset(self, topic: str, partition: int) -> int:
        """The last stable offset for read_committed, else the high watermark."""

    def close(self) -> None: ...


def read_all(consumer: Consumer, count: int) -> list[Received]:
    """`count` records, however long they take, and one more if it comes within a moment: there should be none."""
    return consumer.read(count) + consumer.read(1, timeout_s=1)


class Producer(Protocol):
    """A producer; every failed call raises ClientRefused."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, *, partition: int = 0, key: bytes | None = None) -> None: ...

    def flush(self) -> None:
        """Wait until every record sent so far is acknowledged or refused; raise for the first refused one."""

    def send_offsets(self, offsets: Offsets, consumer: Consumer) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Admin(Protocol):
    """The admin calls that all three clients have."""

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topics(self) -> dict[str, int]:
        """Topic name to its number of partitions."""

    def add_partitions(self, topic: str, total: int) -> None: ...

    def topic_config(self, topic: str, name: str) -> str: ...

    def set_topic_config(self, topic: str, name: str, value: str) -> None: ...

    def groups(self) -> set[str]: ...

    def delete_records(self, topic: str, partition: int, before: int) -> None: ...

    def delete_group(self, group: str) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """One client library."""

    name: str

    def producer(
        self,
        bootstrap: str,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        compression: str | None = None,
    ) -> Producer: ...

    def consumer(
        self,
        bootstrap: str,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        committed_only: bool = True,
        max_wait_ms: int = 500,
    ) -> Consumer: ...

    def admin(self, bootstrap: str) -> Admin: ...
