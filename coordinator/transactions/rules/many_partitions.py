"""`ManyPartitions`: the partitions of a large transaction, which no step of the event loop goes through one by one.

To order or to encode 50,000 partitions takes 10 to 100 ms, and a producer that adds one more asks for both again. So a
set of more than `MANY` knows its topics, in the order in which they joined the transaction, and each of these keeps
what the log has of it; whoever adds some makes theirs anew and takes over the others. Always true: it equals a plain
set of the same partitions; each of them is in `topics` once. Pure.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, Self

from eosin.protocol.names import TopicPartition, in_order

MANY: Final = 100


class JoinedTopic:
    """The partitions of one topic that are in a transaction. They never change."""

    __slots__ = ("_encoded", "_version", "name", "partitions")

    def __init__(self, name: str, partitions: tuple[TopicPartition, ...]) -> None:
        self.name = name
        self.partitions = partitions
        self._version = -1
        self._encoded = b""

    def encoded(self, version: int, encode: Callable[[int, str, tuple[TopicPartition, ...]], bytes]) -> bytes:
        """The part of a record of `version` that is about the topic, as `encode` has made it when it was first asked
        for."""
        if self._version != version:
            self._version, self._encoded = version, encode(version, self.name, self.partitions)
        return self._encoded


Topics = dict[str, JoinedTopic]


class ManyPartitions(frozenset[TopicPartition]):
    """Very many partitions of one transaction."""

    __slots__ = ("topics",)

    topics: Topics

    def __new__(cls, partitions: Iterable[TopicPartition], topics: Topics) -> Self:
        made = super().__new__(cls, partitions)
        made.topics = topics
        return made


def grouped(partitions: Iterable[TopicPartition]) -> ManyPartitions:
    """These partitions, each of which is named once, in their order. Goes through all of them."""
    named = tuple(partitions)
    topics: dict[str, list[TopicPartition]] = {}
    for each in named:
        topics.setdefault(each.topic, []).append(each)
    return ManyPartitions(named, {topic: JoinedTopic(topic, tuple(theirs)) for topic, theirs in topics.items()})


def joined(before: frozenset[TopicPartition], added: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
    """The partitions of a transaction that had some and gets others."""
    if not before and (len(added) <= MANY or isinstance(added, ManyPartitions)):
        return added
    both = before | added
    if len(both) <= MANY:
        return both
    known = before if isinstance(before, ManyPartitions) else grouped(in_order(before))
    new = added if isinstance(added, ManyPartitions) else grouped(in_order(added))
    topics = known.topics | new.topics
    for name in known.topics.keys() & new.topics.keys():
        there = known.topics[name]
        fresh = tuple(each for each in new.topics[name].partitions if each not in known)
        topics[name] = JoinedTopic(name, there.partitions + fresh) if fresh else there
    return ManyPartitions(both, topics)


def ordered(partitions: frozenset[TopicPartition]) -> Iterable[TopicPartition]:
    """The partitions topic by topic, in the same order in each process: by name and number, where there are few."""
    if isinstance(partitions, ManyPartitions):
        return chain.from_iterable([topic.partitions for topic in partitions.topics.values()])
    return partitions if len(partitions) < 2 else in_order(partitions)
