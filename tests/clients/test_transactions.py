"""What each client's application sees of commits, aborts and open transactions."""

import pytest
from real_clients.base import ClientRefused, Received, read_all
from real_clients.everyone import older_too
from scenario import Scenario


def values(records: list[Received]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.smoke
@older_too
def test_a_committed_transaction_is_read_in_order(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional()
    producer.begin()
    for number in range(10):
        producer.send(topic, b"%d" % number, key=b"k")
    producer.commit()
    assert values(scenario.reader(topic).read(10)) == [b"%d" % number for number in range(10)]


@older_too
def test_an_aborted_transaction_is_never_read_and_the_next_one_is(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional()
    producer.begin()
    producer.send(topic, b"aborted")
    producer.flush()
    producer.abort()
    producer.begin()
    producer.send(topic, b"committed")
    producer.commit()
    assert values(read_all(scenario.reader(topic), 1)) == [b"committed"]


def test_read_uncommitted_sees_what_was_aborted(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional()
    producer.begin()
    producer.send(topic, b"aborted")
    producer.flush()
    producer.abort()
    assert values(scenario.reader(topic, committed_only=False).read(1)) == [b"aborted"]


def test_an_empty_transaction_can_be_committed_and_aborted(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional()
    producer.begin()
    producer.commit()
    producer.begin()
    producer.abort()
    producer.begin()
    producer.send(topic, b"after")
    producer.commit()
    assert values(scenario.reader(topic).read(1)) == [b"after"]


def test_one_transaction_over_two_topics_is_one(scenario: Scenario) -> None:
    first, second = scenario.topic(), scenario.topic()
    producer = scenario.transactional()
    for outcome in ("abort", "commit"):
        producer.begin()
        for topic in (first, second):
            producer.send(topic, outcome.encode())
        producer.flush()
        getattr(producer, outcome)()
    assert values(read_all(scenario.reader(first), 1)) == [b"commit"]
    assert values(read_all(scenario.reader(second), 1)) == [b"commit"]


def test_one_transaction_over_fifty_partitions_is_one(scenario: Scenario) -> None:
    topic = scenario.topic(50)
    producer = scenario.transactional()
    for outcome in ("abort", "commit"):
        producer.begin()
        for partition in range(50):
            producer.send(topic, b"%s-%d" % (outcome.encode(), partition), partition=partition)
        producer.flush()
        getattr(producer, outcome)()
    read = read_all(scenario.reader(topic, 50), 50)
    assert sorted(values(read)) == sorted(b"commit-%d" % partition for partition in range(50))


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_each_compression_codec_goes_through_transactions(scenario: Scenario, compression: str) -> None:
    topic = scenario.topic()
    producer = scenario.transactional(compression=compression)
    sent = [b"%d " % number + b"repeated " * 50 for number in range(200)]
    for outcome in ("commit", "abort"):
        producer.begin()
        for value in sent:
            producer.send(topic, value)
        producer.flush()
        getattr(producer, outcome)()
    assert values(read_all(scenario.reader(topic), 200)) == sent


def test_interleaved_producers_keep_their_own_outcomes(scenario: Scenario) -> None:
    topic = scenario.topic()
    producers = [scenario.transactional() for _ in range(3)]
    for producer in producers:
        producer.begin()
    for number in range(5):
        for index, producer in enumerate(producers):
            producer.send(topic, b"%d:%d" % (index, number))
            producer.flush()
    producers[1].commit()
    producers[0].abort()
    producers[2].commit()
    read = values(read_all(scenario.reader(topic), 10))
    assert read == [b"%d:%d" % (index, number) for number in range(5) for index in (1, 2)]


@older_too
def test_an_open_transaction_holds_readers_at_the_last_stable_offset(scenario: Scenario) -> None:
    topic = scenario.topic()
    slow, quick = scenario.transactional(), scenario.transactional()
    slow.begin()
    slow.send(topic, b"slow")
    slow.flush()
    quick.begin()
    quick.send(topic, b"quick")
    quick.commit()
    reader = scenario.reader(topic)
    assert reader.read(1, timeout_s=1) == []
    assert reader.end_offset(topic, 0) == 0
    slow.commit()
    assert values(reader.read(2)) == [b"slow", b"quick"]
    assert reader.end_offset(topic, 0) == 4, "two records and their two markers"


def test_a_new_instance_aborts_what_the_last_one_left_open(scenario: Scenario) -> None:
    topic, transactional_id = scenario.topic(), scenario.name("tx")
    first = scenario.transactional(transactional_id)
    first.begin()
    first.send(topic, b"left open")
    first.flush()
    second = scenario.transactional(transactional_id)
    second.begin()
    second.send(topic, b"second")
    second.commit()
    assert values(read_all(scenario.reader(topic), 1)) == [b"second"]


def test_the_coordinator_aborts_a_transaction_that_outlives_its_timeout(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional(transaction_timeout_ms=1000)
    other = scenario.transactional()
    producer.begin()
    producer.send(topic, b"forgotten")
    producer.flush()
    other.begin()
    other.send(topic, b"behind it")
    other.commit()
    # Without the abort the reader would be held before the forgotten record for ever.
    assert values(scenario.reader(topic).read(1)) == [b"behind it"]
    with pytest.raises(ClientRefused):
        producer.commit()


@older_too
def test_a_transaction_timeout_above_the_brokers_limit_is_refused(scenario: Scenario) -> None:
    producer = scenario.producer(transactional_id=scenario.name("tx"), transaction_timeout_ms=900_001)
    with pytest.raises(ClientRefused) as refused:
        producer.init()
    assert refused.value.kind == "timeout"


def test_an_idempotent_producer_writes_each_record_once_in_order(scenario: Scenario) -> None:
    topic = scenario.topic(2)
    producer = scenario.producer()
    for number in range(2000):
        producer.send(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    read = read_all(scenario.reader(topic, 2), 2000)
    for partition in range(2):
        numbers = [int(each.value or b"") for each in read if each.partition == partition]
        assert numbers == list(range(partition, 2000, 2))


def test_many_small_transactions_follow_each_other_without_errors(scenario: Scenario) -> None:
    topic = scenario.topic()
    producer = scenario.transactional()
    for number in range(200):
        producer.begin()
        producer.send(topic, b"%d" % number)
        if number % 3 == 2:
            producer.flush()
            producer.abort()
        else:
            producer.commit()
    expected = [b"%d" % number for number in range(200) if number % 3 != 2]
    assert values(read_all(scenario.reader(topic), len(expected))) == expected
