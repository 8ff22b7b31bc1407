"""Misfortunes of Java's share consumers: what they were told counts, and every other record comes (KIP-932, KIP-1191;
share-partitions.md 6, 7)."""

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from real_clients import share
from real_clients.harness import Harness
from real_clients.share import Delivered
from real_clients.share_group import EXPLICIT, SETTINGS, Group, numbers, poll_until
from real_clients.tools import KafkaScripts
from toolchains import skipped_without
from waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(400)]


@pytest.fixture
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with skipped_without():
        share.LAUNCHED.get()
        with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as broker:
            yield Group(broker, KafkaScripts(broker.address))


@pytest.fixture
def apart() -> Iterator[Harness]:
    """A process of its own for members."""
    with skipped_without():
        made = share.another()
    yield made
    made.thaw()
    made.close()


def test_a_group_that_is_deleted_and_made_anew_begins_anew_though_a_consumer_of_before_is_frozen(
    group: Group, apart: Harness
) -> None:
    group.write(range(20))
    poll_until([group.member(apart, **EXPLICIT)], set(range(20)))
    wait_until(lambda: group.starts() == [10, 10])
    apart.freeze()  # its connection stays, and with it what the broker has of the group in memory
    empty = ("kafka-share-groups", "--list", "--state", "Empty")
    wait_until(lambda: any(group.name in line for line in group.scripts.run(*empty).lines))
    group.scripts.run("kafka-share-groups", "--delete", "--group", group.name)
    group.configure("share.auto.offset.reset=earliest")
    again = group.member(**EXPLICIT)
    assert numbers(poll_until([again], set(range(20)))) == set(range(20))
    again.close()


def test_a_topic_that_is_made_anew_is_read_from_its_start_while_a_member_has_records_of_the_old_one(
    group: Group,
) -> None:
    group.write(range(10))
    member = group.member(**EXPLICIT)
    old = poll_until([member], set(range(10)), accepts=False)
    group.scripts.run("kafka-topics", "--delete", "--topic", group.topic)
    group.create_topic()
    group.write(range(100, 120))
    other = group.member(**EXPLICIT)
    for each in old:
        member.acknowledge(each, "ACCEPT")
    assert None not in member.commit().values(), "there is nothing any more that it could accept"
    found = poll_until([member, other], set(range(100, 120)))
    assert sorted(numbers(found)) == list(range(100, 120))
    wait_until(lambda: group.starts() == [10, 10])
    member.close()
    other.close()


def test_kill_9_with_records_in_flight_and_dead_letters_under_way_loses_neither(group: Group) -> None:
    letters = f"dlq.{group.topic}"
    made = NewTopic(letters, 2, config={"errors.deadletterqueue.group.enable": "true"})
    admin = AdminClient({"bootstrap.servers": group.broker.address})
    admin.create_topics([made])[letters].result()
    group.configure(f"errors.deadletterqueue.topic.name={letters},errors.deadletterqueue.copy.record.enable=true")
    group.write(range(300))
    member = group.member(**EXPLICIT)
    found: dict[int, Delivered] = {}
    told: set[int] = set()

    def has_most() -> bool:
        got = {int(each.value): each for each in member.poll()}
        found.update(got)
        for number, each in got.items():
            if number % 3:
                member.acknowledge(each, "ACCEPT" if number % 3 == 1 else "REJECT")
            else:
                member.acknowledge(each, "RENEW")
        errors = member.commit() if got else {}
        told.update(number for number, each in got.items() if errors[f"{each.topic}-{each.partition}"] is None)
        return len(found) >= 200

    wait_until(has_most)
    group.broker.kill()
    group.broker.start()
    member.close()
    done = {number for number in told if number % 3}
    left = set(range(300)) - done
    other = group.member(**EXPLICIT)
    again = poll_until([other], left)
    assert not numbers(again) & done, "a record came again that was accepted, or rejected"
    other.close()
    rejected = {number for number in done if number % 3 == 2}
    assert rejected <= set(_values(group, letters, rejected)) <= {number for number in found if number % 3 == 2}


def _values(group: Group, topic: str, wanted: set[int]) -> list[int]:
    """The values of a topic, once what is wanted is there."""
    consumer = Consumer(
        {"bootstrap.servers": group.broker.address, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[int] = []

    def is_there() -> bool:
        while (message := consumer.poll(0.2)) is not None:
            if message.error() is None:
                found.append(int(message.value()))
        return wanted <= set(found)

    try:
        wait_until(is_there, lambda: f"missing: {sorted(wanted - set(found))[:20]}")
    finally:
        consumer.close()
    return found
