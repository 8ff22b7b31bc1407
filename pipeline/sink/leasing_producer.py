"""A producer that shares its identity and partitions with others: it holds a lease while it sends a batch.

Always true: the batches of a partition are sent one after the other, also by different tasks, with consecutive sequence
numbers.
"""

from collections.abc import Callable

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.sink.lease_client import Leases
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import next_sequence


class LeasingProducer(Producer):
    """One of several producers with one identity that may write to the same partitions. Start it with `act_as`."""

    def __init__(
        self, client: Client, transactional_id: str, leases: Leases, *, transaction_version: int | None = None
    ) -> None:
        """All producers with this identity get their leases from one driver, for one topic."""
        super().__init__(client, transactional_id, transaction_version=transaction_version)
        self._leases = leases

    async def send_built(
        self,
        partition: TopicPartition,
        build: Callable[..., bytearray],
        count: int,
        identity: ProducerIdAndEpoch | None = None,
        base_sequence: int | None = None,
    ) -> int:
        """Like `Producer.send_built`, with the sequence number of the lease. `base_sequence` is ignored."""
        async with self._leases.held(partition.partition) as lease:
            offset = await super().send_built(partition, build, count, identity, lease.sequence)
            lease.sequence = next_sequence(lease.sequence, count)
            return offset
