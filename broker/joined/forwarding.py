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

from eosin.broker.config.resources import broker_of
from eosin.broker.config.store_reloads import is_store
from eosin.broker.handlers import add_partitions_to_txn, api_versions
from eosin.broker.joined.controller_apis import CONTROLLER_APIS
from eosin.broker.joined.image_responses import ImageResponses
from eosin.broker.requests.config_changes import ResourceChange, alter
from eosin.broker.services import Services
from eosin.broker.transactions.two_phase_replicas import refused_move
from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.envelopes import Envelopes, principal_data
from eosin.cluster.metadata.config_changes import (
    MOST_CHANGES,
    changed_configs,
    check_broker_configs,
    is_list_setting,
    problem_of,
)
from eosin.cluster.metadata.controller_requests import packed_host
from eosin.cluster.metadata.topics import check_more_partitions
from eosin.model.close_connection import CloseConnection
from eosin.model.cluster import ConfigChange, ConfigOperation, Outcome
from eosin.model.features import KRAFT_VERSION
from eosin.network.api import Api, RequestContext, Responder
from eosin.network.many_items import ITEMS_PER_TURN
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, ZERO_UUID
from eosin.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from eosin.protocol.schemas.create_partitions import CreatePartitionsTopicResult
from eosin.protocol.schemas.incremental_alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import (
    EncodedBody,
    decode_body,
    decode_request,
    decode_response,
    encode_request,
    response_body,
)
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.runtime.turns import next_turn
from eosin.security.acl_requests import new_acl, removed_acl

if TYPE_CHECKING:
    from eosin.cluster.metadata.joined_cluster import JoinedCluster
    from eosin.settings.broker import BrokerConfig

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
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The APIs that the controller answers, of those that Eosin has (cluster.md 5.1)."""


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


def decode(key: int, version: int, frame: memoryview, offset: int, rest: Callable[[], None] | None = None) -> Any:
    """`decode_request` for a broker that passes requests on."""
    request = decode_request(key, version, frame, offset, rest)
    return ForwardedRequest(bytes(frame), request) if key in FORWARDED else request


class Forwarding:
    """The controller's part of a broker's APIs."""

    def __init__(self, cluster: "JoinedCluster", envelopes: Envelopes, *, controller: ControllerChannel) -> None:
        """`controller` is asked again and again, and knows what the active one serves."""
        self._cluster = cluster
        self._envelopes = envelopes
        self._controller = controller
        self._apis: Mapping[int, Api] = {}

    def apis(self, alone: Mapping[int, Api]) -> Mapping[int, Api]:
        """The APIs by key, of which `alone` are those of a broker that runs alone."""
        answers = ImageResponses(self._cluster)
        from_image: Mapping[ApiKey, Responder] = {
            ApiKey.API_VERSIONS: self._versions_response,
            ApiKey.DESCRIBE_CLUSTER: answers.cluster_response,
        }
        own_parts: Mapping[ApiKey, Callable[..., Any]] = {
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_incrementally,
            ApiKey.CREATE_PARTITIONS: self._create_partitions,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._reassign,
        }
        served = {**CONTROLLER_APIS, **alone}
        self._apis = {
            **served,
            **{
                int(key): replace(
                    served[key],
                    handle=partial(own_parts.get(key, self._pass_on), served[key]),
                    respond=None,
                    refuse=partial(_refuse, served[key]),
                )
                for key in FORWARDED
            },
            **{int(key): replace(served[key], respond=respond) for key, respond in from_image.items()},
            int(ApiKey.DESCRIBE_CONFIGS): replace(served[ApiKey.DESCRIBE_CONFIGS], handle=answers.configs_response),
            int(ApiKey.LIST_CONFIG_RESOURCES): replace(
                served[ApiKey.LIST_CONFIG_RESOURCES], handle=answers.list_resources
            ),
            int(ApiKey.ADD_PARTITIONS_TO_TXN): add_partitions_to_txn.BETWEEN_BROKERS,
        }
        return self._apis

    async def _pass_on(
        self, api: Api, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Message:
        """The controller's response to a client's request."""
        await asyncio.sleep(0)  # handlers begin outside a task, in which a timeout would have no effect
        principal = context.session.principal
        found = await self._envelopes.forward(
            request.frame,
            principal=principal_data(principal.name, kind=principal.kind),
            client_host=packed_host(context.client_host),
            is_gone=lambda: context.connection is not None and context.connection.is_gone,
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
        (cluster.md 5.4). Changes that make no sense are refused here: a controller takes the last of two."""
        asked = request.request
        outcomes: list[Outcome | None] = []
        for each in asked.resources:
            outcomes.append(await self._altered_here(each, asked.validate_only, context, services))
            if len(outcomes) % ITEMS_PER_TURN == 0:
                await next_turn()
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

    async def _altered_here(
        self, resource: AlterConfigsResource, validate_only: bool, context: RequestContext, services: Services
    ) -> Outcome | None:
        """The outcome of a change that the controller does not hear of; None for all others."""
        some = resource.configs[: MOST_CHANGES + 1]  # more than may be changed are refused
        changes = [ConfigChange(each.name, each.value, each.config_operation) for each in some]
        is_of_broker = resource.resource_type == ConfigResourceType.BROKER
        is_of_stores = is_of_broker and any(is_store(each.name) for each in changes)
        if is_of_stores or resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            here = ResourceChange(resource.resource_type, resource.resource_name, changes)
            (outcome,) = await alter([here], 1, context, services, replace=False, validate_only=validate_only)
            return outcome
        if resource.resource_type != ConfigResourceType.BROKER:
            return problem_of(changes)
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

    async def _reassign(
        self, api: Api, request: ForwardedRequest, context: RequestContext, services: Services
    ) -> Message:
        """While there are two-phase commits, no partition of `__transaction_state` gets a replica on a broker that
        would lose them (cluster.md 6.9)."""
        asked: AlterPartitionReassignmentsRequest = request.request
        refused = self._refused_moves(asked, services)
        if not refused:
            return await self._pass_on(api, request, context, services)
        rest = tuple(
            with_fields(
                topic,
                partitions=tuple(
                    each
                    for each in topic.partitions
                    if topic.name != TRANSACTION_STATE_TOPIC or each.partition_index not in refused
                ),
            )
            for topic in asked.topics
        )
        rest = tuple(topic for topic in rest if topic.partitions)
        response: Any = AlterPartitionReassignmentsResponse()
        if rest:
            response = await self._pass_on_rest(api, with_fields(asked, topics=rest), request, context, services)
        own = tuple(
            ReassignablePartitionResponse(index, outcome.error, outcome.message) for index, outcome in refused.items()
        )
        answered: Message = with_fields(
            response, responses=(*response.responses, ReassignableTopicResponse(TRANSACTION_STATE_TOPIC, own))
        )
        return answered

    def _refused_moves(self, asked: AlterPartitionReassignmentsRequest, services: Services) -> dict[int, Outcome]:
        """By partition of `__transaction_state`."""
        moves = [
            each
            for topic in asked.topics
            for each in topic.partitions
            if topic.name == TRANSACTION_STATE_TOPIC and each.replicas is not None
        ]
        if not moves:
            return {}
        if not services.config.transaction_two_phase_commit_enable and not services.transactions.has_open_two_phase:
            return {}
        return {
            each.partition_index: outcome
            for each in moves
            if (outcome := refused_move(self._cluster.image, each.partition_index, each.replicas or ())) is not None
        }

    # ApiVersions ----------------------------------------------------------------------------------------------------

    def _versions_response(
        self, request: ApiVersionsRequest, context: RequestContext, services: Services
    ) -> ApiVersionsResponse:
        """The response of a broker alone, with the controller's versions (cluster.md 5.1)."""
        response = api_versions.respond(request, context, services)
        if response.error_code != ErrorCode.NONE:
            return response
        told: ApiVersionsResponse = with_fields(response, api_keys=self._announced(services.config))
        return told

    def _announced(self, config: "BrokerConfig") -> tuple[ApiVersion, ...]:
        announced = []
        for key, api in sorted(self._apis.items()):
            versions = api.announced(config)
            if key in FORWARDED:
                served = self._controller.served(api.key)
                if served is None:
                    continue
                versions = range(max(versions.start, served[0]), min(versions.stop, served[1] + 1))
            if versions:
                announced.append(ApiVersion(api_key=key, min_version=versions.start, max_version=versions.stop - 1))
        return tuple(announced)


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


def _shows_levels(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    refused = {each.feature for each in response.results if each.error_code != ErrorCode.NONE}
    levels = {
        each.feature: each.max_version_level
        for each in request.feature_updates
        if each.feature not in refused and response.error_code == ErrorCode.NONE
    }
    levels.pop(KRAFT_VERSION, None)  # no record of the metadata tells it
    return lambda: all(cluster.image.features.get(name, 0) == level for name, level in levels.items())


def _value_after(config: Any) -> str | None:
    deletes = getattr(config, "config_operation", ConfigOperation.SET) == ConfigOperation.DELETE
    value: str | None = config.value
    return None if deletes else value


def _shows_new_acls(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    made = [
        new_acl(creation)
        for creation, result in zip(request.creations, response.results, strict=True)
        if result.error_code == ErrorCode.NONE
    ]
    return lambda: all(map(cluster.shows_acl, made))


def _shows_no_acls(cluster: "JoinedCluster", request: Any, response: Any) -> Callable[[], bool]:
    gone = [
        removed_acl(each)
        for result in response.filter_results
        for each in result.matching_acls
        if each.error_code == ErrorCode.NONE
    ]
    return lambda: all(map(cluster.hides_acl, gone))


_SHOWS: Final[Mapping[ApiKey, Callable[["JoinedCluster", Any, Any], Callable[[], bool]]]] = {
    ApiKey.CREATE_ACLS: _shows_new_acls,
    ApiKey.DELETE_ACLS: _shows_no_acls,
    ApiKey.CREATE_TOPICS: _shows_created,
    ApiKey.DELETE_TOPICS: _shows_deleted,
    ApiKey.CREATE_PARTITIONS: _shows_partitions,
    ApiKey.ALTER_CONFIGS: _shows_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _shows_configs,
    ApiKey.UPDATE_FEATURES: _shows_levels,
}
