"""The coordinators keep to the cluster's finalized levels while the broker runs (cluster.md 1.6). Only joined mode
imports this.

`TransactionVersionFollower` tells the transaction coordinator; requests of consumer, share and streams groups read the
level of their kind themselves, and `GroupVersionFollower` says in the log what a change means for groups that are here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.model.cluster import Cluster, ClusterListener
from eosin.model.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION

if TYPE_CHECKING:
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator

_LOG: Final = logging.getLogger(__name__)

MOST_NAMED: Final = 3


class TransactionVersionFollower(ClusterListener):
    """Tells the coordinator of each change of the level."""

    def __init__(self, transactions: "TransactionCoordinator", cluster: Cluster) -> None:
        self._transactions = transactions
        self._cluster = cluster
        self._level = -1
        self.features_changed()

    def features_changed(self) -> None:
        """The level may be another. A cluster that has not finalized one is at level 0."""
        level = self._cluster.features.level(TRANSACTION_VERSION)
        if level == self._level:
            return
        if self._level >= 0:
            _LOG.info("the cluster's %s is %d now, and was %d", TRANSACTION_VERSION, level, self._level)
        self._level = level
        self._transactions.use_transaction_version(level)


class _Kind(NamedTuple):
    """Groups of one kind."""

    name: str
    with_members: Callable[[int], Sequence[str]]
    """The names of those that have members, so many at most."""
    way_out: str
    """The end of a sentence about them."""


class GroupVersionFollower(ClusterListener):
    """Logs each change of a level, and who is served no more. The controllers ask nobody before they lower one."""

    def __init__(self, groups: "GroupCoordinator", cluster: Cluster) -> None:
        self._cluster = cluster
        self._kinds: Mapping[str, _Kind] = {
            GROUP_VERSION: _Kind(
                "consumer groups",
                groups.consumer_groups_with_members,
                "their members need group.protocol=classic, and leave when their sessions end",
            ),
            SHARE_VERSION: _Kind(
                "share groups", groups.share.with_members, "their members leave when their sessions end"
            ),
            STREAMS_VERSION: _Kind(
                "streams groups",
                groups.streams.with_members,
                "their members need group.protocol=classic, and leave when their sessions end",
            ),
        }
        self._levels = {name: cluster.features.level(name) for name in self._kinds}

    def features_changed(self) -> None:
        """Levels may be others."""
        for name, kind in self._kinds.items():
            level, before = self._cluster.features.level(name), self._levels[name]
            if level == before:
                continue
            _LOG.info("the cluster's %s is %d now, and was %d", name, level, before)
            self._levels[name] = level
            if not level and (held := kind.with_members(MOST_NAMED)):
                names = ", ".join(f"{each:.256}" for each in held)
                _LOG.warning("%s with members are served no more, as %s: %s", kind.name, names, kind.way_out)
