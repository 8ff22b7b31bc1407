"""`TwoPhaseReplicas`: two-phase commits only while every replica of `__transaction_state` is on an Eosin broker.

A broker of Apache Kafka that takes over a prepared transaction forgets what its owner needs to come back, and may take
its producer epoch back (cluster.md 6.9, D8). Only joined mode with `transaction.two.phase.commit.enable` imports this.
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.broker.membership.registration import EOSIN_VERSION
from eosin.protocol.names import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from eosin.broker.quorum.image import ClusterImage, ImageDelta
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator

_LOG: Final = logging.getLogger(__name__)


class TwoPhaseReplicas:
    """Tells the coordinator after each publication whether two-phase commits are safe."""

    def __init__(self, transactions: "TransactionCoordinator", image: "ClusterImage") -> None:
        self._transactions = transactions
        self._take(image)

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        is_touched = any(each.partition.topic == TRANSACTION_STATE_TOPIC for each in delta.partitions_changed)
        if is_touched or delta.brokers_changed:
            self._take(delta.after)

    def _take(self, image: "ClusterImage") -> None:
        strangers = strangers_of(image)
        is_safe = not strangers
        if is_safe is self._transactions.allows_two_phase:
            return
        self._transactions.allows_two_phase = is_safe
        if is_safe:
            _LOG.info("every replica of %s is on an Eosin broker: two-phase commits are on", TRANSACTION_STATE_TOPIC)
        else:
            _LOG.warning(
                "two-phase commits are off, as %s has replicas on brokers %s, which are not Eosin's and would lose"
                " prepared transactions: reassign these replicas",
                TRANSACTION_STATE_TOPIC,
                ", ".join(map(str, sorted(strangers))),
            )


def strangers_of(image: "ClusterImage") -> set[int]:
    """The brokers with a replica of `__transaction_state` that do not say that they are Eosin's."""
    topic = image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return set()
    replicas = {node_id for each in topic.partitions.values() for node_id in each.replicas}
    registered = {node_id: image.brokers.get(node_id) for node_id in replicas}
    return {node_id for node_id, found in registered.items() if found is None or EOSIN_VERSION not in found.features}
