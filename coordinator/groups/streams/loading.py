"""`LoadedStreamsGroups`: the streams groups in a partition of `__consumer_offsets` that is read
(streams-groups.md 8)."""

import logging
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.log.records import encoded as encoded_of_consumer_group
from eosin.coordinator.groups.consumer.log.replay import Replayed
from eosin.coordinator.groups.consumer.rules.records import end_records as end_of_consumer_group
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.share.loading import LoadedShareGroups
from eosin.coordinator.groups.streams.log.records import KIND_KEYS, encoded, key_of_group
from eosin.coordinator.groups.streams.log.replay import ReplayedStreamsGroups, replayed, replayed_in_steps
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.groups.streams.rules.records import end_records
from eosin.coordinator.groups.streams.streams_groups import StreamsGroups
from eosin.coordinator.steps import InSteps
from eosin.protocol.records.batch import NewRecord

_LOG: Final = logging.getLogger("eosin.coordinator.groups")
STREAMS_KIND_KEYS: Final = KIND_KEYS


class LoadedStreamsGroups:
    """The streams groups that a loader has come across."""

    def __init__(self, loader: Loader) -> None:
        """`loader` keeps the records of `STREAMS_KIND_KEYS`."""
        self._loader = loader
        self._found: ReplayedStreamsGroups = ReplayedStreamsGroups({}, {}, {}, {})
        self._groups: list[StreamsGroup] = []

    def read(self) -> None:
        """Put together the groups of what was read so far."""
        self._found = replayed(self._loader.records_of(KIND_KEYS))

    def read_in_steps(self) -> InSteps[None]:
        """The same, in steps."""
        self._found = yield from replayed_in_steps(self._loader.records_of(KIND_KEYS))

    def settle_names(self, consumer_groups: Replayed, share: LoadedShareGroups) -> list[NewRecord]:
        """Leave each name to one kind of group: the one whose record is the last. Returns the tombstones of what
        belongs to no group. A name that stays here is taken from the others."""
        loader, found = self._loader, self._found
        tombstones: list[NewRecord] = []
        for group_id, records in found.left_over.items():
            tombstones += encoded(group_id, records)
        for group_id, group in found.groups.items():
            classic_offset = loader.group_offsets.get(group_id, -1)
            consumer_offset = consumer_groups.offsets.get(group_id, -1)
            if max(classic_offset, consumer_offset, share.offset_of(group_id)) > found.offsets[group_id]:
                _LOG.warning("the group %.256r was a streams group before, whose records are deleted", group_id)
                tombstones += encoded(group_id, end_records(group))
                continue
            if classic_offset >= 0:
                _LOG.warning("the group %.256r was a classic group before, whose record is deleted", group_id)
                tombstones.append(group_records.group_tombstone(group_id))
            if consumer_offset >= 0:
                _LOG.warning("the group %.256r was a consumer group before, whose records are deleted", group_id)
                before = consumer_groups.groups[group_id]
                tombstones += encoded_of_consumer_group(group_id, end_of_consumer_group(before))
            tombstones += share.give_up(group_id)
            loader.groups.pop(group_id, None)
            loader.group_offsets.pop(group_id, None)
            self._groups.append(group)
        return tombstones

    @property
    def names(self) -> frozenset[str]:
        """The names that streams groups have, once they are settled."""
        return frozenset(group.group_id for group in self._groups)

    def give(self, groups: StreamsGroups) -> None:
        """Have the groups begin."""
        groups.broken = frozenset(self._found.broken)
        times = self._loader.group_times
        groups.load(
            [replace(each, state_timestamp_ms=times.get(key_of_group(each.group_id), -1)) for each in self._groups]
        )
