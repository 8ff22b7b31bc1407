"""Groups of the new protocols (KIP-848, KIP-932, KIP-1071), which are announced even while they are not served.

Apache Kafka announces their APIs whatever its features say, and answers UNSUPPORTED_VERSION in the body while the
feature is at level 0, and where `group.coordinator.rebalance.protocols` leaves the protocol out, which it does not ask
about share groups. Eosin does the same: a client that finds one of these APIs missing may wait for it without end
(librdkafka takes it for a coordinator that has died), while this error ends it at once. The client shows the sentence
here; the log has one line for each group that asks, and of one address a bounded number in a second.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from eosin.model.address_group import address_group
from eosin.model.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.runtime.log_budget import LogBudget

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.network.api import RequestContext
    from eosin.settings.broker import BrokerConfig

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")

MAX_GROUPS: Final = 1000
"""Number of groups that are remembered as told in the log; beyond, the one that asked the longest ago is forgotten."""


class GroupProtocol(Enum):
    """A protocol of groups, by its name in `group.coordinator.rebalance.protocols`."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class _ProtocolFacts(NamedTuple):
    feature: str
    name: str
    way_out: str


_PROTOCOLS: Final = {
    GroupProtocol.CONSUMER: _ProtocolFacts(
        GROUP_VERSION,
        "The consumer rebalance protocol (KIP-848) is",
        "until then set group.protocol=classic in the consumer.",
    ),
    GroupProtocol.SHARE: _ProtocolFacts(
        SHARE_VERSION,
        "Share groups (KIP-932) are",
        "until then use a consumer with group.protocol=classic instead of a share consumer.",
    ),
    GroupProtocol.STREAMS: _ProtocolFacts(
        STREAMS_VERSION,
        "The streams rebalance protocol (KIP-1071) is",
        "until then set group.protocol=classic in the application.",
    ),
}


def why_unserved(protocol: GroupProtocol, cluster: "Cluster", config: "BrokerConfig") -> str | None:
    """The sentence about a protocol that is not served, which a client shows; None if it is."""
    feature, name, way_out = _PROTOCOLS[protocol]
    if not cluster.features.level(feature):
        change = f"{feature} is 0: `eosin features upgrade {feature}` changes that"
    elif protocol is GroupProtocol.SHARE or protocol.value in config.group_coordinator_rebalance_protocols:
        return None
    else:
        change = f"this broker's group.coordinator.rebalance.protocols leaves {protocol.value} out"
    return f"{name} not served here, {change}; {way_out}"


MOST_REPORTED: Final = 100
"""In the response to a request of many groups, so many have the sentence: it is a hundred times as long as a name."""


def refused_groups(
    names: Sequence[str], sentence: str | None, refused: Callable[[str, ErrorCode, str | None], _T]
) -> Iterator[_T]:
    """The results of `refused` for each of the groups of a request: its name, the error and the sentence."""
    texts = chain(repeat(sentence, MOST_REPORTED), repeat(None))
    return (refused(name, ErrorCode.UNSUPPORTED_VERSION, text) for name, text in zip(names, texts, strict=False))


class UnservedGroups:
    """The groups that have asked for a protocol that is not served. Always true: at most `MAX_GROUPS` are kept."""

    def __init__(self, clock: Clock, cluster: "Cluster", config: "BrokerConfig") -> None:
        self._cluster = cluster
        self._config = config
        self._budget = LogBudget(clock, _log_left_out)
        # By the hash of the name: a name may have 32 KiB, and a collision costs a line of the log.
        self._told: OrderedDict[tuple[GroupProtocol, int], None] = OrderedDict()

    def why(self, protocol: GroupProtocol) -> str | None:
        """The sentence about a protocol that is not served; None if it is."""
        return why_unserved(protocol, self._cluster, self._config)

    def refused(self, protocol: GroupProtocol, group_id: str, context: "RequestContext") -> str | None:
        """The same for a member of `group_id`, whose first request is told in the log, too."""
        sentence = self.why(protocol)
        if sentence is None:
            return None
        key = (protocol, hash(group_id))
        if key not in self._told and self._budget.allows(address_group(context.client_host), context):
            _logger.warning(
                "group %.100r of client %.100r at %s: %s",
                group_id,
                context.client_id,
                context.client_host,
                sentence,
            )
        if key not in self._told and len(self._told) >= MAX_GROUPS:
            self._told.popitem(last=False)
        self._told[key] = None
        self._told.move_to_end(key)
        return sentence


def _log_left_out(context: "RequestContext", left_out: int) -> None:
    _logger.warning(
        "client %.100r at %s and others of its address: %d more requests for group protocols that are not served",
        context.client_id,
        context.client_host,
        left_out,
    )
