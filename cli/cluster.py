"""`eosin cluster describe`: the brokers of a cluster, its partitions and their replicas, or who coordinates an id.

Works with every broker that serves DescribeCluster: Apache Kafka does since 2.8, and tells of fenced brokers since 4.0.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from eosin.cli.common.arguments import Parser, completed_by, fail
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_rows
from eosin.client.client import Client, CoordinatorType
from eosin.client.cluster import NOBODY, BrokerInfo, ClusterAdmin, ClusterState, PartitionReplicas
from eosin.client.errors import BrokerError
from eosin.coordinator.hashing import partition_for
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

_COMMAND: Final = "cluster describe"

_BROKERS: Final = {
    "node_id": "NODE ID",
    "address": "ADDRESS",
    "rack": "RACK",
    "state": "STATE",
    "leads": "LEADS",
    "replicas": "REPLICAS",
    "out_of_sync": "OUT OF SYNC",
    "without_leader": "NO LEADER",
    "lag": "LAG",
    "metadata_lag": "METADATA LAG",
}
_PARTITIONS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "state": "STATE",
    "leader": "LEADER",
    "leader_epoch": "EPOCH",
    "replicas": "REPLICAS",
    "in_sync": "IN SYNC",
    "lag": "LAG",
    "log_end": "LOG END",
}
_COORDINATOR: Final = {
    "type": "TYPE",
    "id": "ID",
    "coordinator": "COORDINATOR",
    "address": "ADDRESS",
    **_PARTITIONS,
}
_TOPICS: Final = {
    CoordinatorType.GROUP: CONSUMER_OFFSETS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    of_partitions = options.partitions or options.under_replicated or options.topic is not None
    coordinators = [
        (kind, name)
        for kind, name in (
            (CoordinatorType.TRANSACTION, options.transactional_id),
            (CoordinatorType.GROUP, options.group),
        )
        if name is not None
    ]
    if coordinators and of_partitions:
        return fail(_COMMAND, "ask for partitions or for the coordinator of an id, not for both")
    if coordinators:
        return print_rows(_COMMAND, lambda client: _coordinators(client, coordinators), options, _COORDINATOR)
    if of_partitions:
        return print_rows(_COMMAND, lambda client: _partitions(client, options), options, _PARTITIONS)
    return print_rows(_COMMAND, _brokers, options, _BROKERS)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin cluster",
        description="Show the brokers and the replicas of a cluster.",
        examples=["eosin cluster describe", "eosin cluster describe --partitions --under-replicated"],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="describe")
    describing = actions.add_parser(
        "describe",
        help="brokers, partitions or coordinators",
        description="Show the brokers of a cluster.",
        examples=[
            "eosin cluster describe",
            "eosin cluster describe --topic orders",
            "eosin cluster describe --group readers",
        ],
    )
    describing.add_argument("--partitions", action="store_true", help="its partitions instead")
    completed_by("topic", describing.add_argument("--topic", metavar="TOPIC", help="the partitions of this topic only"))
    describing.add_argument(
        "--under-replicated", action="store_true", help="only partitions that have not all their replicas in sync"
    )
    describing.add_argument("--transactional-id", metavar="ID", help="who coordinates this transactional id")
    describing.add_argument("--group", metavar="ID", help="who coordinates this group")
    add_common(describing)
    return options


async def _brokers(client: Client) -> Sequence[Row]:
    return broker_rows(await ClusterAdmin(client).describe())


async def _partitions(client: Client, options: Namespace) -> Sequence[Row]:
    found = await _described(client, options.topic)
    return [partition_row(each) for each in found.partitions if not options.under_replicated or each.state != "ok"]


async def _coordinators(client: Client, wanted: Sequence[tuple[CoordinatorType, str]]) -> Sequence[Row]:
    rows = []
    for kind, name in wanted:
        try:
            found = await _described(client, _TOPICS[kind])
        except NotThere as error:
            raise NotThere(f"nobody coordinates {name!r} yet: {error}") from None
        partition = found.partitions[partition_for(name, len(found.partitions))]
        try:
            node_id = await client.coordinator(kind, name)
        except BrokerError as error:
            if not error.retriable:
                raise
            node_id = -1  # nobody leads the partition, or its coordinator is still loading
        addresses = {each.node_id: f"{each.host}:{each.port}" for each in found.brokers}
        rows.append(
            {
                "type": kind.name.lower(),
                "id": name,
                "coordinator": node_id,
                "address": addresses.get(node_id),
                **partition_row(partition),
            }
        )
    return rows


async def _described(client: Client, topic: str | None) -> ClusterState:
    try:
        return await ClusterAdmin(client).describe(None if topic is None else [topic])
    except BrokerError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such("topic", topic or "") from None
        raise


# How it is shown ----------------------------------------------------------------------------------------------------


def broker_rows(found: ClusterState) -> list[Row]:
    """A row for each broker: what it leads and holds, and how far it is behind where it follows. One that is not
    registered any more has a row as long as replicas are placed on it."""
    registered = {each.node_id: each for each in found.brokers}
    placed = {node for each in found.partitions for node in each.replicas}
    return [
        {
            "node_id": node_id,
            **_identity(registered.get(node_id)),
            **_work(node_id, found.partitions),
            "metadata_lag": registered[node_id].metadata_lag if node_id in registered else None,
        }
        for node_id in sorted(registered.keys() | placed)
    ]


def _identity(broker: BrokerInfo | None) -> Row:
    if broker is None:
        return {"address": None, "rack": None, "state": "unregistered"}
    state = "fenced" if broker.is_fenced else "silent" if broker.is_silent else "alive"
    return {"address": f"{broker.host}:{broker.port}", "rack": broker.rack, "state": state}


def _work(node_id: int, partitions: Sequence[PartitionReplicas]) -> Row:
    held = [each for each in partitions if node_id in each.replicas]
    known = [each.lags[node_id] for each in held if node_id in each.lags]
    follows = any(each.leader != node_id for each in held)
    return {
        "leads": sum(each.leader == node_id for each in held),
        "replicas": len(held),
        "out_of_sync": sum(node_id not in each.in_sync for each in held),
        "without_leader": sum(each.leader == NOBODY for each in held),
        "lag": max(known) if known else None if follows else 0,
    }


def partition_row(found: PartitionReplicas) -> Row:
    """A partition as the command shows it."""
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "state": found.state,
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "replicas": list(found.replicas),
        "in_sync": list(found.in_sync),
        "lag": {str(node): lag for node, lag in found.lags.items()},
        "log_end": {str(node): end for node, end in found.log_ends.items()},
    }
