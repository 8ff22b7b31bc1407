"""Members whose partitions the broker assigns (KIP-848), by Java's client and franz-go: two share a topic, one of them
by a regular expression, offsets go into transactions with member epochs, and one takes over. librdkafka is in
test_consumer_groups.py."""

from collections.abc import Callable, Iterator

import pytest
from broker_process import BrokerProcess
from real_clients import franz_go, java
from real_clients.base import ClientRefused, Received
from real_clients.remote import RemoteClient, RemoteConsumer
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(400)]

PROTOCOL = {"group.protocol": "consumer"}
SETTINGS = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.assignment.interval.ms": "0"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as made:
        yield made


@pytest.fixture(params=[java.CLIENT, franz_go.CLIENT], ids=lambda client: client.name)
def scenario(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Scenario]:
    yield from opened(request.param, broker)


@pytest.fixture
def of_java(broker: BrokerProcess) -> Iterator[Scenario]:
    yield from opened(java.CLIENT, broker)


def opened(client: RemoteClient, broker: BrokerProcess) -> Iterator[Scenario]:
    with skipped_without():
        client.start()
    made = Scenario(client.secured(PROTOCOL), broker.address)
    yield made
    made.close()


def member(scenario: Scenario, group: str) -> RemoteConsumer:
    made = scenario.consumer(group=group)
    assert isinstance(made, RemoteConsumer)
    return made


def fed(scenario: Scenario) -> str:
    """A topic of four partitions with ten records each."""
    topic = scenario.topic(4)
    producer = scenario.transactional()
    producer.begin()
    for number in range(40):
        producer.send(topic, b"%d" % number, partition=number % 4)
    producer.commit()
    return topic


def read_until(members: list[RemoteConsumer], done: Callable[[], bool]) -> list[Received]:
    """Read with all members in turn until it is so; what has come meanwhile."""
    found: list[Received] = []

    def is_done() -> bool:
        for each in members:
            found.extend(each.read(100, timeout_s=0.2))
        return done()

    wait_until(is_done)
    return found


def numbers(consumer: RemoteConsumer) -> set[int]:
    return {partition for _, partition in consumer.assignment()}


EVERY = {0, 1, 2, 3}


def shared(scenario: Scenario, topic: str, group: str) -> tuple[RemoteConsumer, RemoteConsumer, list[Received]]:
    """Two members with two partitions each, of which the second has a regular expression, and what they have read. The
    first remembers how it stood alone, where its client can."""
    first = member(scenario, group)
    first.subscribe([topic])
    seen = read_until([first], lambda: numbers(first) == EVERY)
    if scenario.client.name.startswith("java"):
        first.remember_metadata()
    second = member(scenario, group)
    second.subscribe_pattern(f"{topic[:-2]}.*")
    seen += read_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2)
    assert numbers(first) | numbers(second) == EVERY
    return first, second, seen


def test_two_members_share_a_topic_and_one_takes_over(scenario: Scenario) -> None:
    topic, group = fed(scenario), scenario.name("group")
    first, second, seen = shared(scenario, topic, group)
    seen += read_until([first, second], lambda: True)
    assert {(each.partition, each.value) for each in seen} >= {(number % 4, b"%d" % number) for number in range(4)}
    mine = {(topic, partition): 10 for partition in numbers(second)}
    second.commit(mine)
    assert {second.committed(*each) for each in mine} == {10}
    first.close()
    read_until([second], lambda: numbers(second) == EVERY)


def test_java_adds_offsets_by_its_member_epoch_and_is_refused_by_one_that_it_lost_partitions_at(
    of_java: Scenario,
) -> None:
    topic, group = fed(of_java), of_java.name("group")
    first, second, _ = shared(of_java, topic, group)
    producer = of_java.transactional()
    producer.begin()
    producer.send_offsets({(topic, partition): 5 for partition in numbers(second)}, second)
    producer.commit()
    lost, kept = min(numbers(second)), min(numbers(first))
    assert second.committed(topic, lost) == 5
    producer.begin()
    with pytest.raises(ClientRefused) as refused:
        producer.send_offsets({(topic, lost): 9}, first)
    assert refused.value.kind == "group"
    producer.abort()
    assert second.committed(topic, lost) == 5
    producer.begin()
    producer.send_offsets({(topic, kept): 3}, first)  # it has had this partition since that epoch (KIP-1251)
    producer.commit()
    assert first.committed(topic, kept) == 3


def test_a_session_of_franz_go_copies_once_beside_a_member_that_comes(broker: BrokerProcess) -> None:
    for of_go in opened(franz_go.CLIENT, broker):
        topic, target, group = fed(of_go), of_go.topic(), of_go.name("group")
        copier = franz_go.Session(
            broker.address, transactional_id=of_go.name("tx"), group=group, topics=[topic], access=PROTOCOL
        )
        of_go.closes(copier.close)
        done = 0
        while done < 40:
            copier.begin()
            batch = copier.read(min(8, 40 - done))
            for each in batch:
                copier.send(target, each.value or b"")
            if copier.end(commit=True):
                done += len(batch)
        reader = of_go.reader(target)
        copied = sorted(int(each.value or b"") for each in reader.read(40, timeout_s=HANG_S))
        assert copied == list(range(40))
        assert not reader.read(1, timeout_s=0.3)
