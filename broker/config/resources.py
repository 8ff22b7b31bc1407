"""The subject of a config request, the broker that a resource name means, and the rights that it asks for: they follow
the kind of resource (security.md 4.6)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import Cluster, Outcome
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.security.access import DENIED, Right, on_each

if TYPE_CHECKING:
    from eosin.network.api import RequestContext

NO_BROKER: Final = Outcome(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
NO_GROUP: Final = Outcome(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
_KINDS: Final[Mapping[int, ResourceType]] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""The subject of a right, by the kind of resource that the settings are of."""


def broker_of(resource_name: str, cluster: Cluster) -> int | Outcome | None:
    """The node id that a BROKER resource names, None for all brokers (an empty name), or why it names nobody."""
    if not resource_name:
        return None
    if resource_name != str(cluster.node_id):
        return Outcome(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id: this is broker {cluster.node_id} (empty means all brokers), not {resource_name!r}",
        )
    return cluster.node_id


def unsupported(resource_type: int) -> Outcome:
    """The answer about a resource that has no settings here."""
    known = {each.value: each.name for each in ConfigResourceType}
    return Outcome(
        ErrorCode.INVALID_REQUEST, f"Eosin has no settings of type {known.get(resource_type, resource_type)}"
    )


def config_rights(operation: Operation) -> tuple[Right, ...]:
    """The rights as an API declares them."""
    return (
        on_each(operation, ResourceType.CLUSTER, "of brokers, loggers and client metrics"),
        on_each(operation, ResourceType.TOPIC, "of topics"),
        on_each(operation, ResourceType.GROUP, "of groups"),
    )


def refusal_of(operation: Operation, resource_type: int, name: str, context: "RequestContext") -> Outcome | None:
    """The refusal of a client without the right to a resource's settings; None for one that has it."""
    kind = _KINDS.get(resource_type)
    if kind is None:
        return None  # it is refused, whoever asks
    named = CLUSTER_NAME if kind is ResourceType.CLUSTER else name
    return None if context.session.may(operation, kind, named) else Outcome(DENIED[kind])
