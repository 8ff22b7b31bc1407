"""The operations that a client may do, as the sets of bits of KIP-430. Without an authorizer: all that the resource
knows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from eosin.security.session import Session

NOT_ASKED: Final = -(2**31)
"""The answer when the client did not ask."""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


ON_A_TOPIC: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
ON_A_GROUP: Final = _bits(
    Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
)
ON_THE_CLUSTER: Final = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
OF_RESOURCE: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: ON_A_TOPIC,
    ResourceType.GROUP: ON_A_GROUP,
    ResourceType.CLUSTER: ON_THE_CLUSTER,
}
"""The kinds of resources that responses tell operations of."""


def cluster_operations(session: "Session") -> int:
    """The operations that a client may do on the cluster; none are shown unless it may describe the cluster
    (security.md 4.7.4)."""
    if not session.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        return 0
    return session.operations(ResourceType.CLUSTER, CLUSTER_NAME)
