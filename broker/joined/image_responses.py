"""`ImageResponses`: what a broker of several machines says of its cluster out of the image, where a broker alone has
nothing to say (cluster.md 3.10, 5.1).

Always true: an answer shows one image, and says what the controllers have committed; that Eosin keeps to it is another
matter (it has no settings of client metrics).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as with_fields

from eosin.broker.handlers import (
    describe_cluster,
    describe_configs,
    list_config_resources,
)
from eosin.broker.services import Services
from eosin.network.api import RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from eosin.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from eosin.protocol.schemas.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody

if TYPE_CHECKING:
    from eosin.cluster.metadata.joined_cluster import JoinedCluster
    from eosin.cluster.quorum.rules.image import ClusterImage

_IN_THE_IMAGE_ALONE: Final = {ConfigResourceType.CLIENT_METRICS: 7}
"""Kinds of resources that no broker of ours has settings for, and the source that their settings are marked with."""


class ImageResponses:
    """The handlers of APIs that describe the cluster."""

    def __init__(self, cluster: "JoinedCluster") -> None:
        self._cluster = cluster

    def cluster_response(
        self, request: DescribeClusterRequest, context: RequestContext, services: Services
    ) -> DescribeClusterResponse:
        """The response of a broker alone, with the fenced brokers if they are asked for (KIP-1073)."""
        response = describe_cluster.respond(request, context, services)
        if response.error_code != ErrorCode.NONE or not request.include_fenced_brokers:
            return response
        fenced = tuple(
            DescribeClusterBroker(*endpoint, is_fenced=True)
            for each in self._cluster.image.brokers.values()
            if each.fenced and (endpoint := self._cluster.endpoint_of(each.node_id, context.listener)) is not None
        )
        told: DescribeClusterResponse = with_fields(response, brokers=response.brokers + fenced)
        return told

    async def list_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext, services: Services
    ) -> Message | EncodedBody:
        """The list of a broker alone, and the subscriptions that were given settings (KIP-1142)."""
        count = list_config_resources.most_resources(services.cluster)
        return await written(
            ApiKey.LIST_CONFIG_RESOURCES, await self._resources(request, context, services), count, context
        )

    async def _resources(
        self, request: ListConfigResourcesRequest, context: RequestContext, services: Services
    ) -> ListConfigResourcesResponse:
        response = await list_config_resources.listed(request, context, services)
        if response.error_code != ErrorCode.NONE:
            return response
        wanted = request.resource_types or tuple(_IN_THE_IMAGE_ALONE)
        if context.api_version == 0:
            wanted = (ConfigResourceType.CLIENT_METRICS,)
        found = tuple(
            ConfigResource(name, kind)
            for kind, name in self._cluster.image.configs
            if kind in _IN_THE_IMAGE_ALONE and kind in wanted
        )
        told: ListConfigResourcesResponse = with_fields(response, config_resources=response.config_resources + found)
        return told

    async def configs_response(
        self, request: DescribeConfigsRequest, context: RequestContext, services: Services
    ) -> Message | EncodedBody:
        """The response of a broker alone, with the settings that subscriptions were given."""
        return await written(
            ApiKey.DESCRIBE_CONFIGS,
            await self._configs(request, context, services),
            describe_configs.items_of(request),
            context,
        )

    async def _configs(
        self, request: DescribeConfigsRequest, context: RequestContext, services: Services
    ) -> DescribeConfigsResponse:
        response = await describe_configs.described(request, context, services)
        results = (
            _with_configs(result, self._cluster.image, asked.configuration_keys, synonyms=request.include_synonyms)
            for asked, result in zip(request.resources, response.results, strict=True)
        )
        made = await made_for_each(results, len(request.resources), context, services)
        told: DescribeConfigsResponse = with_fields(response, results=tuple(made))
        return told


def _with_configs(
    result: DescribeConfigsResult, image: "ClusterImage", keys: Iterable[str] | None, *, synonyms: bool
) -> DescribeConfigsResult:
    source = _IN_THE_IMAGE_ALONE.get(result.resource_type)  # type: ignore[call-overload]
    if source is None or result.error_code != ErrorCode.NONE:
        return result
    configs = image.configs.get((result.resource_type, result.resource_name), {})
    wanted = frozenset(keys or ())
    told: DescribeConfigsResult = with_fields(
        result,
        configs=tuple(
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                config_source=source,
                is_default=False,
                synonyms=(DescribeConfigsSynonym(name, value, source),) if synonyms else (),
            )
            for name, value in sorted(configs.items())
            if not wanted or name in wanted
        ),
    )
    return told
