"""`LoadedStreamsGroups`: the streams groups in a partition of `__consumer_offsets` that is read
(streams-groups.md 8)."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.loaded_groups import LoadedGroups
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.streams.log.records import KIND_KEYS, encoded, key_of_group
from eosin.coordinator.groups.streams.log.replay import replayed_in_steps
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.groups.streams.rules.records import StreamsRecord, end_records
from eosin.coordinator.groups.streams.streams_groups import HeldStreamsGroup, StreamsGroups
from eosin.coordinator.letting_go import dropped
from eosin.coordinator.steps import InSteps

STREAMS_KIND_KEYS: Final = KIND_KEYS


class LoadedStreamsGroups(LoadedGroups[StreamsGroup, StreamsRecord]):
    """The streams groups that a loader has come across."""

    def __init__(self, loader: Loader) -> None:
        """`loader` keeps the records of `STREAMS_KIND_KEYS`."""
        super().__init__(
            loader,
            what="streams group",
            kinds=KIND_KEYS,
            replayed=replayed_in_steps,
            encoded=encoded,
            end_records=end_records,
        )
        self.held: dict[str, HeldStreamsGroup] = {}
        """The groups that are ready to begin."""

    def hold(self, endpoint_epoch: int) -> InSteps[None]:
        """Make the groups ready to begin with this epoch of their endpoints."""
        yield from dropped((self.held,))
        for each in self._hand_over():
            time_ms = self._loader.group_times.get(key_of_group(each.group_id), -1)
            group = replace(each, state_timestamp_ms=time_ms, endpoint_epoch=endpoint_epoch)
            self.held[group.group_id] = HeldStreamsGroup(group, group)
            yield

    def give(self, groups: StreamsGroups) -> None:
        """Have the groups begin."""
        groups.broken = frozenset(self._found.broken)
        groups.load(self.held)
