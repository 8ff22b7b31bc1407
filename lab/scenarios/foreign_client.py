"""Acts of others at the broker of a scenario, by our own client: an operator's, a foreign producer's."""

import asyncio
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.client.transactions import TransactionAdmin
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.scenarios.scenario import OWN
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.compression import Compression

VALUE: Final = b'{"id": "of-an-aborted-transaction"}'


def abort_hanging(eosin: BrokerApi, topic: str, partition: int) -> int:
    """End the transactions that hang in a partition, as `eosin transactions abort` does; returns how many there were.
    Raises LabError."""
    return asyncio.run(_abort_hanging(eosin.bootstrap, TopicPartition(topic, partition)))


async def _abort_hanging(bootstrap: str, partition: TopicPartition) -> int:
    async with Client(bootstrap, client_id=OWN) as client:
        operator = TransactionAdmin(client)
        try:
            found = [each for each in await operator.producers(partition) if each.current_txn_start_offset >= 0]
            for each in found:
                await operator.abort(
                    partition,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    coordinator_epoch=each.coordinator_epoch,
                )
        except ClientError as error:
            raise LabError(str(error)) from None
    return len(found)


def abort_in_every_compression(eosin: BrokerApi, topic: str, partition: int) -> tuple[str, ...]:
    """Write a batch in each compression, each in a transaction that is aborted; the names of those that this machine
    has. Raises LabError."""
    return asyncio.run(_abort_in_every_compression(eosin.bootstrap, TopicPartition(topic, partition)))


async def _abort_in_every_compression(bootstrap: str, partition: TopicPartition) -> tuple[str, ...]:
    written = []
    async with Client(bootstrap, client_id=OWN) as client:
        for each in Compression:
            producer = Producer(client, f"{OWN}-{each.config_name}", compression=each)
            try:
                await producer.init()
                producer.begin()
                await producer.send(partition, [NewRecord(b"aborted", VALUE)] * 3)
                await producer.abort()
            except ImportError:  # its library is not installed
                continue
            except ClientError as error:
                raise LabError(str(error)) from None
            written.append(each.config_name)
    return tuple(written)
