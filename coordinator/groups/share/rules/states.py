"""`StateTopics`: which partitions of a share group have a state of their own in `__share_group_state`, and which are
about to get or to lose it (share-groups.md 6). Pure.

A partition is *initializing* from the heartbeat that wants it until its state is there; then it is *initialized*, and
members may be given it. A topic is *deleting* while its states are being deleted. Each step is a record before the next
one begins, so that a crash between two of them leaves something to go on from. Always true: no topic is in a list
without partitions; a state that is initialized is never begun anew, because that would forget what was acknowledged.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.topics import Topics
from eosin.protocol.names import TopicIdPartition, Uuid


class StateTopic(msgspec.Struct, frozen=True, gc=False):
    """Some partitions of a topic."""

    name: str
    partitions: frozenset[int]


StateLists = Mapping[Uuid, StateTopic]


class StateTopics(msgspec.Struct, frozen=True, gc=False):
    """The three lists of one group."""

    initializing: StateLists = msgspec.field(default_factory=dict)
    initialized: StateLists = msgspec.field(default_factory=dict)
    deleting: Mapping[Uuid, str] = msgspec.field(default_factory=dict)
    """The names of topics, by id: of all their partitions."""

    def has_state(self, partition: TopicIdPartition) -> bool:
        """True if the partition is initialized."""
        topic = self.initialized.get(partition.topic_id)
        return topic is not None and partition.partition in topic.partitions

    def with_any(self, topic_id: Uuid) -> frozenset[int]:
        """The partitions of a topic that have a state, or may have one."""
        some = (each.get(topic_id) for each in (self.initializing, self.initialized))
        return frozenset[int]().union(*(topic.partitions for topic in some if topic is not None))

    def ids(self) -> frozenset[Uuid]:
        """The topics in any list."""
        return frozenset((*self.initializing, *self.initialized, *self.deleting))


NO_STATES = StateTopics()


def missing(states: StateTopics, names: Iterable[str], topics: Topics, *, busy: Collection[Uuid]) -> StateLists:
    """The partitions of topics with these names that have no state, and get none yet. Not of those in `busy`, whose
    states are being deleted this moment."""
    found: dict[Uuid, StateTopic] = {}
    for name in sorted(names):
        topic = topics.get(name)
        if topic is None or topic.topic_id in busy:
            continue
        known = states.with_any(topic.topic_id)
        if len(known) < topic.partitions:
            lacking = frozenset(range(topic.partitions)) - known
            found[topic.topic_id] = StateTopic(name, lacking)
    return found


def begun(states: StateTopics, some: StateLists) -> StateTopics:
    """Their initialization begins. A topic whose states were to be deleted is wanted again."""
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in some}
    return replace(states, initializing=_plus(states.initializing, some), deleting=deleting)


def initialized(states: StateTopics, partitions: Iterable[TopicIdPartition]) -> StateTopics:
    """Some partitions have their states. Those that are to have none any more are left out."""
    made = _of(partitions, states.initializing)
    return replace(states, initializing=_minus(states.initializing, made), initialized=_plus(states.initialized, made))


def settled(states: StateTopics) -> StateTopics:
    """The same lists, without what is on its way in them although it is there. Apache Kafka lists a partition so while
    an administrator moves its offset; to initialize it once more would forget what was acknowledged."""
    twice = {
        topic_id: topic
        for topic_id, topic in states.initialized.items()
        if topic_id in states.initializing and topic.partitions & states.initializing[topic_id].partitions
    }
    return replace(states, initializing=_minus(states.initializing, twice)) if twice else states


def to_delete(states: StateTopics, ids: Iterable[Uuid]) -> StateTopics:
    """The states of whole topics are to be deleted."""
    gone = {topic_id: _name(states, topic_id) for topic_id in ids}
    return StateTopics(
        _without(states.initializing, gone), _without(states.initialized, gone), {**states.deleting, **gone}
    )


def deleted(states: StateTopics, ids: Collection[Uuid]) -> StateTopics:
    """The states of topics are gone. A topic that is wanted again meanwhile stays so."""
    return replace(states, deleting={each: name for each, name in states.deleting.items() if each not in ids})


def without_topics(states: StateTopics, ids: Collection[Uuid]) -> StateTopics:
    """Topics are gone themselves."""
    return StateTopics(
        _without(states.initializing, ids),
        _without(states.initialized, ids),
        {each: name for each, name in states.deleting.items() if each not in ids},
    )


def _name(states: StateTopics, topic_id: Uuid) -> str:
    topic = states.initialized.get(topic_id) or states.initializing.get(topic_id)
    return states.deleting[topic_id] if topic is None else topic.name


def _of(partitions: Iterable[TopicIdPartition], lists: StateLists) -> StateLists:
    """Find the partitions that are in the lists, with the names of their topics."""
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in partitions:
        topic = lists.get(topic_id)
        if topic is not None and partition in topic.partitions:
            found.setdefault(topic_id, set()).add(partition)
    return {each: StateTopic(lists[each].name, frozenset(some)) for each, some in found.items()}


def _plus(lists: StateLists, more: StateLists) -> StateLists:
    made = dict(lists)
    for topic_id, topic in more.items():
        before = made.get(topic_id)
        made[topic_id] = topic if before is None else replace(topic, partitions=before.partitions | topic.partitions)
    return made


def _minus(lists: StateLists, fewer: StateLists) -> StateLists:
    if not fewer:
        return lists
    made = dict(lists)
    for topic_id, topic in fewer.items():
        left = made[topic_id].partitions - topic.partitions
        if left:
            made[topic_id] = replace(made[topic_id], partitions=left)
        else:
            del made[topic_id]
    return made


def _without(lists: StateLists, ids: Collection[Uuid]) -> StateLists:
    return {topic_id: topic for topic_id, topic in lists.items() if topic_id not in ids}


def lists_of(partitions: Iterable[TopicIdPartition], names: Mapping[Uuid, str]) -> StateLists:
    """Partitions by topic."""
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, set()).add(partition)
    return {each: StateTopic(names[each], frozenset(some)) for each, some in found.items()}
