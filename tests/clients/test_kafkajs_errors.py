"""What kafkajs does when a request of its transaction is refused: its table in docs/clients/kafkajs.md."""

from collections.abc import Iterator
from typing import Final

import pytest
from real_clients import kafkajs
from refused import ABORT, AGAIN, FINISHED, REQUESTS, page, reaction, table
from refusing_broker import RefusingBroker
from scenario import Scenario
from toolchains import skipped_without

TABLE: Final = table("kafkajs")


@pytest.fixture(scope="module")
def refusing() -> Iterator[tuple[RefusingBroker, Scenario]]:
    with skipped_without():
        kafkajs.CLIENT.start()
    with RefusingBroker() as broker:
        scenario = Scenario(kafkajs.CLIENT, broker.address)
        yield broker, scenario
        scenario.close()


@pytest.mark.parametrize(("request_", "error"), TABLE)
def test_kafkajs_reacts_to_refusals_as_the_page_says(
    refusing: tuple[RefusingBroker, Scenario], request_: str, error: str
) -> None:
    broker, scenario = refusing
    assert (reaction(broker, scenario, request_, error),) == TABLE[request_, error]


def test_the_page_has_every_request_of_kafkajs() -> None:
    assert "| what is refused | kafkajs |" in page("kafkajs")
    assert {request for request, _ in TABLE} == REQUESTS.keys()
    assert {word for does in TABLE.values() for word in does} == {AGAIN, ABORT, FINISHED}
