"""What each release of Java does when a request of its transaction is refused: the table in docs/clients/java.md.

The answers to a late producer are chosen from it (coordinator/transactions/rules/timeout_errors.py), so it has to be
true.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from real_clients import java
from real_clients.remote import RemoteClient
from refused import ABORT, AGAIN, FINISHED, NOT_SENT, REQUESTS, page, reaction, table
from refusing_broker import RefusingBroker
from scenario import Scenario
from toolchains import skipped_without


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


TABLE: Final = table("java")
LEFT_OUT: Final = ("2.7 to 3.7", "2.5, 2.6")
"""Releases that `make proof-clients` asks; `test_timed_out_java.py` has each of them with a real timeout."""
PARAMETERS: Final = [
    pytest.param(each, id=each.heading, marks=pytest.mark.long if each.heading in LEFT_OUT else ()) for each in RELEASES
]


@pytest.fixture(scope="module", params=PARAMETERS)
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[Release, RefusingBroker, Scenario]]:
    release: Release = request.param
    with skipped_without():
        release.client.start()
    with RefusingBroker(eosin_transaction_version=release.transaction_version) as broker:
        scenario = Scenario(release.client, broker.address)
        yield release, broker, scenario
        scenario.close()


@pytest.mark.parametrize(("request_", "error"), TABLE)
def test_each_java_release_reacts_to_refusals_as_the_page_says(
    refusing: tuple[Release, RefusingBroker, Scenario], request_: str, error: str
) -> None:
    release, broker, scenario = refusing
    assert reaction(broker, scenario, request_, error) == TABLE[request_, error][RELEASES.index(release)]


def test_the_page_names_the_tested_java_releases() -> None:
    assert f"| what is refused | {' | '.join(release.heading for release in RELEASES)} |" in page("java")
    assert {request for request, _ in TABLE} == REQUESTS.keys()
    assert {word for does in TABLE.values() for word in does} == {AGAIN, ABORT, FINISHED, NOT_SENT}
