"""The rights that requests about settings ask for: they follow the kind of resource (security.md 4.6)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import Outcome
from eosin.model.config_resources import ConfigResourceType
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.security.access import DENIED, Right, on_each

if TYPE_CHECKING:
    from eosin.network.api import RequestContext

_KINDS: Final[Mapping[int, ResourceType]] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""What a right is about, by what the settings are of."""


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
