"""Two-phase commits need Eosin brokers under all of `__transaction_state` (cluster.md 6.9)."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cluster_images import broker, delta, image, partition, topic

from eosin.broker.transactions.two_phase_replicas import TwoPhaseReplicas, refused_move, strangers_of
from eosin.cluster.quorum.rules.image import RegisteredBroker
from eosin.model.features import EOSIN_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition

STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)


def ours(node_id: int) -> RegisteredBroker:
    return replace(broker(node_id), features={EOSIN_VERSION: (0, 1)})


def state_topic(*replicas: int) -> Any:
    return topic(partition(replicas[0], replicas=replicas), name=TRANSACTION_STATE_TOPIC)


def test_a_topic_that_is_not_there_yet_has_no_strangers() -> None:
    assert strangers_of(image(brokers=(broker(1),))) == set()


def test_a_broker_of_apache_kafka_and_one_that_is_not_registered_are_strangers() -> None:
    assert strangers_of(image(state_topic(1, 2, 3), brokers=(ours(1), broker(2)))) == {2, 3}


def test_two_phase_commits_end_with_the_first_stranger_and_come_back_without_any() -> None:
    transactions: Any = SimpleNamespace(allows_two_phase=True)
    brokers = (ours(1), ours(2), broker(3))
    safe = image(state_topic(1, 2), brokers=brokers)
    replicas = TwoPhaseReplicas(transactions, safe)
    assert transactions.allows_two_phase
    mixed = image(state_topic(1, 3), brokers=brokers)
    replicas.apply(delta(safe, mixed, STATE))
    assert not transactions.allows_two_phase
    replicas.apply(delta(mixed, mixed))
    assert not transactions.allows_two_phase
    replicas.apply(delta(mixed, safe, STATE))
    assert transactions.allows_two_phase


def test_a_broker_that_comes_back_as_another_one_is_noticed() -> None:
    transactions: Any = SimpleNamespace(allows_two_phase=True)
    before = image(state_topic(1, 2), brokers=(ours(1), ours(2)))
    replicas = TwoPhaseReplicas(transactions, before)
    after = image(state_topic(1, 2), brokers=(ours(1), broker(2)))
    replicas.apply(delta(before, after, brokers_changed=True))
    assert not transactions.allows_two_phase


def test_a_partition_may_move_among_eosin_s_brokers_and_away_from_a_stranger() -> None:
    found = image(state_topic(1, 3), brokers=(ours(1), ours(2), broker(3), broker(4)))
    assert refused_move(found, 0, (2, 1)) is None
    assert refused_move(found, 0, (3, 2)) is None
    refused = refused_move(found, 0, (1, 4, 5))
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert (refused.message or "").startswith("Brokers 4, 5 would lose prepared transactions")
