"""DescribeConfigs (key 32), versions 0-4: the settings of topics, brokers and groups, and where their values come from.

v1 replaces `is_default` by the source and adds synonyms, v3 adds types and documentation. A broker is named by its
id; an empty name means what was changed for all brokers. No keys, or none named, asks for every setting. Nothing here
is secret, so nothing is marked sensitive.
"""

from collections.abc import Iterable
from typing import Final

from eosin.broker.config.entries import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    cluster_wide_entries,
    group_entries,
    topic_entries,
)
from eosin.broker.config.loggers import logger_entries
from eosin.broker.config.resources import NO_BROKER, NO_GROUP, broker_of, config_rights, refusal_of, unsupported
from eosin.broker.services import Services
from eosin.cluster.metadata.topics import unknown_topic
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access
from eosin.settings.topics import TOPIC_CONFIGS

FEW_KEYS: Final = 1000
"""A request has no room to ask for more of one resource again and again."""
CONFIG_WEIGHT: Final = 3
"""Number of items that a config counts as: it has synonyms and a text."""
_Asked = tuple[int, str, tuple[str, ...] | None]
"""The resource that a request asks for: its type, its name and the settings wanted."""


async def handle(request: DescribeConfigsRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    return await written(
        ApiKey.DESCRIBE_CONFIGS, await described(request, context, services), items_of(request), context
    )


def items_of(request: DescribeConfigsRequest) -> int:
    """About how many items the response has, if it is about topics."""
    return len(request.resources) * len(TOPIC_CONFIGS) * CONFIG_WEIGHT


async def described(
    request: DescribeConfigsRequest, context: RequestContext, services: Services
) -> DescribeConfigsResponse:
    """The response before it is encoded."""
    seen: set[_Asked] = set()
    results = (_describe(each, seen, request, context, services) for each in request.resources)
    made = await made_for_each(results, items_of(request), context, services)
    return DescribeConfigsResponse(results=tuple(made))


def _describe(
    resource: DescribeConfigsResource,
    seen: set[_Asked],
    request: DescribeConfigsRequest,
    context: RequestContext,
    services: Services,
) -> DescribeConfigsResult:
    """One resource's settings. One that is named again, with the same keys, is refused: the response would be many
    times what there is."""
    refused = refusal_of(Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name, context)
    if refused is not None:
        return _result(resource, refused)
    entries = _entries(resource, services)
    if isinstance(entries, Outcome):
        return _result(resource, entries)
    named = resource.configuration_keys
    if named is None or len(named) <= FEW_KEYS:
        if (asked := (resource.resource_type, resource.resource_name, named)) in seen:
            return _result(resource, Outcome(ErrorCode.INVALID_REQUEST, "The resource is named twice"))
        seen.add(asked)
    found = {entry.name: entry for entry in entries}
    keys = frozenset(found).intersection(named) if named else found.keys()
    configs = tuple(_config(entry, request) for name, entry in found.items() if name in keys)
    return _result(resource, Outcome(ErrorCode.NONE), configs)


def _entries(resource: DescribeConfigsResource, services: Services) -> Iterable[ConfigEntry] | Outcome:
    cluster = services.cluster
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            topic = cluster.topics.get(resource.resource_name)
            if topic is None:
                return unknown_topic(resource.resource_name)
            return topic_entries(topic, cluster, services.config)
        case ConfigResourceType.BROKER:
            node_id = broker_of(resource.resource_name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            return cluster_wide_entries(cluster) if node_id is None else broker_entries(cluster, services.config)
        case ConfigResourceType.BROKER_LOGGER:
            node_id = broker_of(resource.resource_name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            return NO_BROKER if node_id is None else logger_entries()
        case ConfigResourceType.GROUP:
            if not resource.resource_name:
                return NO_GROUP
            return group_entries(resource.resource_name, cluster, services.config)
        case ConfigResourceType.CLIENT_METRICS if resource.resource_name:
            return ()  # there are none
        case _:
            return unsupported(resource.resource_type)


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source == ConfigSource.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(DescribeConfigsSynonym(each.name, each.value, each.source) for each in entry.synonyms)
        if request.include_synonyms
        else (),
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _result(
    resource: DescribeConfigsResource, outcome: Outcome, configs: tuple[DescribeConfigsResourceResult, ...] = ()
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=outcome.error,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def refuse(request: DescribeConfigsRequest, context: RequestContext, error: ErrorCode) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=tuple(_result(each, Outcome(error)) for each in request.resources))


API = Api(
    key=ApiKey.DESCRIBE_CONFIGS,
    versions=range(0, 5),
    handle=handle,
    refuse=refuse,
    access=Access(config_rights(Operation.DESCRIBE_CONFIGS)),
)
