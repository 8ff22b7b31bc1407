"""`QuotaEnforcement`: what quotas do to requests (security.md 5.3; KIP-13, KIP-124, KIP-219, KIP-599).

A response leaves at once and tells its client how long to pause; then the connection is not read for so long, because
not every client listens. Always true: a transaction's end, its offsets and the signs of life of group members are
counted, and never a reason to pause; what brokers ask each other is not counted; no pause is longer than
`eosin.quota.throttle.max.ms`. While no quota is set there is no such hook.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from eosin.model.quota_table import Limit, QuotaKey, QuotaTable, plain_address
from eosin.network.many_items import NAMES_PER_TURN, connection_held, items_in, list_in_turns, size_of
from eosin.network.quotas.mutations import TopicMutations
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse
from eosin.protocol.schemas.share_fetch import ShareFetchRequest, ShareFetchResponse
from eosin.runtime.clock import Clock, stopwatch_ns
from eosin.security.quotas.buckets import QuotaBuckets

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster

_OF_BROKERS: Final = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.DESCRIBE_QUORUM,
    }
)
"""APIs that are asked by brokers, or by nobody else often."""
_NEVER_PAUSED: Final = frozenset(
    {
        ApiKey.END_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.HEARTBEAT,
        ApiKey.JOIN_GROUP,
        ApiKey.API_VERSIONS,
    }
)
"""A pause must not turn a finished transaction into one that timed out, nor a member into one that is gone."""
_REQUEST_PAUSE_MAX_MS: Final = 1000
"""Of the quota of time, as in Kafka: one sample."""
_PARTITION_BYTES: Final = 40
"""Size of a partition in the response to a Fetch without its records, about."""


MANY_ITEMS: Final = 10_000
"""Names, partitions and the like in one request: beyond, it costs its time before it runs. Each has a byte or more."""
ITEM_NS: Final = 10_000
"""Time that one item takes, about."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The settings of how quotas are measured and enforced."""

    window_num: int = 11
    """`quota.window.num`."""
    sample_ms: int = 1000
    """`quota.window.size.seconds`."""
    throttle_max_ms: int = 15_000
    """`eosin.quota.throttle.max.ms`: below the 30 s after which clients give up a request."""
    default_partitions: int = 1
    """`num.partitions`."""


class DropsSessions(Protocol):
    """The fetch sessions of the broker."""

    def drop(self, session_id: int) -> None:
        """End a session."""


class QuotaEnforcement(RequestHooks):
    """The quotas of one broker at work."""

    def __init__(
        self,
        table: QuotaTable,
        clock: Clock,
        sessions: DropsSessions,
        cluster: "Cluster | None",
        settings: QuotaSettings,
        *,
        ns: Callable[[], int] = stopwatch_ns,
    ) -> None:
        """`cluster` tells how many partitions topics have; None where controllers count changes of topics. `ns` is a
        clock for moments of work."""
        self._ns = ns
        self._table = table
        self._clock = clock
        self._sessions = sessions
        self._settings = settings
        self._buckets = QuotaBuckets(window_num=settings.window_num, sample_ms=settings.sample_ms)
        self._mutations = (
            None
            if cluster is None
            else TopicMutations(cluster, self._buckets, clock, default_partitions=settings.default_partitions)
        )

    def connection_delay_ms(self, address: str) -> int:
        """Time to hold a new connection of this address before it is closed; 0 if it may be served. One that is not
        served is not counted."""
        plain = plain_address(address) or address
        bound = self._table.of_address(plain)
        if bound is None:
            return 0
        key, now_ms = QuotaKey.CONNECTION_CREATION_RATE, self._clock.elapsed_ms()
        delay_ms = self._buckets.use_if_it_fits(key, Limit(bound, ("", plain)), 1, now_ms)
        return min(delay_ms, self._settings.sample_ms)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        key = observed.api.key
        observed.begun_ns = self._ns()
        if key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            return self._bounded_fetch(observed)
        if observed.size_bytes > MANY_ITEMS and key is not ApiKey.PRODUCE and self._is_too_much(observed):
            return RequestVerdict(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if self._mutations is not None and self._mutations.counts(key):
            limit = self._limit(QuotaKey.CONTROLLER_MUTATION_RATE, observed)
            if limit is not None:
                return await self._mutations.begun(observed, limit)
        return None

    def waits(self, observed: ObservedRequest) -> None:
        observed.busy_ns = self._ns() - observed.begun_ns

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        key = observed.api.key
        if key in _OF_BROKERS or (key is ApiKey.FETCH and _is_follower(observed)):
            return response
        throttle_ms = 0
        if self._mutations is not None and self._mutations.counts(key):
            response, throttle_ms = await self._mutations.handled(observed, response)
        if key is ApiKey.PRODUCE:
            throttle_ms = self._produced(observed, self._clock.elapsed_ms())
        elif key is ApiKey.FETCH:
            response, throttle_ms = await self._fetched(observed, response)
        elif key is ApiKey.SHARE_FETCH:
            throttle_ms = self._share_fetched(observed, response)
        if response is not None:
            throttle_ms = max(throttle_ms, self._worked(observed, self._clock.elapsed_ms()))
        if throttle_ms <= 0 or key in _NEVER_PAUSED:
            return response
        throttle_ms = min(throttle_ms, self._settings.throttle_max_ms)
        observed.pause_ms = max(observed.pause_ms, throttle_ms)
        if response is not None and getattr(response, "throttle_time_ms", throttle_ms) < throttle_ms:
            response = replace(response, throttle_time_ms=throttle_ms)
        return response

    def _limit(self, key: QuotaKey, observed: ObservedRequest) -> Limit | None:
        context = observed.context
        return self._table.of_request(key, context.session.principal.name, context.client_id or "")

    def _produced(self, observed: ObservedRequest, now_ms: int) -> int:
        limit = self._limit(QuotaKey.PRODUCER_BYTE_RATE, observed)
        if limit is None:
            return 0
        return self._buckets.use(QuotaKey.PRODUCER_BYTE_RATE, limit, observed.size_bytes, now_ms)

    def _bounded_fetch(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Ask for no more than an empty window allows: a larger response would never be sent."""
        limit = None if _is_follower(observed) else self._limit(QuotaKey.CONSUMER_BYTE_RATE, observed)
        request: FetchRequest | ShareFetchRequest = observed.request
        if limit is None or request.max_bytes <= self._buckets.at_once(limit):
            return None
        return RequestVerdict(request=replace(request, max_bytes=max(1, int(self._buckets.at_once(limit)))))

    async def _fetched(self, observed: ObservedRequest, response: FetchResponse) -> tuple[FetchResponse, int]:
        limit = self._limit(QuotaKey.CONSUMER_BYTE_RATE, observed)
        if limit is None or response.error_code != ErrorCode.NONE:
            return response, 0
        partitions = (len(each.records or b"") for topic in response.responses for each in topic.partitions)
        if size_of(response.responses, "partitions") <= NAMES_PER_TURN:
            sizes = list(partitions)
        else:
            with connection_held(observed.context):
                sizes = await list_in_turns(partitions, self._clock, per_turn=NAMES_PER_TURN)
        size = sum(sizes) + _PARTITION_BYTES * len(sizes)
        now_ms = self._clock.elapsed_ms()
        throttle_ms = self._buckets.use_if_it_fits(QuotaKey.CONSUMER_BYTE_RATE, limit, size, now_ms)
        if throttle_ms == 0:
            return response, 0
        observed.unsent = [response]
        # Nothing of it is sent. A session that would only begin with this response does not begin.
        is_new = observed.request.session_epoch <= 0
        if is_new and response.session_id:
            self._sessions.drop(response.session_id)
        return FetchResponse(session_id=0 if is_new else response.session_id), throttle_ms

    def _share_fetched(self, observed: ObservedRequest, response: ShareFetchResponse) -> int:
        """Time to pause for what the member has acquired: that is its own already, and is sent in any case."""
        limit = self._limit(QuotaKey.CONSUMER_BYTE_RATE, observed)
        if limit is None:
            return 0
        size = sum(
            len(each.records or b"") + _PARTITION_BYTES for topic in response.responses for each in topic.partitions
        )
        return self._buckets.use(QuotaKey.CONSUMER_BYTE_RATE, limit, size, self._clock.elapsed_ms())

    def _is_too_much(self, observed: ObservedRequest) -> bool:
        """Take the time that a request of many items will need before it runs, for it runs in turns; or refuse it, when
        its client is over its quota already."""
        items = items_in(observed.request) if observed.items is None else observed.items
        limit = None if items <= MANY_ITEMS else self._limit(QuotaKey.REQUEST_PERCENTAGE, observed)
        if limit is None:
            return False
        key, now_ms = QuotaKey.REQUEST_PERCENTAGE, self._clock.elapsed_ms()
        if self._buckets.use(key, limit, 0, now_ms):
            return True
        self._buckets.use(key, limit, items * ITEM_NS / 1e9 * 100, now_ms)
        return False

    def _worked(self, observed: ObservedRequest, now_ms: int) -> int:
        """The loop's time that the request took, in percent of all of it."""
        limit = self._limit(QuotaKey.REQUEST_PERCENTAGE, observed)
        if limit is None:
            return 0
        busy_ns = observed.busy_ns or self._ns() - observed.begun_ns
        throttle_ms = self._buckets.use(QuotaKey.REQUEST_PERCENTAGE, limit, busy_ns / 1e9 * 100, now_ms)
        return min(throttle_ms, _REQUEST_PAUSE_MAX_MS)


def _is_follower(observed: ObservedRequest) -> bool:
    if observed.api.key is not ApiKey.FETCH:
        return False
    request: FetchRequest = observed.request
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0
