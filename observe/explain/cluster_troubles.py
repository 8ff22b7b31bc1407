"""Search a running cluster for what is wrong now: over Kafka's APIs, and over HTTP from brokers with a flight recorder
(console.md 3).

Always true: it asks for at most `MOST_PARTITIONS` partitions and `MOST_GROUPS` groups, and tells what it left out.
"""

from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.client.groups import GroupAdmin
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.facts import PartitionFacts
from eosin.observe.explain.troubles import ClusterTroubles, StuckGroup
from eosin.protocol.names import IsolationLevel, TopicPartition

MOST_PARTITIONS: Final = 10_000
MOST_HELD: Final = 20
"""Partitions whose readers wait that are asked about, those with most records behind first."""
MOST_GROUPS: Final = 200
_STABLE: Final = "Stable"


class TroubleSearch:
    """Searches one cluster."""

    def __init__(self, client: Client, cluster: ClusterFacts) -> None:
        self._client = client
        self._cluster = cluster
        self._untold: list[str] = []
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    async def run(self) -> ClusterTroubles:
        """Ask once. Raises ClientError where no broker can be asked."""
        self._untold.clear()
        leaderless, led = await self._partitions()
        held = await self._held(led)
        groups = await self._groups()
        brokers, silent = await self._cluster.troubles()
        if silent:
            named = ", ".join(map(str, silent))
            of = f"broker {named}" if len(silent) == 1 else f"brokers {named}"
            self._untold.append(
                f"fences, dead clients and full disks of {of} are not told: only an Eosin that is started with --http"
                " records them"
            )
        return ClusterTroubles(
            self._cluster.now_ms(),
            tuple(map(str, leaderless)),
            tuple(held),
            tuple(groups),
            tuple(brokers),
            tuple(self._untold),
        )

    async def _partitions(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions without a leader, and those with one, of clients' topics."""
        leaderless, led = [], []
        for topic in (await Admin(self._client).topics()).topics.values():
            for index, partition in sorted(topic.partitions.items()):
                each = TopicPartition(topic.name, index)
                if partition.leader < 0:
                    leaderless.append(each)
                elif not topic.is_internal:
                    led.append(each)
        if len(led) > MOST_PARTITIONS:
            self._untold.append(f"{len(led) - MOST_PARTITIONS:,} partitions were not asked about")
        return leaderless, led[:MOST_PARTITIONS]

    async def _held(self, led: list[TopicPartition]) -> list[PartitionFacts]:
        """The partitions whose readers of committed records wait."""
        if not led:
            return []
        try:
            self._starts = await list_offsets(self._client, dict.fromkeys(led, EARLIEST))
            stable = await list_offsets(
                self._client, dict.fromkeys(led, LATEST), isolation=IsolationLevel.READ_COMMITTED
            )
            self._ends = await list_offsets(self._client, dict.fromkeys(led, LATEST))
        except BrokerError as error:
            self._untold.append(f"where readers stand is not told: {error}")
            return []
        behind = {each: self._ends[each] - stable[each] for each in led if self._ends[each] > stable[each]}
        worst = sorted(behind, key=lambda each: (-behind[each], each))[:MOST_HELD]
        if len(behind) > MOST_HELD:
            self._untold.append(f"readers wait in {len(behind):,} partitions; the {MOST_HELD} worst were asked about")
        found = []
        for each in worst:
            try:
                found.append(await self._cluster.partition(each))
            except BrokerError as error:
                self._untold.append(f"why readers of {each} wait is not told: {error}")
        return found

    async def _groups(self) -> list[StuckGroup]:
        """Groups whose members have partitions with records, and that have committed nothing for them."""
        admin = GroupAdmin(self._client)
        try:
            listed = await admin.list_groups()
        except BrokerError as error:
            self._untold.append(f"groups are not told: {error}")
            return []
        if len(listed) > MOST_GROUPS:
            self._untold.append(f"{len(listed) - MOST_GROUPS:,} groups were not asked about")
        found = []
        for each in listed[:MOST_GROUPS]:
            try:
                group = await admin.describe(each.group_id)
                assigned = {partition for member in group.members for partition in member.partitions}
                if group.state != _STABLE or not assigned:
                    continue
                committed = await admin.offsets(each.group_id)
            except ClientError as error:
                self._untold.append(f"group {each.group_id} is not told: {error}")
                continue
            unread = [
                self._ends[partition] - self._starts[partition]
                for partition in sorted(assigned)
                if partition not in committed and self._ends.get(partition, 0) > self._starts.get(partition, 0)
            ]
            if unread:
                found.append(StuckGroup(each.group_id, len(unread), sum(unread)))
        return found
