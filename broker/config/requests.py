"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is changed on its own, all or nothing."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from eosin.broker.config.loggers import change_levels
from eosin.broker.config.resources import NO_BROKER, NO_GROUP_SETTINGS, ResourceType, broker_of, unsupported
from eosin.broker.metadata.cluster import Cluster, ConfigChange, Outcome
from eosin.protocol.errors import ErrorCode


class ResourceChange(NamedTuple):
    """The changes asked for one resource."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


async def alter(
    resources: Sequence[ResourceChange], cluster: Cluster, *, replace: bool, validate_only: bool
) -> list[Outcome]:
    """Change the resources side by side. One outcome each; a resource that is named twice is refused each time."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    return await asyncio.gather(
        *(
            _alter(
                each,
                cluster,
                replace=replace,
                validate_only=validate_only,
                named_twice=times[each.resource_type, each.resource_name] > 1,
            )
            for each in resources
        )
    )


async def _alter(
    resource: ResourceChange, cluster: Cluster, *, replace: bool, validate_only: bool, named_twice: bool
) -> Outcome:
    name, changes = resource.resource_name, resource.changes
    if named_twice:
        return Outcome(ErrorCode.INVALID_REQUEST, "A resource is named twice")
    match resource.resource_type:
        case ResourceType.TOPIC:
            if not name:
                return Outcome(ErrorCode.INVALID_REQUEST, "A topic is changed by its name, which is empty")
            return await cluster.alter_topic_configs(name, changes, replace=replace, validate_only=validate_only)
        case ResourceType.BROKER:
            node_id = broker_of(name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            return await cluster.alter_broker_configs(node_id, changes, replace=replace, validate_only=validate_only)
        case ResourceType.BROKER_LOGGER if not replace:  # KIP-412: never by AlterConfigs
            node_id = broker_of(name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            if node_id is None:
                return NO_BROKER
            return change_levels(changes, validate_only=validate_only)
        case ResourceType.GROUP if name:
            if not changes:
                return Outcome(ErrorCode.NONE)
            return Outcome(ErrorCode.INVALID_CONFIG, NO_GROUP_SETTINGS)
        case _:
            return unsupported(resource.resource_type)
