"""`TwoPhaseReplicas`: two-phase commits only while every replica of `__transaction_state` is on an Eosin broker.

A broker of Apache Kafka that takes over a prepared transaction forgets what its owner needs to come back, and may take
its producer epoch back (cluster.md 6.9, D8). So a reassignment that would bring one there is refused where this broker
is asked for it. Only joined mode imports this.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import Outcome
from eosin.model.features import EOSIN_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator

_LOG: Final = logging.getLogger(__name__)


class TwoPhaseReplicas:
    """Tells the coordinator after each publication whether two-phase commits are safe."""

    def __init__(self, transactions: "TransactionCoordinator", image: "ClusterImage") -> None:
        self._transactions = transactions
        self._apply(image)

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        is_touched = any(each.partition.topic == TRANSACTION_STATE_TOPIC for each in delta.partitions_changed)
        if is_touched or delta.brokers_changed:
            self._apply(delta.after)

    def _apply(self, image: "ClusterImage") -> None:
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


def refused_move(image: "ClusterImage", partition: int, replicas: Sequence[int]) -> Outcome | None:
    """Returns why a partition of `__transaction_state` must not get these replicas while there are two-phase commits;
    None when it may: no broker is among them that is not Eosin's and has no replica of it yet."""
    registered = image.partition(TRANSACTION_STATE_TOPIC, partition)
    present = () if registered is None else registered.replicas
    strangers = sorted(each for each in _strangers(image, replicas) if each not in present)
    if not strangers:
        return None
    return Outcome(
        ErrorCode.INVALID_REQUEST,
        f"{'Broker' if len(strangers) == 1 else 'Brokers'} {', '.join(map(str, strangers))} would lose prepared"
        " transactions, which only Eosin's brokers can take over: end them and start all brokers with"
        " transaction.two.phase.commit.enable=false first",
    )


def strangers_of(image: "ClusterImage") -> set[int]:
    """The brokers with a replica of `__transaction_state` that do not say that they are Eosin's."""
    topic = image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return set()
    replicas = {node_id for each in topic.partitions.values() for node_id in each.replicas}
    return _strangers(image, replicas)


def _strangers(image: "ClusterImage", node_ids: Iterable[int]) -> set[int]:
    registered = {node_id: image.brokers.get(node_id) for node_id in node_ids}
    return {node_id for node_id, found in registered.items() if found is None or EOSIN_VERSION not in found.features}
