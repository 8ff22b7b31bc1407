"""Share groups (KIP-932) with Java's share consumer and Apache Kafka's tools: each record to one consumer at a time,
acknowledged by itself; across kill -9 nothing that was acknowledged comes again and nothing else is lost."""

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic
from real_clients import share
from real_clients.share import Delivered
from real_clients.share_group import EXPLICIT, SETTINGS, Group, numbers, poll_until
from real_clients.tools import KafkaScripts
from toolchains import skipped_without
from waiting import wait_until
from wire import unique

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as made:
        yield made


@pytest.fixture
def group(broker: BrokerProcess) -> Group:
    with skipped_without():
        share.LAUNCHED.get()
        return Group(broker, KafkaScripts(broker.address))


def test_members_divide_the_records_and_accept_each_once(group: Group) -> None:
    group.write(range(200))
    members = [group.member(**EXPLICIT) for _ in range(3)]
    found = poll_until(members, set(range(200)))
    assert sorted(int(each.value) for each in found) == list(range(200))
    assert {each.delivery_count for each in found} == {1}
    wait_until(lambda: group.starts() == [100, 100])
    listed = group.scripts.run("kafka-share-groups", "--describe", "--group", group.name, "--members")
    assert len(listed.table) == 3
    for each in members:
        each.close()


def test_implicit_acknowledgement_accepts_what_the_poll_before_has_brought(group: Group) -> None:
    group.write(range(20))
    member = group.member()
    poll_until([member], set(range(20)), accepts=False)
    member.poll()
    member.close()
    again = group.member()
    group.write(range(20, 22))
    assert numbers(poll_until([again], {20, 21}, accepts=False)) == {20, 21}
    again.close()


def test_what_is_released_comes_again_and_what_is_rejected_does_not(group: Group) -> None:
    group.write(range(3))
    member = group.member(**EXPLICIT)
    found: dict[int, Delivered] = {}

    def has_all() -> bool:
        found.update({int(each.value): each for each in member.poll()})
        return len(found) == 3

    wait_until(has_all)
    for number, kind in ((0, "ACCEPT"), (1, "RELEASE"), (2, "REJECT")):
        member.acknowledge(found[number], kind)
    member.commit()
    again = poll_until([member], {1})
    assert [(each.value, each.delivery_count) for each in again] == [("1", 2)]
    member.close()
    wait_until(lambda: group.starts() == [2, 1])


def test_kill_9_loses_nothing_that_was_not_acknowledged_and_repeats_nothing_that_was(group: Group) -> None:
    group.write(range(100))
    member = group.member(**EXPLICIT)
    found: dict[int, Delivered] = {}

    def has_all() -> bool:
        got = member.poll()
        found.update({int(each.value): each for each in got})
        for each in got:
            member.acknowledge(each, "ACCEPT" if int(each.value) % 3 else "RENEW")
        if got:
            assert set(member.commit().values()) == {None}
        return len(found) == 100

    wait_until(has_all)
    group.broker.kill()
    group.broker.start()
    member.close()
    left = {number for number in range(100) if number % 3 == 0}
    other = group.member(**EXPLICIT)
    again = poll_until([other], left)
    assert numbers(again) == left, "an accepted record came again"
    other.close()


def test_a_group_that_reads_committed_gets_no_record_of_an_aborted_transaction(group: Group) -> None:
    group.configure("share.isolation.level=read_committed")
    member = group.member(**EXPLICIT)
    aborted = group.write(range(10), transactional_id=unique("tx"))
    committed = group.write(range(10, 20), transactional_id=unique("tx"))
    open_one = group.write(range(20, 30), transactional_id=unique("tx"))
    assert member.poll(1000) == []
    aborted.abort_transaction()
    committed.commit_transaction()
    found = poll_until([member], set(range(10, 20)))
    assert numbers(found) == set(range(10, 20))
    open_one.commit_transaction()
    assert numbers(poll_until([member], set(range(20, 30)))) == set(range(20, 30))
    member.close()


def test_the_console_share_consumer_reads_a_topic(group: Group) -> None:
    group.write(range(5))
    read = group.scripts.run(
        "kafka-console-share-consumer", "--topic", group.topic, "--group", group.name, "--max-messages", "5"
    )
    assert sorted(read.lines)[:5] == ["0", "1", "2", "3", "4"]


def test_librdkafkas_share_consumer_accepts_releases_and_rejects(group: Group) -> None:
    group.write(range(30))
    config = {"bootstrap.servers": group.broker.address, "group.id": group.name}
    consumer = ShareConsumer({**config, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([group.topic])
    accepted: list[int] = []
    seen: dict[int, int] = {}

    def is_done() -> bool:
        found = list(consumer.poll(0.5))
        for each in found:
            assert each.error() is None, each.error()
            number = int(each.value())
            seen[number] = seen.get(number, 0) + 1
            if number % 3 == 0:
                consumer.acknowledge(each, AcknowledgeType.REJECT)
            elif number % 3 == 1 and seen[number] == 1:
                consumer.acknowledge(each, AcknowledgeType.RELEASE)
            else:
                consumer.acknowledge(each, AcknowledgeType.ACCEPT)
                accepted.append(number)
        if found:
            consumer.commit_sync()
        return len(accepted) >= 20

    wait_until(is_done)
    consumer.close()
    assert sorted(accepted) == [number for number in range(30) if number % 3]
    assert all(seen[number] == (2 if number % 3 == 1 else 1) for number in range(30))


def test_what_javas_and_librdkafkas_consumers_reject_is_in_the_dead_letter_topic(group: Group) -> None:
    letters = f"dlq.{group.topic}"
    made = NewTopic(letters, 1, config={"errors.deadletterqueue.group.enable": "true"})
    admin = AdminClient({"bootstrap.servers": group.broker.address})
    admin.create_topics([made])[letters].result()
    group.configure(f"errors.deadletterqueue.topic.name={letters},errors.deadletterqueue.copy.record.enable=true")
    whom = ("--describe", "--entity-type", "groups", "--entity-name", group.name)
    assert letters in "".join(group.scripts.run("kafka-configs", *whom).lines)
    group.write(range(20))
    member = group.member(**EXPLICIT)
    found: dict[int, Delivered] = {}

    def has_all() -> bool:
        got = member.poll()
        found.update({int(each.value): each for each in got})
        for each in got:
            member.acknowledge(each, "REJECT" if int(each.value) % 5 == 0 else "ACCEPT")
        if got:
            assert set(member.commit().values()) == {None}
        return len(found) == 20

    wait_until(has_all)
    member.close()
    group.write(range(20, 22))
    config = {"bootstrap.servers": group.broker.address, "group.id": group.name}
    consumer = ShareConsumer({**config, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([group.topic])
    rejected: set[int] = set()

    def is_done() -> bool:
        got = list(consumer.poll(0.5))
        for each in got:
            consumer.acknowledge(each, AcknowledgeType.REJECT)
            rejected.add(int(each.value()))
        if got:
            consumer.commit_sync()
        return rejected == {20, 21}

    wait_until(is_done)
    consumer.close()
    read = group.scripts.run(
        *("kafka-console-consumer", "--topic", letters, "--from-beginning", "--max-messages", "6"),
        *("--property", "print.headers=true", "--property", "headers.separator=;"),
    )
    told = {line.rpartition("\t")[2]: line for line in read.lines if line.startswith("__dlq.errors.topic")}
    assert told.keys() == {"0", "5", "10", "15", "20", "21"}
    assert f"__dlq.errors.group:{group.name};" in told["5"]
    assert "__dlq.errors.partition:1;__dlq.errors.offset:2;" in told["5"]
    assert "__dlq.errors.message:Offset rejected by client." in told["20"]
