"""The largest batch that each topic takes (`max.message.bytes`).

Always true: a topic is asked once, so a setting that was changed counts from the query's next start on, or once the
topic was created anew; and what is too large for a topic is an error that names the setting.
"""

from collections.abc import Mapping
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.topic_limits import MAX_MESSAGE_BYTES, largest_batch
from eosin.pipeline.common.errors import BadRows
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import HEADER_BYTES, iter_records

_SHOWN_OF_A_KEY: Final = 60


class BatchLimits:
    """The limits of some topics."""

    def __init__(self, client: Client | None = None, known: Mapping[str, int | None] | None = None) -> None:
        """`known` has topics that were asked before. Without a client, the others have no limit that is known."""
        self._client = client
        self._limits = dict(known or {})

    async def of(self, topic: str) -> int | None:
        """The most bytes in one batch; None where it is not told."""
        if topic not in self._limits:
            self._limits[topic] = None if self._client is None else await largest_batch(self._client, topic)
        return self._limits[topic]

    def forget(self, topic: str) -> None:
        """Ask anew when the limit is next needed."""
        self._limits.pop(topic, None)

    async def room(self, topic: str, at_most: int) -> int:
        """The most bytes of records in one batch, and no more than `at_most`."""
        limit = await self.of(topic)
        return at_most if limit is None else min(at_most, max(limit - HEADER_BYTES, 1))

    def check(self, topic: str, batch: bytearray) -> None:
        """Raise BadRows for a batch that a topic, which was asked, does not take: it has a row that is too large."""
        limit = self._limits.get(topic)
        if limit is not None and len(batch) > limit:
            row = max(iter_records(batch), key=lambda each: len(each.key or b"") + len(each.value or b""))
            key = None if row.key is None else row.key[:_SHOWN_OF_A_KEY]
            raise BadRows(
                f"a row with key {key!r} makes a batch of {len(batch):,} bytes, and topic {topic} takes {limit:,}"
                f" ({MAX_MESSAGE_BYTES}): raise that, or leave the row out"
            )


def refused_for_its_size(error: BrokerError, partition: TopicPartition) -> BrokerError:
    """A broker's MESSAGE_TOO_LARGE with the name of the setting, which not every broker tells."""
    said = f"{MAX_MESSAGE_BYTES} of topic {partition.topic} allows no batch as large as this one"
    said += f": {error.message}" if error.message else ""
    return BrokerError(error.code, f"appending to {partition}", said)
