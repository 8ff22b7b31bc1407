"""The common part of AlterConfigs and IncrementalAlterConfigs: each resource is changed on its own, all or nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from eosin.broker.config.loggers import change_levels
from eosin.broker.config.resources import NO_BROKER, NO_GROUP, broker_of, refusal_of, unsupported
from eosin.broker.config.store_reloads import is_store, reload_stores
from eosin.model.cluster import ConfigChange, Outcome
from eosin.model.resources import Operation
from eosin.network.many_items import done_for_each, made_for_each
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.network.api import RequestContext


class ResourceChange(NamedTuple):
    """The changes asked for one resource."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


async def alter(
    asked: Iterable[ResourceChange],
    count: int,
    context: "RequestContext",
    services: "Services",
    *,
    replace: bool,
    validate_only: bool,
) -> list[Outcome]:
    """Change the resources, of which there are `count`, side by side. One outcome each; a resource that is named twice
    is refused each time, and one whose settings the client may not change is left alone."""
    times: Counter[tuple[int, str]] = Counter()

    def counted() -> Iterator[ResourceChange]:
        for each in asked:
            times[each.resource_type, each.resource_name] += 1
            yield each

    resources = await made_for_each(counted(), count, context, services)
    return await done_for_each(
        resources,
        lambda each: _alter(
            each,
            context,
            services,
            replace=replace,
            validate_only=validate_only,
            named_twice=times[each.resource_type, each.resource_name] > 1,
        ),
    )


async def _alter(
    resource: ResourceChange,
    context: "RequestContext",
    services: "Services",
    *,
    replace: bool,
    validate_only: bool,
    named_twice: bool,
) -> Outcome:
    name, changes, cluster = resource.resource_name, resource.changes, services.cluster
    refused = refusal_of(Operation.ALTER_CONFIGS, resource.resource_type, name, context)
    if refused is not None:
        return refused
    if named_twice:
        return Outcome(ErrorCode.INVALID_REQUEST, "A resource is named twice")
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            if not name:
                return Outcome(ErrorCode.INVALID_REQUEST, "A topic is changed by its name, which is empty")
            return await cluster.alter_topic_configs(name, changes, replace=replace, validate_only=validate_only)
        case ConfigResourceType.BROKER:
            node_id = broker_of(name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            stores = [change for change in changes if is_store(change.name)]
            if stores and len(stores) < len(changes):
                return Outcome(ErrorCode.INVALID_REQUEST, "A store is loaded again by a request of its own")
            if stores:
                return await reload_stores(stores, services.config, services.reload_stores, validate_only=validate_only)
            return await cluster.alter_broker_configs(node_id, changes, replace=replace, validate_only=validate_only)
        case ConfigResourceType.BROKER_LOGGER if not replace:  # KIP-412: never by AlterConfigs
            node_id = broker_of(name, cluster)
            if isinstance(node_id, Outcome):
                return node_id
            if node_id is None:
                return NO_BROKER
            return change_levels(changes, validate_only=validate_only)
        case ConfigResourceType.GROUP:
            if not name:
                return NO_GROUP
            return await cluster.alter_group_configs(name, changes, replace=replace, validate_only=validate_only)
        case _:
            return unsupported(resource.resource_type)
