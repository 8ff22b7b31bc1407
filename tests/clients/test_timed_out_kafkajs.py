"""A transaction that outlives its timeout, and what kafkajs makes of it: no broker can help it, since it keeps its
first producer epoch for life (transactions.md 11.9, 12.4). It hears that it is fenced; a new producer works at once.
"""

from collections.abc import Callable, Iterator

import pytest
from asked_broker import restartable_broker
from late import ACTS, RESTARTED, UNREPLACED, Late, prepared, wait_out
from real_clients import kafkajs
from real_clients.base import ClientRefused
from toolchains import skipped_without
from wire import better_than_kafka


@pytest.fixture(scope="module", params=UNREPLACED)
def late(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Late]]:
    with skipped_without():
        kafkajs.CLIENT.start()
    with restartable_broker(tmp_path_factory.mktemp("broker")) as broker:
        scenario, made = prepared(kafkajs.CLIENT, broker.address)
        wait_out(made.values())
        if request.param == RESTARTED:
            broker.restart()
        yield made
        scenario.close()


def refused_as(call: Callable[[], object]) -> ClientRefused:
    with pytest.raises(ClientRefused) as refused:
        call()
    return refused.value


@pytest.mark.parametrize("act", ["produce", "produce elsewhere", "send offsets", "commit"])
def test_kafkajs_is_fenced_after_a_timeout_and_goes_on_when_rebuilt(late: dict[str, Late], act: str) -> None:
    each = late[act]
    told = refused_as(lambda: ACTS[act](each))
    assert told.kind == "fenced"
    assert "INVALID_PRODUCER_EPOCH: Producer attempted an operation with an old epoch" in str(told)
    each.is_rebuilt()


@better_than_kafka("Apache Kafka fences a producer whose transaction timed out, so that not even its abort succeeds")
def test_kafkajs_may_abort_after_a_timeout_and_is_fenced_at_the_next_transaction(late: dict[str, Late]) -> None:
    each = late["abort"]
    each.abort()
    each.producer.begin()
    each.producer.send(each.topic, b"late")
    assert refused_as(each.producer.flush).kind == "fenced"
    each.is_rebuilt()


def test_kafkajs_cannot_begin_a_transaction_after_a_failed_commit(late: dict[str, Late]) -> None:
    """Which is its own doing, whatever it heard: it stays in the state of committing for good."""
    each = late["commit"]
    refused_as(each.producer.commit)
    told = refused_as(each.producer.begin)
    assert 'Cannot call "beginTransaction" in state "COMMITTING"' in str(told)
