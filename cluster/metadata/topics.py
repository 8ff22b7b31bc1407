"""Decides which topics may exist: the rules for names, counts and replica assignments, as pure functions.

Each rule answers None when all is well, or an `Outcome` with Kafka's error code and a sentence for whoever asked. They
are applied in Kafka's order, since a client is told of the first fault only.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from eosin.model.cluster import USE_DEFAULT, Outcome, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import INTERNAL_TOPICS, METADATA_TOPIC, is_legal_topic_name

RESERVED_TOPICS: Final = frozenset({METADATA_TOPIC, "__cluster_metadata"})
"""Names that no topic may have: Kafka's metadata log and our own."""

MAX_PARTITIONS_PER_CHANGE: Final = 10_000
"""Partitions that one request may create (Kafka's limit)."""


class TopicSize(NamedTuple):
    """The size of a new topic."""

    partitions: int
    replication_factor: int


def collision_key(name: str) -> str:
    """Equal for names that differ in `.` and `_` only. Metric names hold no `.`, so two such topics may not coexist."""
    return name.replace(".", "_")


def check_topic_name(name: str) -> Outcome | None:
    """Returns why no topic may be called `name`, or None if one may."""
    if is_legal_topic_name(name):
        return None
    shown = name if len(name) <= 300 else f"{name[:300]}..."
    return Outcome(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name {shown!r} is illegal: it must have 1 to 249 characters out of a-z, A-Z, 0-9, '.', '_' and '-',"
        " and must not be '.' or '..'",
    )


def check_new_name(name: str, *, topics: Mapping[str, Topic], namesake: str | None) -> Outcome | None:
    """Returns why no topic `name` may come into being, or None if one may. `namesake` is the existing name with the
    same `collision_key`."""
    if name in RESERVED_TOPICS:
        return Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Topic '{name}' is reserved for the cluster's metadata")
    if (refused := check_topic_name(name)) is not None:
        return refused
    if name in INTERNAL_TOPICS and name not in topics:
        return Outcome(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic '{name}' is created by the broker that needs it"
        )
    if name in topics:
        return Outcome(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists")
    if namesake is not None and namesake != name:
        return Outcome(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with the existing topic '{namesake}': they differ in '.' and '_' only",
        )
    return None


def size_of_new_topic(
    *,
    partitions: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]] | None,
    defaults: TopicSize,
    brokers: Collection[int],
) -> TopicSize | Outcome:
    """The size of the new topic, or why it may not exist. `brokers` are the ids of the live ones."""
    if assignments:
        return _size_by_assignment(
            partitions=partitions, replication_factor=replication_factor, assignments=assignments, brokers=brokers
        )
    factor = defaults.replication_factor if replication_factor == USE_DEFAULT else replication_factor
    count = defaults.partitions if partitions == USE_DEFAULT else partitions
    if factor <= 0:
        return Outcome(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1")
    if count <= 0:
        return Outcome(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1")
    if factor > len(brokers):
        return Outcome(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {factor} is larger than the number of brokers, which is {len(brokers)}",
        )
    return TopicSize(count, factor) if count <= MAX_PARTITIONS_PER_CHANGE else _too_many(count)


def _size_by_assignment(
    *, partitions: int, replication_factor: int, assignments: Mapping[int, Sequence[int]], brokers: Collection[int]
) -> TopicSize | Outcome:
    if replication_factor != USE_DEFAULT:
        return _refuse_both("replication factor")
    if partitions != USE_DEFAULT:
        return _refuse_both("number of partitions")
    if sorted(assignments) != list(range(len(assignments))):
        return Outcome(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Assigned partitions must be numbered from 0 without a gap"
        )
    replicas = [assignments[partition] for partition in range(len(assignments))]
    factor = len(replicas[0])
    if (refused := check_assignments(replicas, replication_factor=factor, brokers=brokers)) is not None:
        return refused
    count = len(replicas)
    return TopicSize(count, factor) if count <= MAX_PARTITIONS_PER_CHANGE else _too_many(count)


def check_assignments(
    assignments: Sequence[Sequence[int]], *, replication_factor: int, brokers: Collection[int]
) -> Outcome | None:
    """Check that each partition's replicas are live brokers, each once, and as many as the topic has elsewhere."""
    for given in assignments:
        # Among more replicas than there are brokers, one is unknown or named twice: all of them need not be looked at.
        replicas = given[: len(brokers) + 1]
        if not replicas:
            return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned to no broker at all")
        if len(set(replicas)) != len(replicas):
            return Outcome(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"A partition is assigned twice to the same broker: {replicas}"
            )
        for node_id in replicas:
            if node_id not in brokers:
                return Outcome(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"A partition is assigned to broker {node_id}, which is not here",
                )
        if len(replicas) != replication_factor:
            return Outcome(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"A partition is assigned to {len(replicas)} brokers and another to {replication_factor}",
            )
    return None


def check_more_partitions(
    topic: Topic | None, name: str, *, count: int, assignments: Sequence[Sequence[int]] | None, brokers: Collection[int]
) -> Outcome | None:
    """Check that `topic` may grow to `count` partitions."""
    if topic is None:
        return unknown_topic(name)
    if name in INTERNAL_TOPICS:
        # Which partition a transactional id or a group belongs to depends on their number (transactions.md 2.2).
        return Outcome(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"The number of partitions of the internal topic '{name}' is fixed"
        )
    if count == topic.partitions:
        return Outcome(ErrorCode.INVALID_PARTITIONS, f"Topic '{name}' already has {count} partition(s)")
    if count < topic.partitions:
        return Outcome(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{name}' has {topic.partitions} partition(s); {count} would not be an increase",
        )
    added = count - topic.partitions
    if assignments is not None:
        if len(assignments) != added:
            return Outcome(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partition(s) would be added, but {len(assignments)} are assigned",
            )
        if (refused := check_assignments(assignments, replication_factor=1, brokers=brokers)) is not None:
            return refused
    return None if added <= MAX_PARTITIONS_PER_CHANGE else _too_many(added)


def check_deletion(topic: Topic | None, name: str) -> Outcome | None:
    """Check that a topic may be deleted. The coordinators live in the internal ones, so these stay."""
    if topic is None:
        return unknown_topic(name)
    if topic.internal:
        return Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic '{name}' cannot be deleted")
    return None


def unknown_topic(name: str) -> Outcome:
    """The answer about a topic that is not there."""
    if (refused := check_topic_name(name)) is not None:
        return refused
    return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist")


def _refuse_both(what: str) -> Outcome:
    return Outcome(ErrorCode.INVALID_REQUEST, f"Replicas are assigned by hand, so the {what} must be -1")


def _too_many(count: int) -> Outcome:
    return Outcome(
        ErrorCode.POLICY_VIOLATION,
        f"{count} partitions are too many for one request, which may create {MAX_PARTITIONS_PER_CHANGE}",
    )
