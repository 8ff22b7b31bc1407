"""One controller of Apache Kafka and two Eosin brokers: partitions with two replicas (cluster.md 11)."""

from collections.abc import Iterator

import pytest
from cluster_topics import ClusterTopics
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, QuorumController
from real_clients import confluent
from wire import unique

CONTROLLER = SHORT_SESSIONS

Pair = tuple[JoinedBroker, JoinedBroker]


@pytest.fixture(scope="module")
def both_brokers(controller: QuorumController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("brokers")
    first = JoinedBroker(
        folder / "first", controller, node_id=1, durability="fsync", settings=replicated(2, partitions=4)
    )
    second = JoinedBroker(
        folder / "second", controller, node_id=2, durability="fsync", settings=replicated(2, partitions=4)
    )
    with first, second:
        yield first, second


@pytest.fixture
def pair(both_brokers: Pair) -> Pair:
    """Both brokers, running: a test may have stopped or killed them."""
    for broker in both_brokers:
        if not broker.running:
            broker.start()
    return both_brokers


def create(pair: Pair, *, leader: int = 0) -> str:
    """A topic of one partition on both brokers, led by one of them."""
    replicas = [pair[(leader + each) % 2].node_id for each in range(2)]
    return ClusterTopics(",".join(each.address for each in pair)).create(replicas)


def read_all(address: str, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent.CLIENT.consumer(address, group=unique("readers"))
    consumer.assign({(topic, 0): 0})
    try:
        return [each.value for each in consumer.read(count)]
    finally:
        consumer.close()


def both(pair: Pair) -> set[int]:
    return {each.node_id for each in pair}


@pytest.mark.smoke
def test_records_are_on_both_brokers_and_outlive_a_kill_of_their_leader(
    pair: Pair,
) -> None:
    first, second = pair
    topic = create(pair)
    producer = confluent.CLIENT.producer(f"{first.address},{second.address}")
    sent = [b"%d" % number for number in range(200)]
    for value in sent[:100]:
        producer.send(topic, value, partition=0)
    producer.flush()
    at_second = ClusterTopics(second.address)
    at_second.wait_for(topic, isr=both(pair))
    first.kill()
    for value in sent[100:]:
        producer.send(topic, value, partition=0)
    producer.flush()
    assert read_all(second.address, topic, 200) == sent
    assert at_second.partition(topic).isr == {second.node_id}
    first.start()
    at_second.wait_for(topic, isr=both(pair))
    second.kill()
    ClusterTopics(first.address).wait_for(topic, leader=first.node_id)
    assert read_all(first.address, topic, 200) == sent


@pytest.mark.smoke
def test_a_transaction_spans_partitions_and_coordinators_on_both_brokers(
    pair: Pair,
) -> None:
    first, second = pair
    topics = [create(pair, leader=leader) for leader in range(2)]
    consumer = confluent.CLIENT.consumer(first.address, group=unique("group"))
    consumer.assign({(topics[0], 0): 0})
    # Four ids: some of their coordinators are on either broker, as are the offsets of the group.
    for number in range(4):
        producer = confluent.CLIENT.producer(
            f"{first.address},{second.address}", transactional_id=unique(f"tx{number}")
        )
        producer.init()
        for commit in (True, False):
            producer.begin()
            for topic in topics:
                producer.send(topic, b"%d-%d" % (number, commit), partition=0)
            producer.send_offsets({(topics[0], 0): 1}, consumer)
            if commit:
                producer.commit()
            else:
                producer.flush()
                producer.abort()
    consumer.close()
    committed = [b"%d-1" % number for number in range(4)]
    for topic in topics:
        for broker in pair:
            assert read_all(broker.address, topic, 4) == committed
