"""`share_partition_of`: the share partition that FindCoordinator asks for (KIP-932)."""

from typing import Final

from eosin.coordinator.share_states import SharePartition
from eosin.protocol.names import uuid_from_text, uuid_text

_LARGEST: Final = 2**31 - 1
_MOST_DIGITS: Final = len(str(_LARGEST))


def share_partition_of(key: str) -> SharePartition | None:
    """The share partition of a key `group:topic id:partition`, where a group's name may have colons, too; None for any
    other text."""
    group_id, _, rest = key.rpartition(":")
    group_id, _, topic = group_id.rpartition(":")
    if not group_id.strip() or not rest.isdecimal() or not rest.isascii():
        return None
    if len(rest) > _MOST_DIGITS or int(rest) > _LARGEST:  # Python refuses to count thousands of digits
        return None
    try:
        topic_id = uuid_from_text(topic)
    except ValueError:
        return None
    return SharePartition(group_id, topic_id, int(rest)) if uuid_text(topic_id) == topic else None
