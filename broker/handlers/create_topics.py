"""CreateTopics (key 19), versions 0-7: create topics.

v1 adds the dry run and error messages, v5 the sizes and effective configs of what was created, v7 its id. A partition
count or replication factor of -1 means the broker's default (v4+ clients send it; older ones are answered the same).
A name that a request holds twice is refused once. The timeout is not needed: nothing here waits for another broker.
"""

from collections import Counter

from eosin.broker.config.entries import topic_entries
from eosin.broker.services import Services
from eosin.cluster.metadata.config_changes import MOST_CHANGES
from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE
from eosin.model.cluster import Outcome, Topic
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import done_for_each, refused
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.security.access import Access, on_each, or_the_next, silently


async def handle(request: CreateTopicsRequest, context: RequestContext, services: Services) -> CreateTopicsResponse:
    if len(request.topics) > MAX_PARTITIONS_PER_CHANGE:
        too_many: CreateTopicsResponse = await refused(refuse, request, context, ErrorCode.POLICY_VIOLATION)
        return too_many
    wanted = {topic.name: topic for topic in request.topics}
    if sum(_count(topic) for topic in wanted.values()) > MAX_PARTITIONS_PER_CHANGE:
        return refuse(request, context, ErrorCode.POLICY_VIOLATION)
    may = context.session.may
    all_open = may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    times = Counter(topic.name for topic in request.topics)
    results = await done_for_each(
        list(wanted.values()),
        lambda topic: (
            _named_twice(topic)
            if times[topic.name] > 1
            else _create(topic, context, services, validate_only=request.validate_only)
            if all_open or may(Operation.CREATE, ResourceType.TOPIC, topic.name)
            else _denied(topic)
        ),
    )
    return CreateTopicsResponse(topics=tuple(results))


def _count(topic: CreatableTopic) -> int:
    return len(topic.assignments) or max(topic.num_partitions, 1)


async def _named_twice(topic: CreatableTopic) -> CreatableTopicResult:
    return _failed(topic.name, Outcome(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice"))


async def _denied(topic: CreatableTopic) -> CreatableTopicResult:
    return _failed(topic.name, Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


async def _create(
    topic: CreatableTopic, context: RequestContext, services: Services, *, validate_only: bool
) -> CreatableTopicResult:
    if len({each.partition_index for each in topic.assignments}) != len(topic.assignments):
        return _failed(
            topic.name, Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once")
        )
    if len(topic.configs) > MOST_CHANGES:
        return _failed(topic.name, Outcome(ErrorCode.INVALID_REQUEST, f"A topic has at most {MOST_CHANGES} settings"))
    if len({config.name for config in topic.configs}) != len(topic.configs):
        return _failed(topic.name, Outcome(ErrorCode.INVALID_CONFIG, "A configuration is named twice"))
    outcome = await services.cluster.create_topic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={each.partition_index: each.broker_ids for each in topic.assignments} or None,
        configs={config.name: config.value for config in topic.configs},
        validate_only=validate_only,
    )
    if outcome.topic is None:
        return _failed(topic.name, outcome)
    if not context.session.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quiet=True):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=outcome.topic.topic_id,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
        )
    return _created(outcome.topic, topic, services)


def _created(topic: Topic, wanted: CreatableTopic, services: Services) -> CreatableTopicResult:
    factor = len(wanted.assignments[0].broker_ids) if wanted.assignments else wanted.replication_factor
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=topic.partitions,
        replication_factor=factor if factor > 0 else services.config.default_replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name, value=entry.value, read_only=entry.read_only, config_source=entry.source
            )
            for entry in topic_entries(topic, services.cluster, services.config)
        ),
    )


def _failed(name: str, outcome: Outcome) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=outcome.error, error_message=outcome.message, configs=())


def refuse(request: CreateTopicsRequest, context: RequestContext, error: ErrorCode) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=tuple(_failed(name, Outcome(error)) for name in names))


API = Api(
    key=ApiKey.CREATE_TOPICS,
    versions=range(0, 8),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            or_the_next(Operation.CREATE, ResourceType.CLUSTER),
            on_each(Operation.CREATE, ResourceType.TOPIC),
            silently(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "for the settings in the response"),
        )
    ),
)
