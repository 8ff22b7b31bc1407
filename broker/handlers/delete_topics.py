"""DeleteTopics (key 20), versions 0-6: delete topics with all their records.

v5 adds error messages; v6 names topics by name or by id. Internal topics stay. An unknown name is 3, an unknown id
100. A topic that a request names twice, in whichever way, is refused and stays.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Cluster, Outcome, Topic
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import NAMES_PER_TURN, in_parts, made_for_each, refused
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_each, or_the_next

PARTITIONS_AT_ONCE: Final = 100
"""Of topics whose records share a sync: their logs are put away in one turn of the event loop."""

_Wanted = tuple[DeleteTopicState, str | Outcome]
"""The part of the request that names a topic, and the topic's name, or why it has none."""


async def handle(request: DeleteTopicsRequest, context: RequestContext, services: Services) -> DeleteTopicsResponse:
    if not services.config.delete_topic_enable:
        # A name for this was added late; older clients know only the general code.
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        response: DeleteTopicsResponse = await refused(refuse, request, context, disabled)
        return response
    count = max(len(request.topics), len(request.topic_names))
    wanted = await made_for_each(_wanted(request, context), count, context, services)
    times: Counter[str | Outcome] = Counter()
    names: list[str | Outcome] = []
    for part in in_parts(wanted, attrgetter("name"), most=NAMES_PER_TURN):
        if names:
            await next_turn()
        some = [_name(state, services.cluster) for state in part]
        times.update(name for name in some if isinstance(name, str))
        names += some
    results: list[DeletableTopicResult] = []
    for group in _groups(zip(wanted, names, strict=True), services.cluster):
        results += await asyncio.gather(
            *(
                _delete(state, name, context, services.cluster, named_twice=isinstance(name, str) and times[name] > 1)
                for state, name in group
            )
        )
    return DeleteTopicsResponse(responses=tuple(results))


def _groups(pairs: Iterable[_Wanted], cluster: Cluster) -> Iterator[list[_Wanted]]:
    """The topics that are deleted together."""
    group: list[_Wanted] = []
    partitions = 0
    for state, name in pairs:
        topic = cluster.topics.get(name) if isinstance(name, str) else None
        partitions += 1 if topic is None else topic.partitions
        if group and partitions > PARTITIONS_AT_ONCE:
            yield group
            group, partitions = [], 0 if topic is None else topic.partitions
        group.append((state, name))
    if group:
        yield group


def _wanted(request: DeleteTopicsRequest, context: RequestContext) -> Iterator[DeleteTopicState]:
    if context.api_version >= 6:
        return iter(request.topics)
    return (DeleteTopicState(name=name) for name in request.topic_names)


def _name(state: DeleteTopicState, cluster: Cluster) -> str | Outcome:
    """The name of the topic that is meant, or why there is none."""
    by_id = state.topic_id != ZERO_UUID
    if by_id == (state.name is not None):
        return Outcome(ErrorCode.INVALID_REQUEST, "A topic is named by either its name or its id")
    if state.name is not None:
        return state.name
    topic = cluster.topic_by_id(state.topic_id)
    if topic is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id")
    return topic.name


async def _delete(
    state: DeleteTopicState, name: str | Outcome, context: RequestContext, cluster: Cluster, *, named_twice: bool
) -> DeletableTopicResult:
    if isinstance(name, Outcome):
        return _result(state.name, state.topic_id, name)
    topic = cluster.topics.get(name)
    topic_id = state.topic_id if topic is None else topic.topic_id
    denied = _denial(state, name, topic, context)
    if denied is not None:
        return denied
    if named_twice:
        return _result(name, topic_id, Outcome(ErrorCode.INVALID_REQUEST, f"Topic '{name}' is named twice"))
    return _result(name, topic_id, await cluster.delete_topic(name))


def _denial(
    state: DeleteTopicState, name: str, topic: Topic | None, context: RequestContext
) -> DeletableTopicResult | None:
    """The refusal of who may not delete the topic; it tells neither the name nor the id that the client did not tell
    itself, but to those who may know of the topic (security.md 4.6)."""
    may = context.session.may
    if may(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        return None
    known = may(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if known and (topic is None or may(Operation.DELETE, ResourceType.TOPIC, name)):
        return None
    told = name if known or state.name is not None else None
    return _result(told, state.topic_id, Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _result(name: str | None, topic_id: bytes, outcome: Outcome) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=outcome.error, error_message=outcome.message)


def refuse(request: DeleteTopicsRequest, context: RequestContext, error: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(_result(state.name, state.topic_id, Outcome(error)) for state in _wanted(request, context))
    )


API = Api(
    key=ApiKey.DELETE_TOPICS,
    versions=range(0, 7),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            or_the_next(Operation.DELETE, ResourceType.CLUSTER),
            on_each(Operation.DESCRIBE, ResourceType.TOPIC),
            on_each(Operation.DELETE, ResourceType.TOPIC),
        )
    ),
)
