"""The coordinators keep to the cluster's finalized levels while the broker runs (cluster.md 1.6). Only joined mode
imports this.

`TransactionVersionFollower` tells the transaction coordinator; requests of consumer groups read `group.version`
themselves, and `GroupVersionFollower` says in the log what a change means for groups that are here.
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import Cluster, ClusterListener
from eosin.model.features import GROUP_VERSION, TRANSACTION_VERSION

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


class GroupVersionFollower(ClusterListener):
    """Logs each change of the level, and who is served no more. The controllers ask nobody before they lower it."""

    def __init__(self, groups: "GroupCoordinator", cluster: Cluster) -> None:
        self._groups = groups
        self._cluster = cluster
        self._level = cluster.features.level(GROUP_VERSION)

    def features_changed(self) -> None:
        """The level may be another."""
        level = self._cluster.features.level(GROUP_VERSION)
        if level == self._level:
            return
        _LOG.info("the cluster's %s is %d now, and was %d", GROUP_VERSION, level, self._level)
        self._level = level
        if not level and (held := self._groups.consumer_groups_with_members(MOST_NAMED)):
            _LOG.warning(
                "consumer groups with members are served no more, as %s: their members need group.protocol=classic, and"
                " leave when their sessions end",
                ", ".join(f"{each:.256}" for each in held),
            )
