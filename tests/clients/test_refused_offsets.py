"""What a client makes of a coordinator that has moved when it asks how far its group has read."""

from collections.abc import Iterator

import pytest
from real_clients import confluent
from real_clients.base import Client, ClientRefused, Consumer
from refusing_broker import RefusingBroker
from scenario import Scenario

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture(scope="module")
def refusing() -> Iterator[RefusingBroker]:
    with RefusingBroker() as broker:
        yield broker


@pytest.mark.parametrize("error", MOVED, ids=lambda error: error.name)
def test_a_group_is_never_taken_for_one_that_has_committed_nothing(
    refusing: RefusingBroker, client: Client, error: ErrorCode
) -> None:
    # aiokafka (0.14) does not look at the error of the whole answer: it would begin anew.
    scenario = Scenario(client, refusing.address)
    topic, group = scenario.topic(), scenario.name("group")
    committer = confluent.CLIENT.consumer(refusing.address, group=group)
    scenario.closes(committer.close)
    committer.commit({(topic, 0): 7})
    refusing.refuse_next(ApiKey.OFFSET_FETCH, error)
    assert committed(scenario.consumer(group=group), topic) == 7
    assert refusing.stop_refusing(), "it did not ask"
    scenario.close()


def committed(consumer: Consumer, topic: str) -> int | None:
    """Ask again where the library leaves that to its application."""
    try:
        return consumer.committed(topic, 0)
    except ClientRefused:
        return consumer.committed(topic, 0)
