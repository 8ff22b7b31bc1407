"""The broker that is asked: a fresh Eosin, Apache Kafka from its published jars, or whoever answers at an address.

Always true: at most two nodes of Apache Kafka run, for all test processes together: one as it is released, and a small
one at `transaction.version=1` for what old transactions come to. An address is tried before anything is asked of it.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apache_kafka import ApacheKafka
from asked_broker import ANOTHER, ANOTHER_AT_FIRST, RESTART, RESTART_AT_FIRST
from kafka_releases import REFERENCE
from waiting import HANG_S

from conformance.restarts import listening
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.runtime.version import VERSION

KAFKA_SETTINGS: Final = {
    "offsets.topic.num.partitions": "50",  # its default, unlike that of tests that want a quick start
    "group.consumer.assignment.interval.ms": "0",  # its second would only make the run longer
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",  # 10 s would only make the run longer
}
_HEAP_MB: Final = 768
_SMALL_HEAP_MB: Final = 256


class NobodyThere(Exception):
    """No Kafka broker answers at the address."""


@dataclass(frozen=True)
class Asked:
    """A broker, and how test processes find it: with no variables each starts a fresh Eosin."""

    name: str
    file_stem: str
    """Names the file of its results: the same for every version of Eosin, or of Apache Kafka, so that runs compare."""
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Whether all test processes ask the same one, so that it must not be restarted while others ask."""
        return bool(self.variables)

    @property
    def can_be_restarted(self) -> bool:
        return not self.is_shared or RESTART in self.variables


def file_stem(name: str) -> str:
    """The name of a broker as that of a file, without its suffix."""
    return name.lower().replace(" ", "-").replace(":", "-")


def fresh_eosin() -> Asked:
    """One for each test process."""
    return Asked(f"Eosin {VERSION}", "eosin")


def at(
    bootstrap: str, *, restart: str | None = None, first: str | None = None, restart_first: str | None = None
) -> Asked:
    """The broker at an address; `restart` is a command that restarts it. `first` is one of its kind that is at
    transaction.version=1. Raises NobodyThere."""
    for address in filter(None, (bootstrap, first)):
        try:
            asyncio.run(_answers(address))
        except (ClientError, OSError, TimeoutError, ValueError) as problem:
            told = " ".join(str(problem).split()) or f"nothing within {HANG_S} s"
            raise NobodyThere(f"no Kafka broker answers at {address}: {told}") from None
    given = {ANOTHER: bootstrap, ANOTHER_AT_FIRST: first, RESTART: restart, RESTART_AT_FIRST: restart_first}
    return Asked(bootstrap, file_stem(bootstrap), {name: value for name, value in given.items() if value})


async def _answers(bootstrap: str) -> None:
    async with asyncio.timeout(HANG_S), Client(bootstrap) as client:
        await client.fetch_metadata()


@contextlib.contextmanager
def apache_kafka(release: str = REFERENCE) -> Iterator[Asked]:
    """Both nodes of a release, which test processes may restart; stopped at the end. Raises NotHere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        newest = ApacheKafka(folder / "second", settings=KAFKA_SETTINGS, heap_mb=_HEAP_MB, release=release)
        first = ApacheKafka(
            folder / "first", settings=KAFKA_SETTINGS, transaction_version=1, heap_mb=_SMALL_HEAP_MB, release=release
        )
        nodes = {RESTART: newest, RESTART_AT_FIRST: first}
        with newest, first, listening(folder / "restarts", nodes) as commands:
            addresses = {ANOTHER: newest.address, ANOTHER_AT_FIRST: first.address}
            name = f"Apache Kafka {newest.version}"
            stem = "apache-kafka" if release == REFERENCE else file_stem(name)
            yield Asked(name, stem, {**addresses, **commands})
