"""`LoadedShareGroups`: the share groups in a partition of `__consumer_offsets` that is read (share-groups.md 9)."""

from typing import Final

from eosin.coordinator.groups.consumer.loaded_groups import LoadedGroups
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.share.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.share.log.replay import replayed_in_steps
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.share.rules.records import ShareRecord, end_records
from eosin.coordinator.groups.share.share_groups import HeldShareGroup, ShareGroups
from eosin.coordinator.letting_go import dropped
from eosin.coordinator.steps import InSteps

SHARE_KIND_KEYS: Final = KIND_KEYS


class LoadedShareGroups(LoadedGroups[ShareGroup, ShareRecord]):
    """The share groups that a loader has come across."""

    def __init__(self, loader: Loader) -> None:
        """`loader` keeps the records of `SHARE_KIND_KEYS`."""
        super().__init__(
            loader,
            what="share group",
            kinds=KIND_KEYS,
            replayed=replayed_in_steps,
            encoded=encoded,
            end_records=end_records,
        )
        self.held: dict[str, HeldShareGroup] = {}
        """The groups that are ready to begin."""

    def hold(self) -> InSteps[None]:
        """Make the groups ready to begin."""
        yield from dropped((self.held,))
        for group in self._hand_over():
            self.held[group.group_id] = HeldShareGroup(group, group)
            yield

    def give(self, groups: ShareGroups) -> None:
        """Have the groups begin."""
        groups.broken = frozenset(self._found.broken)
        groups.load(self.held)
