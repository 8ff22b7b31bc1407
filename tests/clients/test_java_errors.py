"""What each release of the Java client does when a request of its transaction is refused: the table in docs/clients.md.

The answers to a late producer are chosen from it (coordinator/timeout_answers.py), so it has to be true.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from real_clients import java
from real_clients.base import ClientRefused, Producer
from real_clients.remote import RemoteClient
from refusing_broker import RefusingBroker
from scenario import Scenario
from toolchains import skipped_without

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
AGAIN, ABORT, FINISHED, NOT_SENT = "again", "abort", "finished", "not sent"


class Release(NamedTuple):
    """A column of the table."""

    heading: str
    client: RemoteClient
    transaction_version: int


RELEASES: Final = (
    Release("4.x, TV2", java.CLIENT, 2),
    Release("4.x, TV1", java.CLIENT, 1),
    Release("3.8, 3.9", java.CLIENT_3, 2),
    Release("2.7 to 3.7", java.CLIENT_2, 2),
    Release("2.5, 2.6", java.CLIENT_25, 2),
)


@dataclass(frozen=True)
class Open:
    """A producer with one record in a transaction."""

    scenario: Scenario
    producer: Producer
    topic: str

    def send(self) -> None:
        self.producer.send(self.topic, b"refused")
        self.producer.flush()

    def send_elsewhere(self) -> None:
        self.producer.send(self.scenario.topic(), b"refused")
        self.producer.flush()

    def send_offsets(self) -> None:
        consumer = self.scenario.consumer(group=self.scenario.name("group"))
        self.producer.send_offsets({(self.topic, 0): 1}, consumer)

    def commit(self) -> None:
        self.producer.commit()


REQUESTS: Final[dict[str, tuple[ApiKey, Callable[[Open], None]]]] = {
    "a record": (ApiKey.PRODUCE, Open.send),
    "a new partition": (ApiKey.ADD_PARTITIONS_TO_TXN, Open.send_elsewhere),
    "a new group": (ApiKey.ADD_OFFSETS_TO_TXN, Open.send_offsets),
    "offsets": (ApiKey.TXN_OFFSET_COMMIT, Open.send_offsets),
    "a commit": (ApiKey.END_TXN, Open.commit),
}


def _table() -> dict[tuple[str, str], tuple[str, ...]]:
    """(what is refused, with what error) to what each release does."""
    rows = re.findall(r"^\| ([a-z ]+): ([A-Z_]+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {(request, error): tuple(does.split(" | ")) for request, error, does in rows}


TABLE: Final = _table()


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.heading)
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[Release, RefusingBroker, Scenario]]:
    release: Release = request.param
    with skipped_without():
        release.client.start()
    with RefusingBroker(eosin_transaction_version=release.transaction_version) as broker:
        scenario = Scenario(release.client, broker.address)
        yield release, broker, scenario
        scenario.close()


@pytest.mark.parametrize(("request_", "error"), TABLE)
def test_each_release_does_what_the_page_says(
    refusing: tuple[Release, RefusingBroker, Scenario], request_: str, error: str
) -> None:
    release, broker, scenario = refusing
    topic, producer = scenario.topic(), scenario.transactional()
    producer.begin()
    producer.send(topic, b"sent")
    producer.flush()
    api, act = REQUESTS[request_]
    broker.refuse_next(api, ErrorCode[error])
    refused = _fails(lambda: act(Open(scenario, producer, topic)))
    if not broker.stop_refusing():
        does = NOT_SENT
    elif not refused:
        does = AGAIN
    else:
        does = FINISHED if _fails(producer.abort) or _fails(lambda: _whole_transaction(producer, topic)) else ABORT
    assert does == TABLE[request_, error][RELEASES.index(release)]


def test_the_page_has_these_releases() -> None:
    assert f"| what is refused | {' | '.join(release.heading for release in RELEASES)} |" in PAGE.read_text()
    assert {request for request, _ in TABLE} == REQUESTS.keys()
    assert {word for does in TABLE.values() for word in does} == {AGAIN, ABORT, FINISHED, NOT_SENT}


def _whole_transaction(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic, b"next")
    producer.commit()


def _fails(call: Callable[[], None]) -> bool:
    try:
        call()
    except ClientRefused:
        return True
    return False
