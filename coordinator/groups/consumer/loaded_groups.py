"""`LoadedGroups`: the groups of one kind, share or streams, in a partition of `__consumer_offsets` that is read, and
which names are left to them (consumer-groups.md 12.3)."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Generic, TypeVar

from eosin.coordinator.groups.consumer.log.records import encoded as encoded_of_consumer_group
from eosin.coordinator.groups.consumer.log.replay import Replayed
from eosin.coordinator.groups.consumer.rules.records import end_records as end_of_consumer_group
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.log.replayed_groups import ReplayedGroups
from eosin.coordinator.letting_go import dropped
from eosin.coordinator.steps import InSteps
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.scan import KeyValue

_LOG: Final = logging.getLogger("eosin.coordinator.groups")
_Group = TypeVar("_Group")
_Record = TypeVar("_Record")


class LoadedGroups(Generic[_Group, _Record]):
    """The groups that a loader has come across."""

    def __init__(
        self,
        loader: Loader,
        *,
        what: str,
        kinds: Collection[bytes],
        replayed: Callable[[Iterable[KeyValue]], InSteps[ReplayedGroups[_Group, _Record]]],
        encoded: Callable[[str, Iterable[_Record]], list[NewRecord]],
        end_records: Callable[[_Group], list[_Record]],
    ) -> None:
        """`loader` keeps the records of the kind, whose name is `what` and whose keys begin with one of `kinds`.
        `replayed` puts groups together, and `end_records` are the tombstones of one."""
        self._loader = loader
        self._what = what
        self._kinds = kinds
        self._replayed = replayed
        self._encoded = encoded
        self._end_records = end_records
        self._found: ReplayedGroups[_Group, _Record] = ReplayedGroups({}, {}, {}, {})
        self._left: dict[str, _Group] = {}

    def read(self) -> InSteps[None]:
        """Put together the groups of what was read so far."""
        yield from dropped((self._left, self._found.groups))  # of what was read before
        records = yield from self._loader.records_of(self._kinds)
        self._found = yield from self._replayed(records)

    def settle_names(self, consumer_groups: Replayed, *others: "LoadedGroups[Any, Any]") -> InSteps[list[NewRecord]]:
        """Leave each name to one kind of group: the one whose record is the last. Returns the tombstones of what
        belongs to no group. A name that stays here is taken from classic and consumer groups and from `others`."""
        loader, found = self._loader, self._found
        tombstones: list[NewRecord] = []
        for group_id, records in found.left_over.items():
            tombstones += self._encoded(group_id, records)
        for group_id, group in found.groups.items():
            yield
            classic_offset = loader.group_offsets.get(group_id, -1)
            consumer_offset = consumer_groups.offsets.get(group_id, -1)
            elsewhere = (classic_offset, consumer_offset, *(each.offset_of(group_id) for each in others))
            if max(elsewhere) > found.offsets[group_id]:
                tombstones += self._ended(group_id, group)
                continue
            if classic_offset >= 0:
                _LOG.warning("the group %.256r was a classic group before, whose record is deleted", group_id)
                tombstones.append(group_records.group_tombstone(group_id))
            if consumer_offset >= 0:
                _LOG.warning("the group %.256r was a consumer group before, whose records are deleted", group_id)
                before = consumer_groups.groups[group_id]
                tombstones += encoded_of_consumer_group(group_id, end_of_consumer_group(before))
            for other in others:
                tombstones += other.give_up(group_id)
            loader.groups.pop(group_id, None)
            loader.group_offsets.pop(group_id, None)
            self._left[group_id] = group
        return tombstones

    def offset_of(self, group_id: str) -> int:
        """The offset of the record of a group that was found; -1 if there is none."""
        return self._found.offsets.get(group_id, -1)

    def give_up(self, group_id: str) -> list[NewRecord]:
        """Leave a name to a group of another kind. Returns the tombstones of the group that had it."""
        if group_id not in self._found.groups:
            return []
        groups, offsets = dict(self._found.groups), dict(self._found.offsets)
        del offsets[group_id]
        group = groups.pop(group_id)
        self._found = self._found._replace(groups=groups, offsets=offsets)
        return self._ended(group_id, group)

    def _ended(self, group_id: str, group: _Group) -> list[NewRecord]:
        _LOG.warning("the group %.256r was a %s before, whose records are deleted", group_id, self._what)
        return self._encoded(group_id, self._end_records(group))

    @property
    def found(self) -> dict[str, _Group]:
        """All groups that were found."""
        return self._found.groups

    def _hand_over(self) -> list[_Group]:
        """The groups that have kept their names, which are not kept here any more."""
        left, self._left = self._left, {}
        return list(left.values())

    def __contains__(self, group_id: str) -> bool:
        """True if a group of this kind has the name, once names are settled."""
        return group_id in self._left
