"""Changes of topics under `controller_mutation_rate`: partitions created, added and deleted (KIP-599; security.md 5.2).

From certain versions on, a client is told which topics were refused (89), and it is told so before anything is done;
older clients get what they ask for, and pause, as all do whose Metadata creates topics. Always true: what was refused
for another reason costs nothing; the topics of a request of many are counted in turns.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from eosin.model.quota_table import Limit
from eosin.network.many_items import made_for_each
from eosin.network.request_hooks import ObservedRequest, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_partitions import CreatePartitionsTopicResult
from eosin.protocol.schemas.create_topics import CreatableTopicResult
from eosin.protocol.schemas.delete_topics import DeletableTopicResult
from eosin.security.quotas.buckets import QuotaBuckets

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.runtime.clock import Clock

_STRICT_FROM: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
_TOPIC_STATES_FROM: Final = 6
"""The first version of DeleteTopics that names topics by `topics`, not by `topic_names`."""
_REFUSED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_WHY: Final = "The throttling quota has been exceeded."


@dataclass(slots=True)
class _CountedMutations:
    """The costs that were counted for one request, until its result is known."""

    limit: Limit
    is_strict: bool
    """True if the client understands that topics are refused. It then pauses for those only, as with Kafka."""
    costs: list[float]
    """Of each topic that the handler was given, in their order."""
    refused: dict[int, Any]
    """Results of the others, by their places in the request, in order."""


@dataclass(slots=True)
class _Missing:
    """Topics that a Metadata request may create; none when it may not."""

    limit: Limit
    names: list[str]


class TopicMutations:
    """Counts what clients change."""

    def __init__(self, cluster: "Cluster", buckets: QuotaBuckets, clock: "Clock", *, default_partitions: int) -> None:
        self.clock = clock
        self._cluster = cluster
        self._default_partitions = default_partitions
        self._buckets = buckets

    def counts(self, key: ApiKey) -> bool:
        """True if requests of this API change topics."""
        return key in _STRICT_FROM or key is ApiKey.METADATA

    async def begun(self, observed: ObservedRequest, limit: Limit) -> RequestVerdict | None:
        """Take tokens for each topic while there are any, and refuse the rest where the client understands that."""
        key, version = observed.api.key, observed.context.api_version
        if key is ApiKey.METADATA:
            return await self._charge_for_missing(observed, limit)
        topics = _topics(observed.request, key, version)
        counted = observed.quota = _CountedMutations(limit, version >= _STRICT_FROM[key], [], {})
        taken = self._charged(topics, key, counted)
        rest = await made_for_each(taken, len(topics), observed.context, self)
        if not counted.refused:
            return None
        if not counted.costs:
            return RequestVerdict(error=_REFUSED)
        left = tuple(topic for topic in rest if topic is not None)
        return RequestVerdict(request=replace(observed.request, **{_field(key, version): left}))

    def _charged(self, topics: Iterable[Any], key: ApiKey, counted: _CountedMutations) -> Iterator[Any]:
        """Each topic for which there are tokens, which are then taken; None for one that is refused."""
        limit, clock = counted.limit, self.clock
        bucket = self._buckets.tokens(limit, clock.elapsed_ms())
        for place, topic in enumerate(topics):
            now_ms = clock.elapsed_ms()
            if counted.is_strict and bucket.tokens(limit.bound, now_ms) < 0:
                counted.refused[place] = _refused(topic, key)
                yield None
                continue
            cost = self._cost(topic, key)
            bucket.spend(cost, limit.bound, now_ms)
            counted.costs.append(cost)
            yield topic

    async def handled(self, observed: ObservedRequest, response: Any) -> tuple[Any, int]:
        """The response with what was refused here, and how long to pause."""
        counted: _CountedMutations | _Missing | None = observed.quota
        if counted is None:
            return response, 0
        if isinstance(counted, _Missing):
            return response, await self._created(counted, observed)
        field, limit = _RESULTS[observed.api.key], counted.limit
        results = () if counted.refused and not counted.costs else getattr(response, field)
        kept = self._given_back(results, counted)
        count = len(results) + len(counted.refused)
        made = await made_for_each(_merged(kept, counted.refused), count, observed.context, self)
        now_ms = self.clock.elapsed_ms()
        pauses = bool(counted.refused) or not counted.is_strict
        throttle_ms = self._buckets.tokens(limit, now_ms).throttle_ms(limit.bound, now_ms) if pauses else 0
        return replace(response, **{field: tuple(made)}), throttle_ms

    def _given_back(self, results: Iterable[Any], counted: _CountedMutations) -> Iterator[Any]:
        """The same results; the tokens of what has failed are given back as it passes."""
        limit, costs = counted.limit, iter(counted.costs)
        bucket = self._buckets.tokens(limit, self.clock.elapsed_ms())
        for result in results:
            cost = next(costs, 0)
            if result.error_code != ErrorCode.NONE:
                bucket.spend(-cost, limit.bound, self.clock.elapsed_ms())
            yield result

    async def _charge_for_missing(self, observed: ObservedRequest, limit: Limit) -> RequestVerdict | None:
        """Take tokens for all topics that a request may create, before it does. Several at once are not created while
        there are none: their client is told that they do not exist, and to pause."""
        request, known = observed.request, self._cluster.topics
        if not request.allow_auto_topic_creation or not request.topics:
            return None
        missing = (each.name if each.name not in known else None for each in request.topics)
        found = await made_for_each(missing, len(request.topics), observed.context, self)
        names = dict.fromkeys(filter(None, found))
        if not names:
            return None
        now_ms = self.clock.elapsed_ms()
        bucket = self._buckets.tokens(limit, now_ms)
        if len(names) > 1 and bucket.tokens(limit.bound, now_ms) < 0:
            observed.quota = _Missing(limit, [])
            return RequestVerdict(request=replace(request, allow_auto_topic_creation=False))
        bucket.spend(len(names) * self._default_partitions, limit.bound, now_ms)
        observed.quota = _Missing(limit, list(names))
        return None

    async def _created(self, missing: _Missing, observed: ObservedRequest) -> int:
        """Give back what was taken for topics that do not exist now; how long to pause."""
        topics, count = self._cluster.topics, len(missing.names)
        created = (0 if (topic := topics.get(name)) is None else topic.partitions for name in missing.names)
        partitions = sum(await made_for_each(created, count, observed.context, self))
        now_ms, bound = self.clock.elapsed_ms(), missing.limit.bound
        bucket = self._buckets.tokens(missing.limit, now_ms)
        bucket.spend(partitions - count * self._default_partitions, bound, now_ms)
        return bucket.throttle_ms(bound, now_ms) if partitions or not count else 0

    def _cost(self, topic: Any, key: ApiKey) -> float:
        """Partitions that come or go."""
        if key is ApiKey.CREATE_TOPICS:
            asked = topic.num_partitions if topic.num_partitions > 0 else self._default_partitions
            return len(topic.assignments) or asked
        if key is ApiKey.CREATE_PARTITIONS:
            found = self._cluster.topics.get(topic.name)
            return max(0, topic.count - found.partitions) if found is not None else 0
        name = topic if isinstance(topic, str) else topic.name
        found = self._cluster.topic_by_id(topic.topic_id) if name is None else self._cluster.topics.get(name)
        return found.partitions if found is not None else 0


_RESULTS: Final = {
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "responses",
    ApiKey.CREATE_PARTITIONS: "results",
}


def _merged(results: Iterator[Any], refused: Mapping[int, Any]) -> Iterator[Any]:
    """The results in the order of the request: those `refused` at their places."""
    next_place = 0
    for place, result in refused.items():
        yield from islice(results, place - next_place)
        yield result
        next_place = place + 1
    yield from results


def _field(key: ApiKey, version: int) -> str:
    return "topic_names" if key is ApiKey.DELETE_TOPICS and version < _TOPIC_STATES_FROM else "topics"


def _topics(request: Any, key: ApiKey, version: int) -> tuple[Any, ...]:
    topics: tuple[Any, ...] = getattr(request, _field(key, version))
    return topics


def _refused(topic: Any, key: ApiKey) -> Any:
    if key is ApiKey.CREATE_TOPICS:
        return CreatableTopicResult(name=topic.name, error_code=_REFUSED, error_message=_WHY, configs=())
    if key is ApiKey.CREATE_PARTITIONS:
        return CreatePartitionsTopicResult(topic.name, _REFUSED, _WHY)
    if isinstance(topic, str):
        return DeletableTopicResult(name=topic, error_code=_REFUSED, error_message=_WHY)
    return DeletableTopicResult(topic.name, topic.topic_id, _REFUSED, _WHY)
