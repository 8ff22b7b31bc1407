"""Changes of topics under `controller_mutation_rate`: partitions created, added and deleted (KIP-599; security.md 5.2).

From certain versions on, a client is told which topics were refused (89), and it is told so before anything is done;
older clients get what they ask for, and pause, as all do whose Metadata creates topics. Always true: what was refused
for another reason costs nothing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from eosin.model.quota_table import Limit
from eosin.network.request_hooks import ObservedRequest, Verdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_partitions import CreatePartitionsTopicResult
from eosin.protocol.schemas.create_topics import CreatableTopicResult
from eosin.protocol.schemas.delete_topics import DeletableTopicResult
from eosin.security.quotas.buckets import QuotaBuckets

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster

_STRICT_FROM: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
_TOPIC_STATES_FROM: Final = 6
"""The first version of DeleteTopics that names topics by `topics`, not by `topic_names`."""
_REFUSED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_WHY: Final = "The throttling quota has been exceeded."


@dataclass(slots=True)
class _Counted:
    """What was taken for one request, until it is known what became of it."""

    limit: Limit
    is_strict: bool
    """Whether the client understands that topics are refused. It then pauses for those only, as with Kafka."""
    costs: list[float]
    """Of each topic that the handler was given, in their order."""
    refused: dict[int, Any]
    """Results of the others, by their places in the request."""


@dataclass(slots=True)
class _Missing:
    """Topics that a Metadata request may create; none when it may not."""

    limit: Limit
    names: list[str]


class TopicMutations:
    """Counts what clients change."""

    def __init__(self, cluster: "Cluster", buckets: QuotaBuckets, *, default_partitions: int) -> None:
        self._cluster = cluster
        self._default_partitions = default_partitions
        self._buckets = buckets

    def counts(self, key: ApiKey) -> bool:
        """Whether requests of this API change topics."""
        return key in _STRICT_FROM or key is ApiKey.METADATA

    def begun(self, observed: ObservedRequest, limit: Limit, now_ms: int) -> Verdict | None:
        """Take tokens for each topic while there are any, and refuse the rest where the client understands that."""
        key, version = observed.api.key, observed.context.api_version
        if key is ApiKey.METADATA:
            return self._take_for_missing(observed, limit, now_ms)
        bucket = self._buckets.tokens(limit, now_ms)
        topics = _topics(observed.request, key, version)
        is_strict = version >= _STRICT_FROM[key]
        counted = observed.quota = _Counted(limit, is_strict, [], {})
        for place, topic in enumerate(topics):
            if is_strict and bucket.tokens(limit.bound, now_ms) < 0:
                counted.refused[place] = _refused(topic, key)
                continue
            cost = self._cost(topic, key)
            bucket.take(cost, limit.bound, now_ms)
            counted.costs.append(cost)
        if not counted.refused:
            return None
        if not counted.costs:
            return Verdict(error=_REFUSED)
        rest = tuple(topic for place, topic in enumerate(topics) if place not in counted.refused)
        return Verdict(request=replace(observed.request, **{_field(key, version): rest}))

    def handled(self, observed: ObservedRequest, response: Any, now_ms: int) -> tuple[Any, int]:
        """The response with what was refused here, and how long to pause."""
        counted: _Counted | _Missing | None = observed.quota
        if counted is None:
            return response, 0
        if isinstance(counted, _Missing):
            return response, self._created(counted, now_ms)
        key, limit = observed.api.key, counted.limit
        bucket = self._buckets.tokens(limit, now_ms)
        results = [] if len(counted.refused) and not counted.costs else list(getattr(response, _RESULTS[key]))
        for result, cost in zip(results, counted.costs, strict=False):
            if result.error_code != ErrorCode.NONE:
                bucket.take(-cost, limit.bound, now_ms)
        for place, refused in sorted(counted.refused.items()):
            results.insert(place, refused)
        pauses = bool(counted.refused) or not counted.is_strict
        throttle_ms = bucket.throttle_ms(limit.bound, now_ms) if pauses else 0
        return replace(response, **{_RESULTS[key]: tuple(results)}), throttle_ms

    def _take_for_missing(self, observed: ObservedRequest, limit: Limit, now_ms: int) -> Verdict | None:
        """Take tokens for all topics that a request may create, before it does. Several at once are not created while
        there are none: their client is told that they do not exist, and to pause."""
        request, known = observed.request, self._cluster.topics
        if not request.allow_auto_topic_creation or not request.topics:
            return None
        names = dict.fromkeys(each.name for each in request.topics if each.name is not None and each.name not in known)
        if not names:
            return None
        bucket = self._buckets.tokens(limit, now_ms)
        if len(names) > 1 and bucket.tokens(limit.bound, now_ms) < 0:
            observed.quota = _Missing(limit, [])
            return Verdict(request=replace(request, allow_auto_topic_creation=False))
        bucket.take(len(names) * self._default_partitions, limit.bound, now_ms)
        observed.quota = _Missing(limit, list(names))
        return None

    def _created(self, missing: _Missing, now_ms: int) -> int:
        """Give back what was taken for topics that do not exist now; how long to pause."""
        bucket, bound = self._buckets.tokens(missing.limit, now_ms), missing.limit.bound
        found = [topic for name in missing.names if (topic := self._cluster.topics.get(name)) is not None]
        taken = len(missing.names) * self._default_partitions
        bucket.take(sum(topic.partitions for topic in found) - taken, bound, now_ms)
        return bucket.throttle_ms(bound, now_ms) if found or not missing.names else 0

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
