"""`TransactionVersionFollower`: the transaction coordinator keeps to the cluster's finalized `transaction.version`
while the broker runs (cluster.md 1.6). Only joined mode imports this.
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import Cluster, ClusterListener
from eosin.model.features import TRANSACTION_VERSION

if TYPE_CHECKING:
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator

_LOG: Final = logging.getLogger(__name__)


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
