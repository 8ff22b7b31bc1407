"""`PeerListeners`: one line for each broker that this one cannot dial, because it has no listener of the name by which
this one reaches others.

Each broker's settings name that listener for itself (`inter.broker.listener.name`), and the controllers compare
nothing. Such a broker registers and leads, but no replica here can follow it, and no marker of a transaction gets to
it.
"""

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta

_LOG: Final = logging.getLogger(__name__)


class PeerListeners:
    """Tells of the other brokers that lack the listener by which this one reaches them."""

    def __init__(self, node_id: int, listener: str, image: "ClusterImage") -> None:
        """`listener` is the one by which broker `node_id` reaches others."""
        self._node_id = node_id
        self._listener = listener
        self._told: frozenset[int] = frozenset()
        self._check(image)

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        if delta.brokers_changed:
            self._check(delta.after)

    def _check(self, image: "ClusterImage") -> None:
        without = frozenset(
            node_id
            for node_id, broker in image.brokers.items()
            if node_id != self._node_id and self._listener not in broker.endpoints
        )
        for node_id in sorted(without - self._told):
            _LOG.warning(
                "broker %d has no listener %s, by which this broker reaches others: no replica here can follow it, and"
                " transactions that this broker coordinates cannot end on it (inter.broker.listener.name)",
                node_id,
                self._listener,
            )
        self._told = without
