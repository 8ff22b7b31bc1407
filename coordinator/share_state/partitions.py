"""The partition of `__share_group_state` that keeps a share partition's state."""

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_state.state import SharePartition
from eosin.protocol.names import uuid_text


def coordinator_key(partition: SharePartition) -> str:
    """The key by which FindCoordinator asks for the coordinator of a share partition: `group:topic id:partition`."""
    return f"{partition.group_id}:{uuid_text(partition.topic_id)}:{partition.partition}"


def state_partition(partition: SharePartition, count: int) -> int:
    """The partition of `__share_group_state`, of `count`, that keeps the state of a share partition."""
    return partition_for(coordinator_key(partition), count)
