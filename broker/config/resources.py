"""What a config request can be about, and which broker a resource name means."""

from typing import Final

from eosin.model.cluster import Cluster, Outcome
from eosin.model.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode

NO_BROKER: Final = Outcome(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
NO_GROUP_SETTINGS: Final = (
    "Eosin has no settings of groups: Kafka's are those of the new group protocols, which are not served"
)


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
