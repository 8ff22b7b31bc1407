"""Requests that a broker of several machines passes on to the active controller (cluster.md 5).

`Forwarding.apis` takes the APIs as a broker alone serves them and puts its own handlers in the place of those that the
controller decides. Always true: the controller gets the client's bytes as they came, but for a request of which this
broker has to answer a part itself; and a client that changed something hears of it when this broker shows it too, or
after a moment (cluster.md 5.3).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from eosin.broker.api import Api, CloseConnection, RequestContext, Services
from eosin.broker.config.changes import changed_configs, check_broker_configs, is_list_setting
from eosin.broker.config.requests import ResourceChange, alter
from eosin.broker.config.resources import ResourceType, broker_of
from eosin.broker.handlers import add_partitions_to_txn, api_versions, describe_cluster
from eosin.broker.membership.channel import ControllerChannel, principal_data
from eosin.broker.membership.registration import FEATURES
from eosin.broker.metadata.cluster import ConfigChange, ConfigOperation, Outcome
from eosin.broker.metadata.controller_requests import packed_host
from eosin.broker.metadata.topics import check_more_partitions
from eosin.protocol.codec import (
    EncodedBody,
    decode_body,
    decode_request,
    decode_response,
    encode_request,
    response_body,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.headers import SIZE_BYTES
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS, ZERO_UUID
from eosin.protocol.schemas.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from eosin.protocol.schemas.create_partitions import CreatePartitionsTopicResult
from eosin.protocol.schemas.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from eosin.protocol.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from eosin.protocol.schemas.incremental_alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from eosin.protocol.types import Message

if TYPE_CHECKING:
    from eosin.broker.config.broker import BrokerConfig
    from eosin.broker.metadata.joined_cluster import JoinedCluster

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
    }
)
"""What the controller answers, of the APIs that Eosin has (cluster.md 5.1)."""


_EXACT: Final = 0
_ANY: Final = 2
"""How a filter of DescribeClientQuotas matches; 1 means the default."""


class ForwardedRequest(NamedTuple):
    """A request that may be passed on."""

    frame: bytes
    """Header and body as they came."""
    request: Any
    """The same, decoded."""

    @property
    def correlation_id(self) -> int:
        """The client's number of this request."""
        return int.from_bytes(self.frame[4:8], "big", signed=True)


def decode(key: int, version: int, frame: memoryview, offset: int) -> Any:
    """`decode_request` for a broker that passes requests on."""
    request = decode_request(key, version, frame, offset)
    return ForwardedRequest(bytes(frame), request) if key in FORWARDED else request


class Forwarding:
    """The controller's part of a broker's APIs."""

    def __init__(self, cluster: "JoinedCluster", channel: ControllerChannel) -> None:
        self._cluster = cluster
        self._channel = channel
        self._apis: Mapping[int, Api] = {}

    def apis(self, alone: Mapping[int, Api]) -> Mapping[int, Api]:
        """The APIs by key, of which `alone` are those of a broker that runs alone."""
        own_parts: Mapping[ApiKey, Callable[..., Any]] = {
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_incrementally,
            ApiKey.CREATE_PARTITIONS: self._create_partitions,
        }
        self._apis = {
            **alone,
            **{
                int(key): replace(
                    alone[key],
                    handle=partial(own_parts.get(key, self._pass_on), alone[key]),
                    respond=None,
                    refuse=partial(_refuse, alone[key]),
                )
                for key in FORWARDED
            },
            int(ApiKey.ADD_PARTITIONS_TO_TXN): add_partitions_to_txn.BETWEEN_BROKERS,
            int(ApiKey.API_VERSIONS): replace(alone[ApiKey.API_VERSIONS], respond=self._tell_versions),
            int(ApiKey.DESCRIBE_CLUSTER): replace(alone[ApiKey.DESCRIBE_CLUSTER], respond=self._tell_cluster),
            int(ApiKey.DESCRIBE_CLIENT_QUOTAS): replace(
                alone[ApiKey.DESCRIBE_CLIENT_QUOTAS], respond=self._tell_quotas
            ),
        }
        return self._apis

    async def _pass_on(
        self, api: Api, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Message:
        """The controller's response to a client's request."""
        await asyncio.sleep(0)  # handlers begin outside a task, in which a timeout would have no effect
        found = await self._channel.forward(
            request.frame, principal=principal_data(), client_host=packed_host(context.client_host)
        )
        if found.error_code is ErrorCode.UNSUPPORTED_VERSION:
            raise CloseConnection
        if found.error_code is not ErrorCode.NONE:
            refused: Message = api.refuse(request.request, context, found.error_code)
            return refused
        shows = _SHOWS.get(api.key)
        if shows is not None and not getattr(request.request, "validate_only", False):
            _, response = decode_response(api.key, context.api_version, found.frame)
            await self._cluster.shown(shows(self._cluster, request.request, response))
        return response_body(api.key, context.api_version, found.frame)

    async def _pass_on_rest(
        self, api: Api, rest: Message, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Any:
        """The decoded response to `rest`, which is a part of `request`."""
        frame = encode_request(api.key, context.api_version, request.correlation_id, context.client_id, rest)
        passed = ForwardedRequest(b"".join(frame)[SIZE_BYTES:], rest)
        response = await self._pass_on(api, passed, context, services)
        if isinstance(response, EncodedBody):
            return decode_body(api.key, context.api_version, response)
        return response

    # Requests of which this broker answers a part ---------------------------------------------------------------------

    async def _alter_incrementally(
        self, api: Api, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Message:
        """Levels of loggers are this broker's own, and its settings must be of the kind that changes while it runs
        (cluster.md 5.4)."""
        asked = request.request
        outcomes = [await self._altered_here(each, asked.validate_only) for each in asked.resources]
        if not any(outcomes):
            return await self._pass_on(api, request, context, services)
        rest = tuple(each for each, outcome in zip(asked.resources, outcomes, strict=True) if outcome is None)
        response: Any = api.refuse(with_fields(asked, resources=()), context, ErrorCode.NONE)
        if rest:
            response = await self._pass_on_rest(api, with_fields(asked, resources=rest), request, context, services)
        own = tuple(
            AlterConfigsResourceResponse(outcome.error, outcome.message, each.resource_type, each.resource_name)
            for each, outcome in zip(asked.resources, outcomes, strict=True)
            if outcome is not None
        )
        answered: Message = with_fields(response, responses=response.responses + own)
        return answered

    async def _altered_here(self, resource: AlterConfigsResource, validate_only: bool) -> Outcome | None:
        """The outcome of a change that the controller does not hear of; None for all others."""
        changes = [ConfigChange(each.name, each.value, each.config_operation) for each in resource.configs]
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            here = ResourceChange(resource.resource_type, resource.resource_name, changes)
            (outcome,) = await alter([here], self._cluster, replace=False, validate_only=validate_only)
            return outcome
        if resource.resource_type != ResourceType.BROKER:
            return None
        node_id = broker_of(resource.resource_name, self._cluster)
        if isinstance(node_id, Outcome):
            return node_id
        configs = changed_configs(
            self._cluster.broker_configs(node_id),
            changes,
            replace=False,
            is_list=is_list_setting,
            effective=lambda name: None,
        )
        return configs if isinstance(configs, Outcome) else check_broker_configs(configs)

    async def _create_partitions(
        self, api: Api, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Message:
        """The number of partitions of an internal topic decides where a group or a transactional id belongs, so it
        never changes (cluster.md 6.1)."""
        asked = request.request
        internal = [each for each in asked.topics if each.name in INTERNAL_TOPICS]
        if not internal:
            return await self._pass_on(api, request, context, services)
        rest = tuple(each for each in asked.topics if each.name not in INTERNAL_TOPICS)
        response: Any = api.refuse(with_fields(asked, topics=()), context, ErrorCode.NONE)
        if rest:
            response = await self._pass_on_rest(api, with_fields(asked, topics=rest), request, context, services)
        own = []
        for each in internal:
            refused = check_more_partitions(
                self._cluster.topics.get(each.name), each.name, count=each.count, assignments=None, brokers=()
            )
            assert refused is not None, "an internal topic does not grow"
            own.append(CreatePartitionsTopicResult(each.name, refused.error, refused.message))
        answered: Message = with_fields(response, results=response.results + tuple(own))
        return answered

    # ApiVersions ----------------------------------------------------------------------------------------------------

    def _tell_versions(
        self, request: ApiVersionsRequest, context: RequestContext, services: Services
    ) -> ApiVersionsResponse:
        """What a broker alone says, with the controller's versions and the cluster's features (cluster.md 5.1)."""
        response = api_versions.respond(request, context, services)
        if response.error_code != ErrorCode.NONE:
            return response
        lowest = 1 if context.api_version < api_versions.FEATURES_FROM_ZERO_FROM else 0
        told: ApiVersionsResponse = with_fields(
            response,
            api_keys=self._announced(services.config),
            supported_features=tuple(
                SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in FEATURES.items()
                if low >= lowest
            ),
            finalized_features_epoch=self._cluster.image.offset,
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self._cluster.image.features.items()
            ),
        )
        return told

    def _announced(self, config: "BrokerConfig") -> tuple[ApiVersion, ...]:
        announced = []
        for key, api in sorted(self._apis.items()):
            versions = api.announced(config)
            if key in FORWARDED:
                served = self._channel.served(api.key)
                if served is None:
                    continue
                versions = range(max(versions.start, served[0]), min(versions.stop, served[1] + 1))
            if versions:
                announced.append(ApiVersion(api_key=key, min_version=versions.start, max_version=versions.stop - 1))
        return tuple(announced)

    # Answers from the image ------------------------------------------------------------------------------------------

    def _tell_cluster(
        self, request: DescribeClusterRequest, context: RequestContext, services: Services
    ) -> DescribeClusterResponse:
        """What a broker alone says, with the fenced brokers if they are asked for (KIP-1073)."""
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

    def _tell_quotas(
        self, request: DescribeClientQuotasRequest, context: RequestContext, services: Services
    ) -> DescribeClientQuotasResponse:
        """The quotas that were set for what the request names (KIP-546). Eosin enforces none of them."""
        return DescribeClientQuotasResponse(
            entries=tuple(
                EntryData(
                    tuple(EntityData(each.entity_type, each.name) for each in entities),
                    tuple(ValueData(key, value) for key, value in sorted(values.items())),
                )
                for entities, values in self._cluster.image.quotas.items()
                if _is_meant({each.entity_type: each.name for each in entities}, request)
            )
        )


def _is_meant(names: Mapping[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    """Whether a filter of DescribeClientQuotas names the entity of these parts, None for the default of a type."""
    wanted = request.components
    if request.strict and len(names) != len(wanted):
        return False
    return all(
        each.entity_type in names
        and (each.match_type == _ANY or names[each.entity_type] == (each.match if each.match_type == _EXACT else None))
        for each in wanted
    )


def _refuse(api: Api, request: ForwardedRequest, context: RequestContext, error: ErrorCode) -> Any:
    return api.refuse(request.request, context, error)


# What shows that a change has reached this broker


def _shows_created(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    made = [each.name for each in response.topics if each.error_code == ErrorCode.NONE]
    return lambda: all(name in cluster.topics for name in made)


def _shows_deleted(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    gone = [each for each in response.responses if each.error_code == ErrorCode.NONE]
    ids = [each.topic_id for each in gone if each.topic_id != ZERO_UUID]
    names = [each.name for each in gone if each.topic_id == ZERO_UUID]
    return lambda: not any(map(cluster.topic_by_id, ids)) and not any(name in cluster.topics for name in names)


def _shows_partitions(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    made = {each.name for each in response.results if each.error_code == ErrorCode.NONE}
    counts = {each.name: each.count for each in request.topics if each.name in made}

    def shown() -> bool:
        topics = cluster.topics
        return all(name not in topics or topics[name].partitions >= count for name, count in counts.items())

    return shown


def _shows_configs(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    done = {
        (each.resource_type, each.resource_name) for each in response.responses if each.error_code == ErrorCode.NONE
    }
    wanted = [
        (each.resource_type, each.resource_name, config.name, _value_after(config))
        for each in request.resources
        if (each.resource_type, each.resource_name) in done
        for config in each.configs
        if getattr(config, "config_operation", ConfigOperation.SET) in (ConfigOperation.SET, ConfigOperation.DELETE)
    ]

    def shown() -> bool:
        configs = cluster.image.configs
        return all(configs.get((kind, name), {}).get(key) == value for kind, name, key, value in wanted)

    return shown


def _value_after(config: Any) -> str | None:
    deletes = getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.DELETE
    value: str | None = config.value
    return None if deletes else value


_SHOWS: Final[Mapping[ApiKey, Callable[["JoinedCluster", Any, Any], Callable[[], bool]]]] = {
    ApiKey.CREATE_TOPICS: _shows_created,
    ApiKey.DELETE_TOPICS: _shows_deleted,
    ApiKey.CREATE_PARTITIONS: _shows_partitions,
    ApiKey.ALTER_CONFIGS: _shows_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _shows_configs,
}
