"""`RequestFacts`: a request as rules see it, and `fits`: the partitions of it that a rule is about.

Always true: nothing is found out before a rule wants to know it. Topic ids are resolved by the cluster, and a
transactional id that only its producer id tells by the coordinator.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

from eosin.lab.common.patterns import fit_patterns
from eosin.lab.faults.rules import Match
from eosin.lab.faults.topics import Key, partitions_in
from eosin.lab.history.requests import spelled
from eosin.lab.nodes.table import NODE
from eosin.network.request_hooks import ObservedRequest
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import batches
from eosin.protocol.types import Message

_TRANSACTION: Final = 1
"""The type of coordinator that FindCoordinator asks for with a transactional id."""
_NO_PRODUCER: Final = -1


class Fit(NamedTuple):
    """A request that a rule is about."""

    partitions: frozenset[tuple[Key, int | None]] | None
    """The partitions that the rule names; None if it is about the whole request."""

    def wants(self, topic: Key, partition: int | None) -> bool:
        """True for the partitions that the rule is about."""
        return self.partitions is None or (topic, partition) in self.partitions


WHOLE: Final = Fit(None)


class Arrival(Protocol):
    """One arrival at a point inside the broker (`lab/disk/points.py`); what it does not know is None."""

    @property
    def point(self) -> str:
        """One of the points of `rules`."""

    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def transactional_id(self) -> str | None: ...
    @property
    def producer_epoch(self) -> int | None: ...
    @property
    def call(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...


class RequestFacts:
    """One request, at one of its points."""

    def __init__(self, observed: ObservedRequest) -> None:
        self.observed: Final = observed
        self.request: Final[Any] = observed.request

    @cached_property
    def api(self) -> str:
        """As Kafka spells it."""
        return spelled(self.observed.api.key)

    @cached_property
    def partitions(self) -> list[tuple[str, Key, int | None]]:
        """The topics that it names, by name and as it names them, with their partitions."""
        request = self.request
        if not isinstance(request, Message):
            return []
        found = list(partitions_in(request))
        session_id = getattr(request, "session_id", 0)
        if self.observed.api.key is ApiKey.FETCH and session_id:
            # The request names what has changed alone.
            wanted = self.observed.services.fetch_sessions.partitions(session_id)
            found += [(each.topic or each.topic_id, each.partition) for each in wanted]
        if self.observed.api.key is ApiKey.SHARE_FETCH:
            found += self._in_share_session()
        return [(self._name(key), key, partition) for key, partition in found]

    def _in_share_session(self) -> list[tuple[Key, int | None]]:
        """The partitions that its member reads, of which a request names what has changed alone."""
        key = (self.request.group_id, self.request.member_id)
        sessions = self.observed.services.sharing.sessions
        return [(each.topic_id, each.partition) for one in sessions if one.key == key for each in one.partitions]

    def _name(self, key: Key) -> str:
        if isinstance(key, str):
            return key
        topic = self.observed.services.cluster.topic_by_id(key)
        return "" if topic is None else str(topic.name)

    @cached_property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch; -1 for none."""
        request, key = self.request, self.observed.api.key
        if key is ApiKey.PRODUCE:
            for topic in request.topic_data:
                for each in topic.partition_data:
                    for _, header in batches(each.records or b""):
                        return header.producer_id, header.producer_epoch
        prefix = "v3_and_below_" if key is ApiKey.ADD_PARTITIONS_TO_TXN else ""
        return (
            getattr(request, f"{prefix}producer_id", _NO_PRODUCER),
            getattr(request, f"{prefix}producer_epoch", _NO_PRODUCER),
        )

    @cached_property
    def transactional_id(self) -> str | None:
        """The transactional id that it is about."""
        request, key = self.request, self.observed.api.key
        if key is ApiKey.FIND_COORDINATOR:
            return _first_key(request) if request.key_type == _TRANSACTION else None
        named = getattr(request, "transactional_id", None) or getattr(request, "v3_and_below_transactional_id", None)
        if named:
            return str(named)
        producer_id, _ = self.producer
        if producer_id == _NO_PRODUCER:
            return None
        coordinator = self.observed.services.transactions
        return next(
            (txn.transactional_id for some in coordinator.txns() for txn in some if txn.producer_id == producer_id),
            None,
        )

    @cached_property
    def group(self) -> str | None:
        """The group that it is about."""
        request, key = self.request, self.observed.api.key
        if key is ApiKey.FIND_COORDINATOR:
            return None if request.key_type == _TRANSACTION else _first_key(request)
        named = getattr(request, "group_id", None)
        if named:
            return str(named)
        groups = getattr(request, "groups", None) or ()
        return str(getattr(groups[0], "group_id", groups[0])) if groups else None


def fits(match: Match, facts: RequestFacts) -> Fit | None:
    """The part of a request that a match is about; None if it is about another one."""
    observed = facts.observed
    if match.call is not None or match.path is not None or (match.apis and facts.api not in match.apis):
        return None
    context, link = observed.context, observed.link
    if match.versions is not None and not match.versions[0] <= context.api_version <= match.versions[1]:
        return None
    if match.connection is not None and match.connection != link.id:
        return None
    if match.node is not None and match.node != _node_of(observed):
        return None
    texts: tuple[tuple[str | None, Callable[[], str | None]], ...] = (
        (match.client_id, lambda: context.client_id),
        (match.software, lambda: context.client_software_name),
        (match.software_version, lambda: context.client_software_version),
        (match.listener, lambda: context.listener),
        (match.peer, lambda: observed.peer),
        (match.transactional_id, lambda: facts.transactional_id),
        (match.group, lambda: facts.group),
    )
    if not all(pattern is None or fnmatchcase(find() or "", pattern) for pattern, find in texts):
        return None
    if match.producer_epoch is not None and match.producer_epoch != facts.producer[1]:
        return None
    for name, value in match.fields.items():
        if not _is_equal(getattr(facts.request, name, None), value):
            return None
    if match.topic is None and match.partition is None:
        return WHOLE
    indexes = match.partitions
    chosen = frozenset(
        (key, partition)
        for name, key, partition in facts.partitions
        if (match.topic is None or fnmatchcase(name, match.topic)) and (not indexes or partition in indexes)
    )
    if chosen and facts.observed.api.key is ApiKey.SHARE_FETCH:
        return WHOLE  # its session reads all of its partitions, whatever a request names
    return Fit(chosen) if chosen else None


def _node_of(observed: ObservedRequest) -> int | None:
    """The node that a request was sent to."""
    if observed.context.listener.startswith(NODE):
        return int(observed.context.listener.removeprefix(NODE))
    return getattr(observed.services.config, "node_id", None)


def fits_arrival(match: Match, arrival: Arrival) -> bool:
    """True if a match is about what has come to a point inside the broker."""
    if match.apis or match.fields:
        return False
    texts = (
        (match.topic, arrival.topic),
        (match.transactional_id, arrival.transactional_id),
        (match.call, arrival.call),
        (match.path, arrival.path),
    )
    if not fit_patterns(texts):
        return False
    if match.producer_epoch is not None and match.producer_epoch != arrival.producer_epoch:
        return False
    return match.partition is None or arrival.partition in match.partitions


def _first_key(request: Any) -> str | None:
    keys = request.coordinator_keys or (request.key,)
    return str(keys[0])


def _is_equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, str) and isinstance(wanted, str):
        return fnmatchcase(found, wanted)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)
