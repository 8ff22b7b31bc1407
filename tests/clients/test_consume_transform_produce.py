"""Offsets and output in one transaction."""

import pytest
from real_clients.base import read_all
from real_clients.everyone import older_too
from scenario import Scenario
from waiting import wait_until


@pytest.mark.smoke
@older_too
def test_each_input_is_copied_once_although_every_third_transaction_aborts(scenario: Scenario) -> None:
    source, target, group = scenario.topic(), scenario.topic(), scenario.name("group")
    feed = scenario.transactional()
    feed.begin()
    for number in range(60):
        feed.send(source, b"%d" % number)
    feed.commit()

    producer = scenario.transactional()
    consumer = scenario.consumer(group=group)
    consumer.subscribe([source])
    attempts = done = 0
    while done < 60:
        batch = consumer.read(min(5, 60 - done))
        assert batch, f"only {done} of 60 arrived"
        attempts += 1
        producer.begin()
        for record in batch:
            producer.send(target, b"out-" + (record.value or b""))
        producer.send_offsets({(source, 0): batch[-1].offset + 1}, consumer)
        if attempts % 3 == 0:
            producer.flush()
            producer.abort()
            # What an application does after an abort: start again from what is committed.
            restart = consumer.committed(source, 0) or 0
            assert restart == batch[0].offset, "the aborted offsets must not be visible"
            consumer.close()
            consumer = scenario.consumer(group=group)
            consumer.subscribe([source])
        else:
            producer.commit()
            done += len(batch)
            # A client may be told of the commit a moment before the group coordinator has the marker.
            expected = batch[-1].offset + 1
            wait_until(lambda reader=consumer, expected=expected: reader.committed(source, 0) == expected)
    read = read_all(scenario.reader(target), 60)
    assert [each.value for each in read] == [b"out-%d" % number for number in range(60)]


def test_offsets_of_an_aborted_transaction_are_never_seen(scenario: Scenario) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    plain = scenario.producer()
    plain.send(topic, b"one")
    plain.flush()
    consumer = scenario.consumer(group=group)
    consumer.subscribe([topic])
    assert len(consumer.read(1)) == 1
    consumer.commit({(topic, 0): 0})
    producer = scenario.transactional()
    producer.begin()
    producer.send(topic, b"two")
    producer.send_offsets({(topic, 0): 1}, consumer)
    producer.abort()
    assert consumer.committed(topic, 0) == 0
    producer.begin()
    producer.send(topic, b"three")
    producer.send_offsets({(topic, 0): 1}, consumer)
    producer.commit()
    wait_until(lambda: consumer.committed(topic, 0) == 1)
