"""The rules for topics: names, counts, assignments."""

import pytest

from eosin.cluster.metadata.topics import (
    MAX_PARTITIONS_PER_CHANGE,
    TopicSize,
    check_deletion,
    check_more_partitions,
    check_new_name,
    collision_key,
    size_of_new_topic,
    unknown_topic,
)
from eosin.model.cluster import USE_DEFAULT, Outcome, Topic
from eosin.protocol.errors import ErrorCode

ORDERS = Topic("orders", b"o" * 16, 3)
OFFSETS = Topic("__consumer_offsets", b"c" * 16, 50, internal=True)
DEFAULTS = TopicSize(partitions=4, replication_factor=1)


def code(outcome: Outcome | TopicSize | None) -> ErrorCode:
    assert isinstance(outcome, Outcome)
    assert outcome.message
    return outcome.error


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "naïve", "x" * 250, "a\n"])
def test_an_illegal_name_is_an_invalid_topic(name: str) -> None:
    assert code(check_new_name(name, topics={}, namesake=None)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(unknown_topic(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "...", "A.b_c-1", "x" * 249])
def test_a_legal_name_is_accepted(name: str) -> None:
    assert check_new_name(name, topics={}, namesake=None) is None


@pytest.mark.parametrize("name", ["__eosin_metadata", "__cluster_metadata"])
def test_the_metadata_logs_names_are_reserved(name: str) -> None:
    assert code(check_new_name(name, topics={}, namesake=None)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_name_in_use_exists_already() -> None:
    assert (
        code(check_new_name("orders", topics={"orders": ORDERS}, namesake="orders")) == ErrorCode.TOPIC_ALREADY_EXISTS
    )


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert code(check_new_name("a.b", topics={}, namesake="a_b")) == ErrorCode.INVALID_TOPIC_EXCEPTION


def size(
    *,
    partitions: int = USE_DEFAULT,
    replication_factor: int = USE_DEFAULT,
    assignments: dict[int, list[int]] | None = None,
    brokers: tuple[int, ...] = (1,),
) -> TopicSize | Outcome:
    return size_of_new_topic(
        partitions=partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        defaults=DEFAULTS,
        brokers=brokers,
    )


def test_missing_counts_come_from_the_settings() -> None:
    assert size() == TopicSize(4, 1)
    assert size(partitions=7) == TopicSize(7, 1)


@pytest.mark.parametrize("partitions", [0, -2])
def test_a_count_that_is_not_positive_is_invalid(partitions: int) -> None:
    assert code(size(partitions=partitions)) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_a_replication_factor_beyond_the_brokers_is_invalid(factor: int) -> None:
    assert code(size(partitions=1, replication_factor=factor)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_replication_factor_is_checked_before_the_partitions() -> None:
    assert code(size(partitions=0, replication_factor=0)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_beyond_the_limit_violates_the_policy() -> None:
    assert size(partitions=MAX_PARTITIONS_PER_CHANGE) == TopicSize(MAX_PARTITIONS_PER_CHANGE, 1)
    assert code(size(partitions=MAX_PARTITIONS_PER_CHANGE + 1)) == ErrorCode.POLICY_VIOLATION


def test_an_assignment_decides_the_size() -> None:
    assert size(assignments={1: [1], 0: [1]}) == TopicSize(2, 1)
    assert size(assignments={0: [1, 2], 1: [2, 1]}, brokers=(1, 2)) == TopicSize(2, 2)


def test_an_assignment_excludes_the_counts() -> None:
    assert code(size(partitions=1, assignments={0: [1]})) == ErrorCode.INVALID_REQUEST
    assert code(size(replication_factor=1, assignments={0: [1]})) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "assignments",
    [{1: [1]}, {0: [1], 2: [1]}, {0: []}, {0: [1, 1]}, {0: [9]}, {0: [-1]}, {0: [1], 1: [1, 2]}],
    ids=["not from 0", "a gap", "no replica", "twice", "unknown broker", "negative broker", "uneven"],
)
def test_a_wrong_assignment_is_refused(assignments: dict[int, list[int]]) -> None:
    assert code(size(assignments=assignments, brokers=(1, 2))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def more(
    topic: Topic | None, count: int, assignments: list[list[int]] | None = None, name: str = "orders"
) -> Outcome | None:
    return check_more_partitions(topic, name, count=count, assignments=assignments, brokers=(1,))


def test_a_topic_may_grow() -> None:
    assert more(ORDERS, 4) is None
    assert more(ORDERS, 5, [[1], [1]]) is None


@pytest.mark.parametrize("count", [3, 2, 0, -1])
def test_a_topic_may_not_keep_or_lower_its_count(count: int) -> None:
    assert code(more(ORDERS, count)) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("assignments", [[], [[1]], [[1], [1], [1]], [[1], [2]], [[1], []]])
def test_a_growing_topic_needs_one_right_assignment_per_new_partition(assignments: list[list[int]]) -> None:
    assert code(more(ORDERS, 5, assignments)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_internal_topics_neither_grow_nor_go() -> None:
    assert code(more(OFFSETS, 60, name=OFFSETS.name)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(check_deletion(OFFSETS, OFFSETS.name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_that_does_not_exist_neither_grows_nor_goes() -> None:
    assert code(more(None, 4)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(check_deletion(None, "orders")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert check_deletion(ORDERS, "orders") is None
