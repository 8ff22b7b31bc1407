"""A producer that shares its identity and its partitions: it holds a lease while it sends a batch.

Always true: the batches of a partition are sent one after the other, whoever sends them, and their sequences are
consecutive.
"""

from collections.abc import Callable

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.sink.lease_client import Leases
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import next_sequence


class LeasingProducer(Producer):
    """One of several holders of an identity, who may write to the same partitions. To be started with `act_as`."""

    def __init__(
        self, client: Client, transactional_id: str, leases: Leases, *, transaction_version: int | None = None
    ) -> None:
        """All that share the identity have leases of one driver, for one topic."""
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
        """Like `Producer.send_built`, from the sequence of the lease on. `base_sequence` has no meaning here."""
        async with self._leases.held(partition.partition) as lease:
            offset = await super().send_built(partition, build, count, identity, lease.sequence)
            lease.sequence = next_sequence(lease.sequence, count)
            return offset
