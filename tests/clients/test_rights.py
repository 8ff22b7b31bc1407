"""Unmodified clients of a broker that decides by access control entries: what they may do works, and what they may not
ends in the error that their users expect (security.md 9.1).

Nobody logs in here: everybody is User:ANONYMOUS, who may do what no entry is about.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import kafka
import pytest
from broker_process import BrokerProcess
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from waiting import HANG_S

from eosin.settings.broker import STANDARD_AUTHORIZER

ANYBODY = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
        "allow.everyone.if.no.acl.found": "true",
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
    }
    folder: Path = tmp_path_factory.mktemp("rights")
    with BrokerProcess(folder / "data", settings=settings) as running:
        yield running


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def rule(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, ANYBODY, "*", operation, permission)


def add(admin: AdminClient, *rules: AclBinding) -> None:
    for future in admin.create_acls(list(rules)).values():
        future.result(HANG_S)


ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def code_of(error: Any) -> int:
    found: int = error.value.args[0].code()
    return found


def nothing_is_committed(broker: BrokerProcess, topic: str) -> bool:
    """Whether a reader of the topic comes to its end without a record."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "group.id": uuid4().hex, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    (end,) = consumer.consume(1, HANG_S)
    consumer.close()
    return end.error() is not None and end.error().code() == confluent_kafka.KafkaError._PARTITION_EOF


def test_a_foreign_transactional_id_is_refused_and_ones_own_commits(broker: BrokerProcess, admin: AdminClient) -> None:
    own, foreign, topic = (f"{what}-{uuid4().hex}" for what in ("own", "foreign", "topic"))
    add(admin, rule(ResourceType.TRANSACTIONAL_ID, foreign, AclOperation.WRITE, DENY))
    refused = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": foreign})
    with pytest.raises(confluent_kafka.KafkaException) as told:
        refused.init_transactions(HANG_S)
    assert code_of(told) == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": own})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(HANG_S)


def test_one_denied_topic_of_two_ends_in_an_abort(broker: BrokerProcess, admin: AdminClient) -> None:
    own, mine, yours = (f"{what}-{uuid4().hex}" for what in ("own", "mine", "yours"))
    for future in admin.create_topics([confluent_kafka.admin.NewTopic(name, 1, 1) for name in (mine, yours)]).values():
        future.result(HANG_S)
    add(admin, rule(ResourceType.TOPIC, yours, AclOperation.WRITE, DENY))
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": own})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    errors: list[Any] = []
    for topic in (mine, yours):
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    with pytest.raises(confluent_kafka.KafkaException) as told:
        producer.commit_transaction(HANG_S)
    assert told.value.args[0].txn_requires_abort()
    producer.abort_transaction(HANG_S)
    assert nothing_is_committed(broker, mine)


def test_a_right_on_the_id_that_goes_in_a_transaction_ends_it_without_a_trace(
    broker: BrokerProcess, admin: AdminClient
) -> None:
    own, topic = (f"{what}-{uuid4().hex}" for what in ("own", "topic"))
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])[topic].result(HANG_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": own})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(topic, b"lost")
    assert producer.flush(HANG_S) == 0
    add(admin, rule(ResourceType.TRANSACTIONAL_ID, own, AclOperation.WRITE, DENY))
    with pytest.raises(confluent_kafka.KafkaException) as told:
        producer.commit_transaction(HANG_S)
    assert code_of(told) == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert told.value.args[0].fatal()
    assert nothing_is_committed(broker, topic)


def test_a_right_on_a_topic_that_goes_in_a_transaction_leaves_the_abort(
    broker: BrokerProcess, admin: AdminClient
) -> None:
    own, topic = (f"{what}-{uuid4().hex}" for what in ("own", "topic"))
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])[topic].result(HANG_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": own})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(topic, b"first")
    assert producer.flush(HANG_S) == 0
    add(
        admin,
        rule(ResourceType.TOPIC, topic, AclOperation.WRITE, DENY),
        rule(ResourceType.TOPIC, topic, AclOperation.READ, ALLOW),
    )
    errors: list[Any] = []
    producer.produce(topic, b"second", on_delivery=lambda error, _: errors.append(error))
    with pytest.raises(confluent_kafka.KafkaException) as told:
        producer.commit_transaction(HANG_S)
    assert told.value.args[0].txn_requires_abort()
    producer.abort_transaction(HANG_S)
    assert [each.code() for each in errors] == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert nothing_is_committed(broker, topic)


def test_an_operation_denied_on_all_topics_is_denied_on_one_that_is_allowed(
    broker: BrokerProcess, admin: AdminClient
) -> None:
    topic = f"topic-{uuid4().hex}"
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])[topic].result(HANG_S)
    add(admin, rule(ResourceType.TOPIC, topic, AclOperation.READ, ALLOW))
    everywhere = rule(ResourceType.TOPIC, "*", AclOperation.READ, DENY)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.address, group_id=None)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.poll(1000)
    add(admin, everywhere)
    try:
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            consumer.poll(HANG_S * 1000)
    finally:
        on_all = AclBindingFilter(
            ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        (removed,) = admin.delete_acls([on_all]).values()
        assert removed.result(HANG_S) == [everywhere]
        consumer.close()


def test_a_foreign_group_is_refused_to_kafka_python(broker: BrokerProcess, admin: AdminClient) -> None:
    group, topic = uuid4().hex, f"topic-{uuid4().hex}"
    add(admin, rule(ResourceType.GROUP, group, AclOperation.READ, DENY))
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)])[topic].result(HANG_S)
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=broker.address, group_id=group)
    with pytest.raises(kafka.errors.GroupAuthorizationFailedError):
        consumer.poll(HANG_S * 1000)
    consumer.close()


def test_entries_are_found_and_removed_by_an_admin_client(admin: AdminClient) -> None:
    name = f"topic-{uuid4().hex}"
    wanted = [rule(ResourceType.TOPIC, name, each, ALLOW) for each in (AclOperation.READ, AclOperation.WRITE)]
    add(admin, *wanted)
    those = AclBindingFilter(
        ResourceType.TOPIC, name, ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(those).result(HANG_S)) == set(wanted)
    (removed,) = admin.delete_acls([those]).values()
    assert set(removed.result(HANG_S)) == set(wanted)
    assert admin.describe_acls(those).result(HANG_S) == []
