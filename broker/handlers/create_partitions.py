"""CreatePartitions (key 37), versions 0-3: raise the number of partitions of topics.

`count` is the new total. v2 is the first flexible version; v3 changes nothing for us (it may answer a quota error).
The internal topics never grow: which partition an id belongs to depends on their number.
"""

from collections import Counter
from collections.abc import Iterator

from eosin.broker.services import Services
from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import done_for_each, made_for_each, refused
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from eosin.security.access import Access, on_each


async def handle(
    request: CreatePartitionsRequest, context: RequestContext, services: Services
) -> CreatePartitionsResponse:
    if len(request.topics) > MAX_PARTITIONS_PER_CHANGE:
        too_many: CreatePartitionsResponse = await refused(refuse, request, context, ErrorCode.POLICY_VIOLATION)
        return too_many
    times: Counter[str] = Counter()
    wanted: dict[str, CreatePartitionsTopic] = {}

    def named() -> Iterator[None]:
        for topic in request.topics:
            times[topic.name] += 1
            wanted[topic.name] = topic
            yield None

    await made_for_each(named(), len(request.topics), context, services)
    results = await done_for_each(
        list(wanted.values()),
        lambda topic: _grow(
            topic, context, services, named_twice=times[topic.name] > 1, validate_only=request.validate_only
        ),
    )
    return CreatePartitionsResponse(results=tuple(results))


async def _grow(
    topic: CreatePartitionsTopic,
    context: RequestContext,
    services: Services,
    *,
    named_twice: bool,
    validate_only: bool,
) -> CreatePartitionsTopicResult:
    if named_twice:
        return _result(topic.name, Outcome(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice"))
    if not context.session.may(Operation.ALTER, ResourceType.TOPIC, topic.name):
        return _result(topic.name, Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    outcome = await services.cluster.create_partitions(
        topic.name, count=topic.count, assignments=assignments, validate_only=validate_only
    )
    return _result(topic.name, outcome)


def _result(name: str, outcome: Outcome) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=outcome.error, error_message=outcome.message)


def refuse(request: CreatePartitionsRequest, context: RequestContext, error: ErrorCode) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=tuple(_result(name, Outcome(error)) for name in names))


API = Api(
    key=ApiKey.CREATE_PARTITIONS,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.ALTER, ResourceType.TOPIC),)),
)
