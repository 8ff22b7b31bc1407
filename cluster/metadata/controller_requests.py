"""`ControllerRequests`: changes of the cluster that a broker asks the active controller for in its own name.

Always true: an answer means that the controller has committed the change, not that this broker's image shows it
(cluster.md 5.3). A controller that does not answer in time leaves open whether the change was made: REQUEST_TIMED_OUT.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.client.errors import known_code
from eosin.cluster.membership.envelopes import principal_data
from eosin.model.cluster import NO_CONFIGS, USE_DEFAULT, ConfigChange, Outcome, Topic
from eosin.model.principals import Principal
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS
from eosin.protocol.schemas import alter_configs, incremental_alter_configs
from eosin.protocol.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES

if TYPE_CHECKING:
    from eosin.cluster.membership.channel import ControllerChannel
    from eosin.cluster.membership.envelopes import Envelopes

CHANGE_TIMEOUT_MS: Final = 60_000
"""Time that a change waits for a controller (cluster.md 2.2)."""
_CREATE_TOPICS_VERSION: Final = 7
"""Of a request in an Envelope; every controller since 3.0 serves it."""
_ENVELOPED: Final = 1
"""The correlation id of such a request, which has the controller to itself."""


class ControllerRequests:
    """Asks the controller for changes on behalf of one broker."""

    def __init__(self, channel: "ControllerChannel", envelopes: "Envelopes") -> None:
        """`channel` is for what the broker asks for itself, `envelopes` for what a client does."""
        self._channel = channel
        self._envelopes = envelopes

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = USE_DEFAULT,
        replication_factor: int = USE_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] = NO_CONFIGS,
        validate_only: bool = False,
    ) -> Outcome:
        """See `Cluster.create_topic`."""
        request = _creation(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            configs=configs,
            validate_only=validate_only,
        )
        return _created(await self._call(ApiKey.CREATE_TOPICS, request))

    async def create_topic_for(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        client_host: bytes,
        principal: Principal,
        configs: Mapping[str, str | None] = NO_CONFIGS,
    ) -> Outcome:
        """Create a topic that a client named, or has need of, and that did not exist, if that client may (cluster.md
        5.6)."""
        request = _creation(name, partitions=partitions, replication_factor=replication_factor, configs=configs)
        frame = b"".join(encode_request(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, _ENVELOPED, None, request))[
            SIZE_BYTES:
        ]
        found = await self._envelopes.forward(
            frame, principal=principal_data(principal.name, kind=principal.kind), client_host=client_host
        )
        if found.error_code is not ErrorCode.NONE:
            return Outcome(found.error_code)
        _, response = decode_response(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, found.frame)
        return _created(response)

    async def delete_topic(self, name: str) -> Outcome:
        """See `Cluster.delete_topic`."""
        request = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=name),), topic_names=(name,), timeout_ms=CHANGE_TIMEOUT_MS
        )
        response = await self._call(ApiKey.DELETE_TOPICS, request)
        return _outcome(response if isinstance(response, Outcome) else response.responses[0])

    async def create_partitions(
        self,
        name: str,
        *,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> Outcome:
        """See `Cluster.create_partitions`."""
        replicas = (
            None if assignments is None else tuple(CreatePartitionsAssignment(tuple(each)) for each in assignments)
        )
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name, count, replicas),),
            timeout_ms=CHANGE_TIMEOUT_MS,
            validate_only=validate_only,
        )
        response = await self._call(ApiKey.CREATE_PARTITIONS, request)
        return _outcome(response if isinstance(response, Outcome) else response.results[0])

    async def alter_topic_configs(
        self, name: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        """See `Cluster.alter_topic_configs`."""
        return await self._alter(ConfigResourceType.TOPIC, name, changes, replace=replace, validate_only=validate_only)

    async def alter_broker_configs(
        self,
        node_id: int | None,
        changes: Sequence[ConfigChange],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> Outcome:
        """See `Cluster.alter_broker_configs`."""
        name = "" if node_id is None else str(node_id)
        return await self._alter(ConfigResourceType.BROKER, name, changes, replace=replace, validate_only=validate_only)

    async def _alter(
        self,
        kind: ConfigResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        replace: bool,
        validate_only: bool,
    ) -> Outcome:
        request: Message
        if replace:
            request = alter_configs.AlterConfigsRequest(
                resources=(
                    alter_configs.AlterConfigsResource(
                        kind, name, tuple(alter_configs.AlterableConfig(each.name, each.value) for each in changes)
                    ),
                ),
                validate_only=validate_only,
            )
        else:
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=(
                    incremental_alter_configs.AlterConfigsResource(
                        kind,
                        name,
                        tuple(
                            incremental_alter_configs.AlterableConfig(each.name, each.operation, each.value)
                            for each in changes
                        ),
                    ),
                ),
                validate_only=validate_only,
            )
        key = ApiKey.ALTER_CONFIGS if replace else ApiKey.INCREMENTAL_ALTER_CONFIGS
        response = await self._call(key, request)
        return _outcome(response if isinstance(response, Outcome) else response.responses[0])

    async def _call(self, key: ApiKey, request: Message) -> Any:
        """The response; an Outcome when there is none."""
        try:
            return await self._channel.request(key, request, timeout_ms=CHANGE_TIMEOUT_MS)
        except OSError as error:
            return Outcome(ErrorCode.REQUEST_TIMED_OUT, str(error))


def _creation(
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] = NO_CONFIGS,
    validate_only: bool = False,
) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(index, tuple(replicas)) for index, replicas in (assignments or {}).items()
        ),
        configs=tuple(CreatableTopicConfig(key, value) for key, value in configs.items()),
    )
    return CreateTopicsRequest(topics=(topic,), timeout_ms=CHANGE_TIMEOUT_MS, validate_only=validate_only)


def _created(response: Any) -> Outcome:
    if isinstance(response, Outcome):
        return response
    (made,) = response.topics
    if made.error_code != ErrorCode.NONE:
        return _outcome(made)
    own = {each.name: each.value for each in made.configs or () if each.config_source == _DYNAMIC_TOPIC}
    return Outcome(
        ErrorCode.NONE,
        topic=Topic(made.name, made.topic_id, made.num_partitions, own, made.name in INTERNAL_TOPICS),
    )


_DYNAMIC_TOPIC: Final = 1


def _outcome(result: Any) -> Outcome:
    """The outcome of one part of a response, or `result` if it is an outcome already."""
    if isinstance(result, Outcome):
        return result
    return Outcome(_code(result.error_code), result.error_message)


def _code(number: int) -> ErrorCode:
    code = known_code(number)
    return ErrorCode.UNKNOWN_SERVER_ERROR if code is None else code


def packed_host(client_host: str) -> bytes:
    """The 4 or 16 bytes of a client's address, which is in Java's form (`RequestContext.client_host`)."""
    return ipaddress.ip_address(client_host.lstrip("/").partition("%")[0]).packed
