"""Groups of all kinds as the files of a stopped broker tell of them. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from eosin.coordinator.groups.consumer.log import records as consumer_records
from eosin.coordinator.groups.consumer.log import replay as consumer_replay
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.log import records as share_records
from eosin.coordinator.groups.share.log import replay as share_replay
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.log import records as streams_records
from eosin.coordinator.groups.streams.log import replay as streams_replay
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.share_state.rules.records import StoredState
from eosin.coordinator.share_states import UNKNOWN_COUNT, UNKNOWN_OFFSET, SharePartition
from eosin.coordinator.steps import finished
from eosin.observe.explain.facts import SharedPartition, StreamsFacts
from eosin.observe.explain.streams_group_facts import holders_of, streams_facts
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.scan import KeyValue

StoredGroup = Group | ConsumerGroup | ShareGroup | StreamsGroup
_KINDS: Final[tuple[tuple[Collection[bytes], Callable[[Iterable[KeyValue]], Any]], ...]] = (
    (consumer_records.KIND_KEYS, consumer_replay.replayed),
    (share_records.KIND_KEYS, share_replay.replayed),
    (streams_records.KIND_KEYS, streams_replay.replayed),
)
KIND_KEYS: Final = frozenset[bytes]().union(*(keys for keys, _ in _KINDS))
"""The first bytes of the keys of all kinds but classic groups."""


def groups_in(loader: Loader) -> dict[str, StoredGroup]:
    """The groups in a log that was read. Of two kinds with one name the one whose record is later is there
    (consumer-groups.md 12.3)."""
    groups: dict[str, StoredGroup] = {**loader.groups}
    offsets = dict(loader.group_offsets)
    for keys, replayed in _KINDS:
        found = replayed(finished(loader.records_of(keys)))
        for name, group in found.groups.items():
            if found.offsets[name] > offsets.get(name, -1):
                groups[name], offsets[name] = group, found.offsets[name]
    return groups


def epochs_of(group: StoredGroup) -> tuple[int, int]:
    """The epochs of a group and of its assignment; -1 for a classic one."""
    return (-1, -1) if isinstance(group, Group) else (group.epoch, group.assignment_epoch)


def streams_facts_of(group: StoredGroup) -> StreamsFacts | None:
    """The topology and tasks of a streams group; None for one of another kind. The names of missing topics are not
    stored."""
    if not isinstance(group, StreamsGroup):
        return None
    topology = group.topology
    obstacle = "" if group.is_ready or topology is None or not group.members else "topics of its topology were missing"
    return streams_facts(
        holders_of(group), topology_epoch=-1 if topology is None else topology.epoch, obstacle=obstacle
    )


def shared_partitions(
    group: ShareGroup,
    states: Mapping[SharePartition, StoredState],
    end_of: Callable[[TopicPartition], int | None],
) -> list[SharedPartition]:
    """The partitions of a share group, in order. `end_of` is the high watermark of one, None where it has no log."""
    readers = Counter(tuple(place) for member in group.members.values() for place in member.assigned)
    found: list[tuple[TopicPartition, SharedPartition]] = []
    for topic_id, topic in group.states.initialized.items():
        for number in topic.partitions:
            place = TopicPartition(topic.name, number)
            state = states.get(SharePartition(group.group_id, topic_id, number))
            start = UNKNOWN_OFFSET if state is None else state.start_offset
            end, lag = end_of(place), -1
            if state is not None and end is not None and start != UNKNOWN_OFFSET:
                done = state.delivery_complete_count
                lag = -1 if done == UNKNOWN_COUNT else max(0, end - start - done)
            found.append((place, SharedPartition(str(place), start, lag, readers[topic_id, number])))
    return [shared for _, shared in sorted(found, key=lambda each: each[0])]
