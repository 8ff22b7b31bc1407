"""A transaction that outlives its timeout, and what its unmodified client makes of it: the rows of transactions.md 12.4
for the clients that Python has. Whom no broker can help hears clearly that it must be rebuilt, and then works.

The producers of all rows run out of time together, so that there is one wait for each client and situation.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from broker_process import BrokerProcess, wait_until
from real_clients import aio, confluent, kafka_python
from real_clients.base import Client, ClientRefused, Producer
from scenario import Scenario

pytestmark = pytest.mark.skipif("EOSIN_TEST_BOOTSTRAP" in os.environ, reason="no other broker lets them recover")

TIMEOUT_MS: Final = 1000
"""The shortest that librdkafka accepts."""
BUMP_S: Final = 3.0
"""A client may still be asking for its new epoch when its application goes on."""


class Late:
    """A producer with one record in a transaction, and what its application does too late."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.topic = scenario.topic()
        self.transactional_id = scenario.name("tx")
        self.producer = scenario.transactional(self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        self.producer.begin()
        self.producer.send(self.topic, b"timed out")
        self.producer.flush()

    def produce(self) -> None:
        self.producer.send(self.topic, b"late")
        self.producer.flush()
        self.producer.commit()

    def produce_elsewhere(self) -> None:
        """Which adds a partition first."""
        self.producer.send(self.scenario.topic(), b"late")
        self.producer.flush()
        self.producer.commit()

    def send_offsets(self) -> None:
        consumer = self.scenario.consumer(group=self.scenario.name("group"))
        self.producer.send_offsets({(self.topic, 0): 1}, consumer)
        self.producer.commit()

    def commit(self) -> None:
        self.producer.commit()

    def abort(self) -> None:
        self.producer.abort()

    def next_transactions(self, producer: Producer) -> int:
        """Transactions until one is committed, as an application writes it; how many were lost on the way."""
        for lost in range(3):
            try:
                producer.begin()
                producer.send(self.topic, b"next")
                producer.commit()
            except ClientRefused:
                producer.abort()
            else:
                return lost
        raise AssertionError("it never recovered")

    def committed(self) -> list[bytes | None]:
        return [each.value for each in self.scenario.reader(self.topic).read(1)]


ACTS: Final[dict[str, Callable[[Late], None]]] = {
    "produce": Late.produce,
    "produce elsewhere": Late.produce_elsewhere,
    "send offsets": Late.send_offsets,
    "commit": Late.commit,
    "abort": Late.abort,
}
SITUATIONS: Final = ("alone", "after a restart of the broker")

LOST: Final = {"produce": 0, "produce elsewhere": 0, "commit": 0, "send offsets": 1, "abort": 1}
"""Transactions that librdkafka loses beyond the one that timed out (12.4)."""


def prepared(client: Client, bootstrap: str) -> tuple[Scenario, dict[str, Late]]:
    """One producer for each act, all out of time soon."""
    scenario = Scenario(client, bootstrap)
    return scenario, {act: Late(scenario) for act in ACTS}


def wait_out() -> None:
    time.sleep(TIMEOUT_MS / 1000 + 0.15)


@pytest.fixture(scope="module", params=SITUATIONS)
def address(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Callable[[], None]]]:
    """A broker, and what happens to it between the timeout and the return."""
    if request.param == "alone":
        yield bootstrap, lambda: None
        return
    with BrokerProcess(tmp_path_factory.mktemp("restarted")) as broker:

        def restart() -> None:
            broker.stop()
            broker.start()

        yield broker.address, restart


def late_of(client: Client, address: tuple[str, Callable[[], None]]) -> Iterator[dict[str, Late]]:
    scenario, late = prepared(client, address[0])
    wait_out()
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


def is_rebuilt(late: Late) -> None:
    """A new producer under the same transactional id works at once."""
    assert late.next_transactions(late.scenario.transactional(late.transactional_id)) == 0
    assert late.committed() == [b"next"]


@pytest.mark.parametrize("act", ACTS)
def test_librdkafka_recovers(of_librdkafka: dict[str, Late], act: str) -> None:
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

    wait_until(begins, BUMP_S)
    late.producer.send(late.topic, b"next")
    late.producer.commit()
    assert late.committed() == [b"next"]


@pytest.mark.parametrize("act", ["produce elsewhere", "send offsets", "commit"])
def test_kafka_python_is_told_to_be_rebuilt(of_kafka_python: dict[str, Late], act: str) -> None:
    late = of_kafka_python[act]
    with pytest.raises(ClientRefused) as refused:
        ACTS[act](late)
    assert refused.value.kind == "fenced"
    is_rebuilt(late)


@pytest.mark.parametrize("act", ["produce", "produce elsewhere", "send offsets", "commit"])
def test_aiokafka_is_told_to_be_rebuilt(of_aiokafka: dict[str, Late], act: str) -> None:
    late = of_aiokafka[act]
    with pytest.raises(ClientRefused) as refused:
        ACTS[act](late)
    assert refused.value.kind == "fenced"
    is_rebuilt(late)


def an_abort_succeeds_and_the_next_transaction_tells(late: Late) -> None:
    late.abort()
    late.producer.begin()
    late.producer.send(late.topic, b"late")
    with pytest.raises(ClientRefused) as refused:
        late.producer.flush()
    assert refused.value.kind == "fenced"
    is_rebuilt(late)


def test_kafka_python_may_abort_and_is_told_to_be_rebuilt_after_that(of_kafka_python: dict[str, Late]) -> None:
    an_abort_succeeds_and_the_next_transaction_tells(of_kafka_python["abort"])


def test_aiokafka_may_abort_and_is_told_to_be_rebuilt_after_that(of_aiokafka: dict[str, Late]) -> None:
    an_abort_succeeds_and_the_next_transaction_tells(of_aiokafka["abort"])


def test_with_a_second_instance_meanwhile_every_client_is_fenced_for_good(client: Client, bootstrap: str) -> None:
    scenario, late = prepared(client, bootstrap)
    wait_out()
    for act, each in late.items():
        successor = scenario.transactional(each.transactional_id)
        with pytest.raises(ClientRefused) as refused:
            ACTS[act](each)
        assert refused.value.kind == "fenced", act
        assert each.next_transactions(successor) == 0
        assert each.committed() == [b"next"]
    scenario.close()
