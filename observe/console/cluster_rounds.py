"""`ClusterRounds`: reads any Kafka cluster into the console's tables, over Kafka's protocol alone (console.md 5).

Always true: it changes nothing in the cluster; a cluster that does not answer leaves the tables as they were, and is
told of in the row of the whole.
"""

from typing import Any, Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError, UnsupportedVersion
from eosin.observe.console.cluster_groups import ClusterGroups
from eosin.observe.console.cluster_partitions import ClusterPartitions, SurveyedPartitions
from eosin.observe.console.cluster_transactions import ClusterTransactions, IdCounts
from eosin.observe.console.rounds import MOST_NODES, TABLES, BrokerRow, NodeSeen
from eosin.observe.console.tables import KeptRows, Table
from eosin.observe.recorder.events import NO_TIME
from eosin.runtime.clock import Clock
from eosin.runtime.version import VERSION

SHORTEST_MS: Final = 2000
"""The pause between rounds: they are requests to brokers that have other work."""


class ClusterRounds:
    """Reads one cluster into tables, again and again."""

    def __init__(self, client: Client, clock: Clock, *, bootstrap: str) -> None:
        self.version = 0
        self.tables: dict[str, Table[Any]] = {name: Table() for name in TABLES}
        kept = {name: KeptRows(table) for name, table in self.tables.items()}
        self.transactions: Final = ClusterTransactions(client, kept["transactions"])
        self.partitions: Final = ClusterPartitions(
            client, kept["partitions"], self.transactions.described, clock.now_ms
        )
        self.groups: Final = ClusterGroups(client, kept["groups"])
        self._whole = kept["broker"]
        self._bootstrap = bootstrap
        self._ids = IdCounts(0, 0, 0, NO_TIME)
        self._partitions = SurveyedPartitions(0, 0, 0, 0)

    async def round(self) -> None:
        """Look at everything once."""
        version, troubles = self.version + 1, []
        try:
            try:
                self._ids = await self.transactions.round(version)
            except (BrokerError, UnsupportedVersion) as error:  # the partitions and groups may be told all the same
                troubles.append(str(error))
            self._partitions = await self.partitions.round(version)
            await self.groups.round(version, self.partitions.offsets)
        except ClientError as error:
            troubles.append(str(error))
        self._whole.put_all({"broker": self._row("; ".join(troubles))}, version)
        self.version = version

    def _row(self, trouble: str) -> BrokerRow:
        ids, partitions, metadata = self._ids, self._partitions, self.partitions.metadata
        return BrokerRow(
            "broker",
            VERSION,
            metadata.controller_id,
            metadata.cluster_id or "",
            durability="",
            has_actions=False,
            ids=ids.ids,
            open=ids.open,
            preparing=ids.preparing,
            oldest_ms=ids.oldest_ms,
            partitions=partitions.all,
            held=partitions.held,
            offline=partitions.leaderless,
            groups=len(self.tables["groups"]),
            ids_left_out=self.transactions.left_out,
            partitions_left_out=partitions.left_out,
            is_joined=False,
            address=self._bootstrap,
            cluster=self._bootstrap,
            brokers=len(metadata.brokers),
            nodes=tuple(NodeSeen(node, str(at)) for node, at in sorted(metadata.brokers.items())[:MOST_NODES]),
            trouble=trouble,
        )
