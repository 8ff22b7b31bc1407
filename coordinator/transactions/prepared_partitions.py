"""`prepared`: the set of very many partitions that join a transaction, made in turns with everybody else."""

from collections.abc import Collection
from typing import Final

from eosin.coordinator.transactions.log.encoder import encoded_topic
from eosin.coordinator.transactions.rules.many_partitions import MANY, JoinedTopic, ManyPartitions, Topics
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns

_VERSION: Final = 1
"""The version of the record that is written wherever all brokers know it."""


async def prepared(partitions: Collection[TopicPartition], clock: Clock) -> frozenset[TopicPartition]:
    """The set of `partitions`, each of which is named once. Of very many it knows all that would take long to find out
    in the step in which they join the transaction."""
    if len(partitions) <= MANY:
        return frozenset(partitions)
    groups: dict[str, list[TopicPartition]] = {}

    def group(each: TopicPartition) -> None:
        groups.setdefault(each.topic, []).append(each)

    await in_turns(partitions, group, clock)
    topics: Topics = {}

    def finish(name: str) -> None:
        topic = topics[name] = JoinedTopic(name, tuple(groups[name]))
        topic.encoded(_VERSION, encoded_topic)

    await in_turns(groups, finish, clock)
    return ManyPartitions(partitions, topics)
