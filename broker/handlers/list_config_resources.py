"""ListConfigResources (key 74), versions 0-1: what has settings of its own (KIP-1142).

v0, then called ListClientMetricsResources, lists subscriptions to client metrics; there are none. v1 names the types
it asks for, every one when it names none. Of groups, those with settings of their own. Client metrics have none.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from eosin.broker.services import Services
from eosin.model.cluster import Cluster
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_the_cluster

_NAMES: Final[Mapping[int, Callable[[Cluster, str], Iterable[str]]]] = {
    ConfigResourceType.TOPIC: lambda cluster, listener: cluster.topics,
    ConfigResourceType.BROKER: lambda cluster, listener: (str(each.node_id) for each in cluster.brokers(listener)),
    ConfigResourceType.BROKER_LOGGER: lambda cluster, listener: (
        str(each.node_id) for each in cluster.brokers(listener)
    ),
    ConfigResourceType.CLIENT_METRICS: lambda cluster, listener: (),
    ConfigResourceType.GROUP: lambda cluster, listener: cluster.configured_groups,
}


async def handle(
    request: ListConfigResourcesRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    count = most_resources(services.cluster)
    return await written(ApiKey.LIST_CONFIG_RESOURCES, await listed(request, context, services), count, context)


def most_resources(cluster: Cluster) -> int:
    """About how many resources a response may have."""
    return len(cluster.topics) + len(cluster.configured_groups)


async def listed(
    request: ListConfigResourcesRequest, context: RequestContext, services: Services
) -> ListConfigResourcesResponse:
    """The response before it is encoded."""
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    types = list(dict.fromkeys(request.resource_types)) or list(_NAMES)
    if any(each not in _NAMES for each in types):
        return refuse(request, context, ErrorCode.UNSUPPORTED_VERSION)
    resources = (
        ConfigResource(name, each) for each in types for name in tuple(_NAMES[each](services.cluster, context.listener))
    )
    made = await made_for_each(resources, most_resources(services.cluster), context, services)
    return ListConfigResourcesResponse(config_resources=tuple(made))


def refuse(
    request: ListConfigResourcesRequest, context: RequestContext, error: ErrorCode
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error)


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE_CONFIGS),)),
)
