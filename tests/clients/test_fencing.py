"""A second instance with the same transactional id fences the first, whatever the first does next."""

from collections.abc import Callable

import pytest
from real_clients import java
from real_clients.base import ClientRefused, Producer, read_all
from real_clients.everyone import older_too
from scenario import Scenario
from waiting import wait_until


def _replaced(scenario: Scenario, topic: str) -> tuple[Producer, Producer]:
    """An instance with an open transaction, and its successor."""
    transactional_id = scenario.name("tx")
    first = scenario.transactional(transactional_id)
    first.begin()
    first.send(topic, b"zombie")
    first.flush()
    return first, scenario.transactional(transactional_id)


def _is_told(scenario: Scenario, producer: Producer, act: Callable[[], None]) -> None:
    """That it is fenced. The old epoch of a record tells Java to abort, and the abort tells it that it is fenced."""
    with pytest.raises(ClientRefused) as refused:
        act()
    if refused.value.kind == "other" and scenario.client in java.CLIENTS:
        with pytest.raises(ClientRefused) as refused:
            producer.abort()
    assert refused.value.kind == "fenced"


def _the_successor_works(scenario: Scenario, topic: str, second: Producer) -> None:
    second.begin()
    second.send(topic, b"successor")
    second.commit()
    assert [each.value for each in read_all(scenario.reader(topic), 1)] == [b"successor"]


@pytest.mark.smoke
@older_too
def test_a_fenced_producer_cannot_commit(scenario: Scenario) -> None:
    topic = scenario.topic()
    first, second = _replaced(scenario, topic)
    _is_told(scenario, first, first.commit)
    _the_successor_works(scenario, topic, second)


@older_too
def test_a_fenced_producer_cannot_produce(scenario: Scenario) -> None:
    topic = scenario.topic()
    first, second = _replaced(scenario, topic)

    def produce_and_commit() -> None:
        first.send(topic, b"zombie again")
        first.flush()
        first.commit()

    _is_told(scenario, first, produce_and_commit)
    _the_successor_works(scenario, topic, second)


def test_a_fenced_producer_cannot_add_offsets(scenario: Scenario) -> None:
    topic = scenario.topic()
    group = scenario.name("group")
    consumer = scenario.consumer(group=group)
    consumer.subscribe([topic])
    wait_until(lambda: consumer.read(1, timeout_s=0.3) or consumer.assignment())
    first, second = _replaced(scenario, topic)

    def send_offsets_and_commit() -> None:
        first.send_offsets({(topic, 0): 1}, consumer)
        first.commit()

    _is_told(scenario, first, send_offsets_and_commit)
    assert consumer.committed(topic, 0) is None
    _the_successor_works(scenario, topic, second)
