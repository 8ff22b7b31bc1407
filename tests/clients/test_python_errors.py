"""What Python's clients do when a request of their transaction is refused: their table in docs/clients/python.md."""

from collections.abc import Iterator
from typing import Final

import pytest
from real_clients import aio, confluent, kafka_python
from real_clients.base import Client
from refused import ABORT, AGAIN, FINISHED, REQUESTS, page, reaction, table
from refusing_broker import RefusingBroker
from scenario import Scenario

TABLE: Final = table("python")
COLUMNS: Final = (confluent.CLIENT, kafka_python.CLIENT, aio.CLIENT)


@pytest.fixture(scope="module", params=COLUMNS, ids=lambda client: client.name)
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[Client, RefusingBroker, Scenario]]:
    client: Client = request.param
    with RefusingBroker() as broker:
        scenario = Scenario(client, broker.address)
        yield client, broker, scenario
        scenario.close()


@pytest.mark.parametrize(("request_", "error"), TABLE)
def test_each_python_client_reacts_to_refusals_as_the_page_says(
    refusing: tuple[Client, RefusingBroker, Scenario], request_: str, error: str
) -> None:
    client, broker, scenario = refusing
    assert reaction(broker, scenario, request_, error) == TABLE[request_, error][COLUMNS.index(client)]


def test_the_page_has_every_request_of_every_client() -> None:
    assert f"| what is refused | {' | '.join(client.name for client in COLUMNS)} |" in page("python")
    assert {request for request, _ in TABLE} == REQUESTS.keys()
    assert {word for does in TABLE.values() for word in does} == {AGAIN, ABORT, FINISHED}
