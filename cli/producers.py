"""`eosin producers TOPIC PARTITION`: the producers that the leader of a partition knows (KIP-664).

Works with every broker that serves DescribeProducers: Apache Kafka does since 2.8.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eosin.cli.common.arguments import Parser, completed_by
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_rows
from eosin.client.client import Client
from eosin.client.transactions import TransactionAdmin
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_producers import ProducerState

COLUMNS: Final = {
    "producer_id": "PRODUCER ID",
    "producer_epoch": "EPOCH",
    "coordinator_epoch": "COORDINATOR EPOCH",
    "last_sequence": "LAST SEQUENCE",
    "last_timestamp": "LAST TIMESTAMP",
    "transaction_start_offset": "TRANSACTION START",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    partition = TopicPartition(options.topic, options.partition)

    async def question(client: Client) -> Sequence[Row]:
        await require(client, partition)
        found = await TransactionAdmin(client).producers(partition)
        return [row(each) for each in sorted(found, key=lambda each: each.producer_id)]

    return print_rows("producers", question, options, COLUMNS)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin producers",
        description="Show the producers that a partition knows.",
        examples=["eosin producers orders 0"],
    )
    completed_by("topic", options.add_argument("topic", metavar="TOPIC"))
    options.add_argument("partition", type=int, metavar="PARTITION")
    add_common(options)
    return options


def row(producer: ProducerState) -> Mapping[str, Any]:
    """A producer as this command and those about transactions show it; -1 is none."""
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "transaction_start_offset": producer.current_txn_start_offset,
    }


async def require(client: Client, partition: TopicPartition) -> None:
    """Raise NotThere unless the partition exists now: what does not is not waited for."""
    topic = (await client.fetch_metadata([partition.topic])).topics.get(partition.topic)
    if topic is None or (topic.error and not topic.partitions):
        raise no_such("topic", partition.topic)
    if partition.partition not in topic.partitions:
        raise NotThere(f"topic {partition.topic!r} has no partition {partition.partition}")
