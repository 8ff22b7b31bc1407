"""A transaction that outlives its timeout, and what its unmodified client makes of it: the rows of transactions.md 12.4
for the clients that Python has. Whom no broker can help hears clearly that it must be rebuilt, and then works.

The producers of all rows run out of time together, so that there is one wait for each client and situation.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from asked_broker import restartable_broker
from late import ACTS, ALONE, UNREPLACED, Late, prepared, wait_out
from real_clients import aio, confluent, java, kafka_python
from real_clients.base import Client, ClientRefused
from real_clients.everyone import CLIENTS
from waiting import wait_until
from wire import better_than_kafka

OTHERS: Final = [each for each in CLIENTS if each not in java.CLIENTS]
"""The Java client hears of an old epoch twice, and has a page of its own."""

LOST: Final = {"produce": 0, "produce elsewhere": 0, "commit": 0, "send offsets": 1, "abort": 1}
"""Transactions that librdkafka loses beyond the one that timed out (transactions.md 12.4)."""


@pytest.fixture(scope="module", params=UNREPLACED)
def address(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Callable[[], None]]]:
    """A broker, and what happens to it between the timeout and the return."""
    if request.param == ALONE:
        yield bootstrap, lambda: None
        return
    with restartable_broker(tmp_path_factory.mktemp("restarted")) as broker:
        yield broker.address, broker.restart


def late_of(client: Client, address: tuple[str, Callable[[], None]]) -> Iterator[dict[str, Late]]:
    scenario, late = prepared(client, address[0])
    wait_out(late.values())
    address[1]()
    yield late
    scenario.close()


@pytest.fixture(scope="module")
def of_librdkafka(address: tuple[str, Callable[[], None]]) -> Iterator[dict[str, Late]]:
    yield from late_of(confluent.CLIENT, address)


@pytest.fixture(scope="module")
def of_kafka_python(address: tuple[str, Callable[[], None]]) -> Iterator[dict[str, Late]]:
    yield from late_of(kafka_python.CLIENT, address)


@pytest.fixture(scope="module")
def of_aiokafka(address: tuple[str, Callable[[], None]]) -> Iterator[dict[str, Late]]:
    yield from late_of(aio.CLIENT, address)


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, as if it had been replaced")
@pytest.mark.parametrize("act", ACTS)
def test_librdkafka_recovers_from_a_timed_out_transaction(of_librdkafka: dict[str, Late], act: str) -> None:
    late = of_librdkafka[act]
    if act == "abort":
        late.abort()
    else:
        with pytest.raises(ClientRefused) as refused:
            ACTS[act](late)
        assert refused.value.kind == "other", "it has to abort, and is not fenced"
        late.producer.abort()
    assert late.next_transactions(late.producer) == LOST[act]
    assert late.committed() == [b"next"]


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, as if it had been replaced")
def test_kafka_python_recovers_from_a_late_record(of_kafka_python: dict[str, Late]) -> None:
    late = of_kafka_python["produce"]
    with pytest.raises(ClientRefused):
        late.produce()

    def begins() -> bool:
        try:
            late.producer.begin()
        except ClientRefused:
            return False
        return True

    wait_until(begins)
    late.producer.send(late.topic, b"next")
    late.producer.commit()
    assert late.committed() == [b"next"]


@pytest.mark.parametrize("act", ["produce elsewhere", "send offsets", "commit"])
def test_kafka_python_is_fenced_after_a_timeout_and_goes_on_when_rebuilt(
    of_kafka_python: dict[str, Late], act: str
) -> None:
    late = of_kafka_python[act]
    with pytest.raises(ClientRefused) as refused:
        ACTS[act](late)
    assert refused.value.kind == "fenced"
    late.is_rebuilt()


@pytest.mark.parametrize("act", ["produce", "produce elsewhere", "send offsets", "commit"])
def test_aiokafka_is_fenced_after_a_timeout_and_goes_on_when_rebuilt(of_aiokafka: dict[str, Late], act: str) -> None:
    late = of_aiokafka[act]
    with pytest.raises(ClientRefused) as refused:
        ACTS[act](late)
    assert refused.value.kind == "fenced"
    late.is_rebuilt()


def an_abort_succeeds_and_the_next_transaction_tells(late: Late) -> None:
    late.abort()
    late.producer.begin()
    late.producer.send(late.topic, b"late")
    with pytest.raises(ClientRefused) as refused:
        late.producer.flush()
    assert refused.value.kind == "fenced"
    late.is_rebuilt()


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, so that not even its abort succeeds")
def test_kafka_python_may_abort_after_a_timeout_and_is_fenced_at_the_next_transaction(
    of_kafka_python: dict[str, Late],
) -> None:
    an_abort_succeeds_and_the_next_transaction_tells(of_kafka_python["abort"])


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, so that not even its abort succeeds")
def test_aiokafka_may_abort_after_a_timeout_and_is_fenced_at_the_next_transaction(of_aiokafka: dict[str, Late]) -> None:
    an_abort_succeeds_and_the_next_transaction_tells(of_aiokafka["abort"])


@pytest.mark.parametrize("client", OTHERS, ids=lambda client: client.name, indirect=True)
def test_a_second_instance_fences_every_timed_out_client_for_good(client: Client, bootstrap: str) -> None:
    scenario, late = prepared(client, bootstrap)
    wait_out(late.values())
    for act, each in late.items():
        if act == "send offsets" and client.name == "franz-go":
            continue  # only in a session: see its own tests
        successor = scenario.transactional(each.transactional_id)
        with pytest.raises(ClientRefused) as refused:
            ACTS[act](each)
        assert refused.value.kind == "fenced", act
        assert each.next_transactions(successor) == 0
        assert each.committed() == [b"next"]
    scenario.close()
