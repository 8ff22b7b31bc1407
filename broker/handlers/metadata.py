"""Metadata (key 3), versions 0-13: brokers, topics, and the leader of each partition.

No topics (null, in v0 an empty list) asks for all of them; in v1+ an empty list asks for none. v2 adds the cluster
id, v4 lets the client forbid that an unknown topic is created, v5 adds offline replicas, v7 leader epochs, v8 the
authorized operations (of the cluster up to v10 only), v10 topic ids in answers, v12 topic ids in requests, v13 an
error for the whole.

A leader that has no listener of the name that the request came by cannot be reached by this client: the partition has
LISTENER_NOT_FOUND then, below v6 LEADER_NOT_AVAILABLE (KIP-302).

A topic that is created here is created before the answer, which so names its leader at once. When a request holds any
topic id, its names are not looked at, as in Kafka; a topic is never created by id.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress
from operator import attrgetter
from typing import Final

from msgspec.structs import replace as with_fields

from eosin.broker.services import Services
from eosin.cluster.metadata.responses import FEW_PARTITIONS, RequestVariant
from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE, unknown_topic
from eosin.model.cluster import Cluster, Outcome, Topic, visible_leader
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import (
    ITEMS_PER_STEP,
    ITEMS_PER_TURN,
    NAMES_PER_TURN,
    connection_held,
    done_for_each,
    in_parts,
    made_for_each,
    refused,
    written,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.runtime.turns import in_turns, next_turn
from eosin.security.access import Access, on_each, or_the_next, silently
from eosin.security.authorized_operations import NOT_ASKED, cluster_operations
from eosin.security.session import EVERYBODY_MAY

FIRST_LISTENER_VERSION: Final = 6
PARTITIONS_PER_STEP: Final = 200
"""Of one topic: they take a millisecond, and a topic may have 100,000."""

_Steps = Iterator[MetadataResponseTopic | None]
"""The topic of a response, after None at each end of a step."""


async def handle(request: MetadataRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    version, wanted = context.api_version, request.topics
    if wanted is None or (version == 0 and not wanted):
        return await _all_topics(request, context, services)
    ids: dict[bytes, None] = {}
    named: dict[str, None] = {}
    for some in in_parts(wanted, attrgetter("name"), most=NAMES_PER_TURN):
        if ids or named:
            await next_turn()
        if version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in some):
            invalid: MetadataResponse = await refused(refuse, request, context, ErrorCode.INVALID_REQUEST)
            return invalid
        ids.update(dict.fromkeys(topic.topic_id for topic in some if topic.topic_id != ZERO_UUID))
        named.update(dict.fromkeys(topic.name for topic in some if topic.name is not None))
    cluster = services.cluster
    if ids:
        by_id = (_by_id(topic_id, request, context, cluster) for topic_id in ids)
        count = _items(len(ids), (cluster.topic_by_id(topic_id) for topic_id in ids))
        return await _written(
            _response(request, context, services, await _made(by_id, count, context, services)), context
        )
    names = list(named)
    named.clear()
    if context.session.authorizer is not EVERYBODY_MAY:
        return await _written(await _response_by_rights(request, context, services, names), context)
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        known = cluster.topics
        unknown = (name not in known for name in names)
        missing = list(compress(names, await made_for_each(unknown, len(names), context, services)))
        if missing:
            return await _written(await _create_and_respond(request, context, services, names, missing), context)
    return await _written(await _response_by_name(request, context, services, names), context)


async def _written(response: MetadataResponse, context: RequestContext) -> Message | EncodedBody:
    """The response, encoded in a thread where it has many topics or partitions."""
    count = len(response.topics)
    if count <= ITEMS_PER_STEP:
        count += sum(len(topic.partitions) for topic in response.topics)
    made = [response]
    del response  # or it would be let go of here, in one step
    return await written(ApiKey.METADATA, made.pop(), count, context)


def _items(count: int, topics: Iterable[Topic | None]) -> int:
    """About how many things there are to be made of `count` topics: many partitions count, few are made at once."""
    if count > ITEMS_PER_TURN:
        return count
    partitions = sum(topic.partitions for topic in topics if topic is not None)
    return count if partitions <= FEW_PARTITIONS else count + partitions


async def _made(
    topics: Iterable[_Steps], count: int, context: RequestContext, services: Services
) -> list[MetadataResponseTopic]:
    made = await made_for_each(chain.from_iterable(topics), count, context, services)
    return [topic for topic in made if topic is not None]


async def _response_by_name(
    request: MetadataRequest, context: RequestContext, services: Services, names: Sequence[str]
) -> MetadataResponse:
    cluster = services.cluster
    topics = (_by_name(name, request, context, cluster) for name in names)
    count = _items(len(names), map(cluster.topics.get, names))
    return _response(request, context, services, await _made(topics, count, context, services))


async def _all_topics(request: MetadataRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    cluster = services.cluster
    if context.session.authorizer is not EVERYBODY_MAY:
        return await _known_topics(request, context, services)
    if cluster.partition_count <= FEW_PARTITIONS:
        few = chain.from_iterable(_found(topic, request, context, cluster) for topic in cluster.topics.values())
        return _response(request, context, services, [topic for topic in few if topic is not None])
    kind = RequestVariant(
        context.api_version,
        context.listener,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    return services.metadata_responses.kept(kind) or await services.metadata_responses.make(
        kind,
        lambda topic: _found(topic, request, context, cluster),
        lambda topics: _response(request, context, services, topics),
    )


async def _known_topics(request: MetadataRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    """All topics that the client may know of. No answer is kept, for it is this client's alone."""
    cluster, may = services.cluster, context.session.may
    topics: list[MetadataResponseTopic] = []

    def known() -> _Steps:
        for name in list(cluster.topics):
            topic = cluster.topics.get(name)  # None: it was deleted in an earlier turn
            if topic is not None and may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True):
                yield from _found(topic, request, context, cluster)
            yield None

    def add(topic: MetadataResponseTopic | None) -> None:
        if topic is not None:
            topics.append(topic)

    await in_turns(known(), add, services.clock)
    made = [_response(request, context, services, topics)]
    topics.clear()
    return await _written(made.pop(), context)


async def _response_by_rights(
    request: MetadataRequest, context: RequestContext, services: Services, names: Sequence[str]
) -> MetadataResponse:
    """Topics by name, for a client with rights: of one without DESCRIBE it learns nothing, and one that does not exist
    is only created for whoever may create it (security.md 4.7)."""
    session, known = context.session, services.cluster.topics
    allowed = (session.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)
    shown = list(compress(names, await made_for_each(allowed, len(names), context, services)))
    missing: list[str] = []
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        unknown = (name not in known for name in shown)
        missing = list(compress(shown, await made_for_each(unknown, len(shown), context, services)))
    if missing and not session.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        allowed = (session.may(Operation.CREATE, ResourceType.TOPIC, name) for name in missing)
        mine = list(compress(missing, await made_for_each(allowed, len(missing), context, services)))
        denied = frozenset(missing).difference(mine)
        stays = (name not in denied for name in shown)
        shown = list(compress(shown, await made_for_each(stays, len(shown), context, services)))
        missing = mine
    if missing:
        response = await _create_and_respond(request, context, services, shown, missing)
    else:
        response = await _response_by_name(request, context, services, shown)
    if len(shown) == len(names):
        return response
    if not context.is_large:
        return await _with_hidden(response, names, shown, context, services)
    with connection_held(context):
        await next_turn()
        return await _with_hidden(response, names, shown, context, services)


async def _with_hidden(
    response: MetadataResponse, names: Sequence[str], shown: list[str], context: RequestContext, services: Services
) -> MetadataResponse:
    """The response, with a refusal for each name that is not shown. Of 100,000 names, each step takes milliseconds."""
    denial, told = ErrorCode.TOPIC_AUTHORIZATION_FAILED, frozenset(shown)
    hidden = (None if name in told else MetadataResponseTopic(error_code=denial, name=name) for name in names)
    made = await made_for_each(hidden, len(names), context, services)
    if context.is_large:
        await next_turn()
    return with_fields(response, topics=(*response.topics, *filter(None, made)))


async def _created(missing: Sequence[str], context: RequestContext, services: Services) -> list[Outcome]:
    return await done_for_each(
        missing,
        lambda name: services.cluster.create_automatically(name, context.client_host, context.session.principal),
    )


async def _create_and_respond(
    request: MetadataRequest, context: RequestContext, services: Services, names: Sequence[str], missing: Sequence[str]
) -> MetadataResponse:
    known = services.cluster.topics
    if len(missing) * services.config.num_partitions > MAX_PARTITIONS_PER_CHANGE:  # as CreateTopics: none is created
        refusals = (
            _by_name(name, request, context, services.cluster)
            if name in known
            else iter((MetadataResponseTopic(error_code=ErrorCode.POLICY_VIOLATION, name=name),))
            for name in names
        )
        count = _items(len(names), map(known.get, names))
        return _response(request, context, services, await _made(refusals, count, context, services))
    outcomes = await _created(missing, context, services)
    failed = {
        name: outcome.error
        for name, outcome in zip(missing, outcomes, strict=True)
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    topics = (
        iter((MetadataResponseTopic(error_code=failed[name], name=name),))
        if name in failed
        else _by_name(name, request, context, services.cluster)
        for name in names
    )
    count = _items(len(names), map(known.get, names))
    return _response(request, context, services, await _made(topics, count, context, services))


def _by_name(name: str, request: MetadataRequest, context: RequestContext, cluster: Cluster) -> _Steps:
    topic = cluster.topics.get(name)
    if topic is not None:
        yield from _found(topic, request, context, cluster, gone=lambda: _unknown(name))
    else:
        yield _unknown(name)


def _unknown(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=unknown_topic(name).error, name=name)


def _unknown_id(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _by_id(topic_id: bytes, request: MetadataRequest, context: RequestContext, cluster: Cluster) -> _Steps:
    topic = cluster.topic_by_id(topic_id)
    if topic is None:
        yield _unknown_id(topic_id)
    elif not context.session.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield MetadataResponseTopic(error_code=denied, name=None, topic_id=topic_id)
    else:
        yield from _found(topic, request, context, cluster, gone=lambda: _unknown_id(topic_id))


def _found(
    topic: Topic,
    request: MetadataRequest,
    context: RequestContext,
    cluster: Cluster,
    *,
    gone: Callable[[], MetadataResponseTopic | None] = lambda: None,
) -> _Steps:
    """The topic, or `gone` if it is deleted between two steps."""
    without, version = cluster.brokers_without(context.listener), context.api_version
    partitions: list[MetadataResponsePartition] = []
    for first in range(0, topic.partitions, PARTITIONS_PER_STEP):
        if first:
            yield None
            known = cluster.topics.get(topic.name)
            if known is None or known.topic_id != topic.topic_id:
                yield gone()
                return
        some = range(first, min(first + PARTITIONS_PER_STEP, topic.partitions))
        partitions += [_partition(TopicPartition(topic.name, index), cluster, without, version) for index in some]
    yield MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(partitions),
        topic_authorized_operations=context.session.operations(ResourceType.TOPIC, topic.name)
        if request.include_topic_authorized_operations
        else NOT_ASKED,
    )


def _partition(
    partition: TopicPartition, cluster: Cluster, without_listener: frozenset[int], version: int
) -> MetadataResponsePartition:
    state = cluster.partition_state(partition)
    assert state is not None, "a topic has the partitions that it counts"
    error, leader_id, offline = visible_leader(state, without_listener)
    if error is ErrorCode.LISTENER_NOT_FOUND and version < FIRST_LISTENER_VERSION:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=offline,
    )


def _response(
    request: MetadataRequest, context: RequestContext, services: Services, topics: Sequence[MetadataResponseTopic]
) -> MetadataResponse:
    cluster = services.cluster
    brokers = cluster.brokers(context.listener)
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(each.node_id, each.host, each.port, each.rack) for each in brokers),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=cluster_operations(context.session)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def refuse(request: MetadataRequest, context: RequestContext, error: ErrorCode) -> MetadataResponse:
    return MetadataResponse(
        topics=tuple(_refused(topic, context.api_version, error) for topic in request.topics or ()), error_code=error
    )


def _refused(topic: MetadataRequestTopic, version: int, error: ErrorCode) -> MetadataResponseTopic:
    name = topic.name if version >= 12 else topic.name or ""
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic.topic_id)


API = Api(
    key=ApiKey.METADATA,
    versions=range(0, 14),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            on_each(Operation.DESCRIBE, ResourceType.TOPIC, "that is named"),
            silently(Operation.DESCRIBE, ResourceType.TOPIC, "of all"),
            or_the_next(Operation.CREATE, ResourceType.CLUSTER, "to create a topic"),
            on_each(Operation.CREATE, ResourceType.TOPIC, "to create a topic"),
            silently(Operation.DESCRIBE, ResourceType.CLUSTER, "for the operations on it"),
        )
    ),
)
