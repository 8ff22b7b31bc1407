"""Administration: topics, their settings, the cluster.

Always true: what changes something is asked of the controller, and once, since a lost response may hide success; what
only reads is tried again. What a broker refuses for a topic is raised, with its message.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.client.metadata import ClusterMetadata
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from eosin.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from eosin.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from eosin.protocol.types import Message

ADMIN_TIMEOUT_MS: Final = 30_000
_SET: Final = 0
_DELETE: Final = 1
_BROKER_DEFAULT: Final = -1


class Admin:
    """Operations on the topics and settings of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_topic(
        self,
        name: str,
        partitions: int = _BROKER_DEFAULT,
        *,
        replication_factor: int = _BROKER_DEFAULT,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatableTopicResult:
        """Create one topic; -1 is the broker's default. Raises BrokerError, TOPIC_ALREADY_EXISTS among others."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(CreatableTopicConfig(*setting) for setting in (configs or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=ADMIN_TIMEOUT_MS, validate_only=validate_only)

        response: CreateTopicsResponse = await self._call_controller(ApiKey.CREATE_TOPICS, request)
        (created,) = response.topics
        check(created.error_code, f"creating topic {created.name}", created.error_message)
        return created

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics by name. Raises BrokerError for the first that is refused, after all were tried."""
        request = DeleteTopicsRequest(
            topics=tuple(DeleteTopicState(name=name) for name in names),
            topic_names=tuple(names),
            timeout_ms=ADMIN_TIMEOUT_MS,
        )
        response: DeleteTopicsResponse = await self._call_controller(ApiKey.DELETE_TOPICS, request)
        self._client.forget()
        for each in response.responses:
            check(each.error_code, f"deleting topic {each.name}", each.error_message)

    async def create_partitions(self, name: str, count: int, *, validate_only: bool = False) -> None:
        """Give a topic `count` partitions in all. Raises BrokerError."""
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name, count),), timeout_ms=ADMIN_TIMEOUT_MS, validate_only=validate_only
        )
        response: CreatePartitionsResponse = await self._call_controller(ApiKey.CREATE_PARTITIONS, request)
        self._client.forget()
        for each in response.results:
            check(each.error_code, f"adding partitions to topic {each.name}", each.error_message)

    async def describe_cluster(self) -> DescribeClusterResponse:
        """The cluster id, the brokers, the controller."""

        async def attempt() -> DescribeClusterResponse:
            response: DescribeClusterResponse = await self._client.request(
                ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest()
            )
            check(response.error_code, "describing the cluster", response.error_message)
            return response

        return await self._client.retry(attempt)

    async def topics(self, names: Sequence[str] | None = None) -> ClusterMetadata:
        """Brokers and topics as they are now; None is every topic, internal ones too."""
        return await self._client.retry(lambda: self._client.fetch_metadata(names))

    async def describe_configs(
        self,
        resource: str,
        *,
        kind: ConfigResourceType = ConfigResourceType.TOPIC,
        keys: Iterable[str] | None = None,
        documentation: bool = False,
    ) -> dict[str, DescribeConfigsResourceResult]:
        """The settings of a topic, or of a broker by its id, by name; all of them unless `keys` are given."""
        asked = DescribeConfigsResource(kind, resource, None if keys is None else tuple(keys))
        request = DescribeConfigsRequest((asked,), include_synonyms=True, include_documentation=documentation)
        node = _owner(kind, resource)

        async def attempt() -> dict[str, DescribeConfigsResourceResult]:
            response: DescribeConfigsResponse = await self._client.request(ApiKey.DESCRIBE_CONFIGS, request, node=node)
            for each in response.results:
                check(each.error_code, f"describing the settings of {_named(kind, resource)}", each.error_message)
            return {setting.name: setting for each in response.results for setting in each.configs}

        return await self._client.retry(attempt)

    async def alter_configs(
        self,
        resource: str,
        changes: Mapping[str, str | None],
        *,
        kind: ConfigResourceType = ConfigResourceType.TOPIC,
        validate_only: bool = False,
    ) -> None:
        """Set single settings, or with None put them back to their default. Raises BrokerError."""
        altered = tuple(
            AlterableConfig(name, _DELETE if value is None else _SET, value) for name, value in changes.items()
        )
        request = IncrementalAlterConfigsRequest((AlterConfigsResource(kind, resource, altered),), validate_only)
        key, node = ApiKey.INCREMENTAL_ALTER_CONFIGS, _owner(kind, resource)
        response: IncrementalAlterConfigsResponse = await (
            self._call_controller(key, request) if node is None else self._client.request(key, request, node=node)
        )
        for each in response.responses:
            check(each.error_code, f"changing the settings of {_named(kind, resource)}", each.error_message)

    async def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records before an offset, -1 for all that are settled; returns where the log starts now."""
        asked = DeleteRecordsTopic(partition.topic, (DeleteRecordsPartition(partition.partition, before),))
        request = DeleteRecordsRequest((asked,), ADMIN_TIMEOUT_MS)

        async def attempt() -> int:
            node = await self._client.leader(partition)
            response: DeleteRecordsResponse = await self._client.request(ApiKey.DELETE_RECORDS, request, node=node)
            low_watermark = -1
            for topic in response.topics:
                for each in topic.partitions:
                    check(each.error_code, f"deleting records of {partition}")
                    low_watermark = each.low_watermark
            return low_watermark

        return await self._client.retry(attempt)

    async def _call_controller(self, key: ApiKey, message: Message) -> Any:
        controller = (await self._client.retry(self._client.metadata)).controller_id
        return await self._client.request(key, message, node=controller if controller >= 0 else None)


def _named(kind: ConfigResourceType, resource: str) -> str:
    """A resource in words: a broker's number alone says nothing, and what all brokers share has no name."""
    if kind is ConfigResourceType.BROKER:
        return f"broker {resource}" if resource else "all brokers"
    return f"the loggers of broker {resource}" if kind is ConfigResourceType.BROKER_LOGGER else resource


def _owner(kind: ConfigResourceType, resource: str) -> int | None:
    """The broker that alone knows the settings of a resource; None where any does."""
    return int(resource) if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource else None
