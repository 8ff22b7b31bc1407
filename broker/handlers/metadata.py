"""Metadata (key 3), versions 0-13: brokers, topics, and the leader of each partition.

No topics (null, in v0 an empty list) asks for all of them; in v1+ an empty list asks for none. v2 adds the cluster
id, v4 lets the client forbid that an unknown topic is created, v5 adds offline replicas, v7 leader epochs, v8 the
authorized operations (of the cluster up to v10 only), v10 topic ids in answers, v12 topic ids in requests, v13 an
error for the whole.

A topic that is created here is created before the answer, which so names its leader at once. When a request holds any
topic id, its names are not looked at, as in Kafka; a topic is never created by id.
"""

import asyncio
from collections.abc import Sequence

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.authorized_operations import NOT_ASKED, ON_A_TOPIC, ON_THE_CLUSTER
from eosin.broker.metadata.answers import FEW_PARTITIONS, Kind
from eosin.broker.metadata.cluster import NO_LEADER, Cluster, Topic
from eosin.broker.metadata.topics import unknown_topic
from eosin.protocol.codec import EncodedBody
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


async def handle(
    request: MetadataRequest, context: RequestContext, services: Services
) -> MetadataResponse | EncodedBody:
    version, wanted = context.api_version, request.topics
    if wanted is None or (version == 0 and not wanted):
        return await _all_topics(request, context, services)
    if version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in wanted):
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
    if ids:
        topics = [_by_id(topic_id, request, services.cluster) for topic_id in ids]
        return _answer(request, context, services, topics)
    names = list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        missing = [name for name in names if name not in services.cluster.topics]
        if missing:
            return await _create_and_answer(request, context, services, names, missing)
    return _answer(request, context, services, [_by_name(name, request, services.cluster) for name in names])


async def _all_topics(
    request: MetadataRequest, context: RequestContext, services: Services
) -> MetadataResponse | EncodedBody:
    cluster = services.cluster
    if cluster.partition_count <= FEW_PARTITIONS:
        topics = [_found(topic, request, cluster) for topic in cluster.topics.values()]
        return _answer(request, context, services, topics)
    kind = Kind(
        context.api_version,
        context.listener,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    return services.metadata_answers.kept(kind) or await services.metadata_answers.make(
        kind,
        lambda topic: _found(topic, request, cluster),
        lambda topics: _answer(request, context, services, topics),
    )


async def _create_and_answer(
    request: MetadataRequest, context: RequestContext, services: Services, names: Sequence[str], missing: Sequence[str]
) -> MetadataResponse:
    # Side by side, so that one sync makes all of them durable.
    outcomes = await asyncio.gather(
        *(services.cluster.create_automatically(name, context.client_host) for name in missing)
    )
    failed = {
        name: outcome.error
        for name, outcome in zip(missing, outcomes, strict=True)
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    topics = [
        MetadataResponseTopic(error_code=failed[name], name=name)
        if name in failed
        else _by_name(name, request, services.cluster)
        for name in names
    ]
    return _answer(request, context, services, topics)


def _by_name(name: str, request: MetadataRequest, cluster: Cluster) -> MetadataResponseTopic:
    topic = cluster.topics.get(name)
    if topic is None:
        return MetadataResponseTopic(error_code=unknown_topic(name).error, name=name)
    return _found(topic, request, cluster)


def _by_id(topic_id: bytes, request: MetadataRequest, cluster: Cluster) -> MetadataResponseTopic:
    topic = cluster.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return _found(topic, request, cluster)


def _found(topic: Topic, request: MetadataRequest, cluster: Cluster) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=tuple(_partition(topic.name, index, cluster) for index in range(topic.partitions)),
        topic_authorized_operations=ON_A_TOPIC if request.include_topic_authorized_operations else NOT_ASKED,
    )


def _partition(topic: str, index: int, cluster: Cluster) -> MetadataResponsePartition:
    state = cluster.partition_state(TopicPartition(topic, index))
    assert state is not None, "a topic has the partitions that it counts"
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if state.leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=state.offline,
    )


def _answer(
    request: MetadataRequest, context: RequestContext, services: Services, topics: Sequence[MetadataResponseTopic]
) -> MetadataResponse:
    cluster = services.cluster
    brokers = cluster.brokers(context.listener)
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(each.node_id, each.host, each.port, each.rack) for each in brokers),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=ON_THE_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
    )


def refuse(request: MetadataRequest, context: RequestContext, error: ErrorCode) -> MetadataResponse:
    return MetadataResponse(
        topics=tuple(_refused(topic, context.api_version, error) for topic in request.topics or ()), error_code=error
    )


def _refused(topic: MetadataRequestTopic, version: int, error: ErrorCode) -> MetadataResponseTopic:
    name = topic.name if version >= 12 else topic.name or ""
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic.topic_id)


API = Api(key=ApiKey.METADATA, versions=range(0, 14), handle=handle, refuse=refuse)
