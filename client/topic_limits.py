"""The largest batch that a topic takes, for who may know it.

Always true: only who may read settings asks for this one. A producer needs no right to it, and every start of one would
be a denial in the broker's log.
"""

from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError, UnsupportedVersion

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_DESCRIBE_CONFIGS: Final = 1 << 10
"""The right in the set of bits that a broker tells with a topic: one bit for each of Kafka's `AclOperation`s."""


async def largest_batch(client: Client, topic: str) -> int | None:
    """`max.message.bytes` of a topic; None where it is not told. Raises a ClientError if no broker answers."""
    try:
        described = await client.retry(lambda: client.fetch_metadata([topic], with_operations=True))
        operations = described.topic(topic).operations
        if operations is not None and not operations & _DESCRIBE_CONFIGS:
            return None
        found = (await Admin(client).describe_configs(topic, keys=[MAX_MESSAGE_BYTES])).get(MAX_MESSAGE_BYTES)
    except (BrokerError, UnsupportedVersion):
        return None
    return int(found.value) if found is not None and found.value else None
