"""The partition of `__share_group_state` that keeps a share partition's state."""

from functools import lru_cache
from typing import Final

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_states import SharePartition
from eosin.protocol.names import uuid_text

_REMEMBERED: Final = 4_096
"""The same share partitions are asked for again and again, and Java's hash is a loop over the characters of a name."""
_REMEMBERED_CHARS: Final = 256
"""Of a longer group id nothing is remembered."""


def coordinator_key(partition: SharePartition) -> str:
    """The key by which FindCoordinator asks for the coordinator of a share partition: `group:topic id:partition`."""
    return f"{partition.group_id}:{uuid_text(partition.topic_id)}:{partition.partition}"


def state_partition(partition: SharePartition, count: int) -> int:
    """The partition of `__share_group_state`, of `count`, that keeps the state of a share partition."""
    remembers = len(partition.group_id) <= _REMEMBERED_CHARS
    return _remembered(partition, count) if remembers else _remembered.__wrapped__(partition, count)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(partition: SharePartition, count: int) -> int:
    return partition_for(coordinator_key(partition), count)
