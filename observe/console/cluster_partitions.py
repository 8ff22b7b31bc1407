"""`ClusterPartitions`: the partitions of a whole cluster, their offsets, and who holds their readers back, over Kafka's
protocol.

Always true: a transaction is only called hanging when it was open, and its coordinator without it, in two rounds: one
may begin or end while its coordinator is asked.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.metadata import ClusterMetadata, PartitionInfo
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.client.partition_offsets import PartitionOffsets
from eosin.client.transactions import DescribedTransaction, OpenTransaction, TransactionAdmin, will_end
from eosin.observe.console.rounds import MOST_PARTITIONS
from eosin.observe.console.rows import PartitionRow
from eosin.observe.console.tables import KeptRows
from eosin.observe.recorder.events import NO_TIME
from eosin.protocol.names import IsolationLevel, TopicPartition

MOST_HELD: Final = 100
"""Partitions whose readers wait that are asked for their producers in one round."""
NO_LEADER: Final = "it has no leader"
NOT_TOLD: Final = "not_told"
"""The cause where this user may not know it."""
_PREPARING: Final = "Prepare"


class ReadersHeld(NamedTuple):
    """The reason why readers wait."""

    name: str
    """The transactional id, or `producer N` where no coordinator will end what is open."""
    cause: str
    """As `eosin explain` names it; empty while it is not known."""
    since_ms: int = NO_TIME
    open: int = 0
    """Transactions that are open there."""


class SurveyedPartitions(NamedTuple):
    """The sums over a cluster's partitions."""

    all: int
    held: int
    leaderless: int
    left_out: int


class ClusterPartitions:
    """Reads the partitions of one cluster."""

    def __init__(
        self,
        client: Client,
        rows: KeptRows[str],
        described: Callable[[int], DescribedTransaction | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`described` is what the coordinator of a producer id has told in this round."""
        self._client = client
        self._rows = rows
        self._described = described
        self._now_ms = now_ms
        self.metadata = ClusterMetadata(None, -1, {}, {})
        """Of the last round."""
        self.offsets: dict[TopicPartition, PartitionOffsets] = {}
        """Of the last round, of partitions that have a leader."""
        self._suspects: frozenset[tuple[TopicPartition, int, int]] = frozenset()
        """Of the last round: a partition, the producer and the first offset of what no coordinator will end there."""
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        """The offsets at which readers are held, and the times since then."""

    async def round(self, version: int) -> SurveyedPartitions:
        """Look once, and count. Raises ClientError."""
        self.metadata = await Admin(self._client).topics()
        infos = {
            TopicPartition(topic.name, index): (info, topic.is_internal)
            for topic in self.metadata.topics.values()
            for index, info in topic.partitions.items()
        }
        shown = sorted(infos)[:MOST_PARTITIONS]
        led = [each for each in shown if infos[each][0].leader >= 0]
        # The end first: what is committed between the two questions holds nobody back.
        ends = await list_offsets(self._client, dict.fromkeys(led, LATEST))
        stable = await list_offsets(self._client, dict.fromkeys(led, LATEST), isolation=IsolationLevel.READ_COMMITTED)
        starts = await list_offsets(self._client, dict.fromkeys(led, EARLIEST))
        self.offsets = {each: PartitionOffsets(starts[each], min(stable[each], ends[each]), ends[each]) for each in led}
        held = [each for each, at in self.offsets.items() if at.last_stable < at.high_watermark]
        self._held = {each: self._held[each] for each in held if each in self._held}
        holders = await self._holders(held[:MOST_HELD])
        self._rows.put_all(
            {str(each): self._row(each, *infos[each], holder=holders.get(each)) for each in shown},
            version,
        )
        return SurveyedPartitions(len(infos), len(held), len(shown) - len(led), len(infos) - len(shown))

    def _row(
        self, partition: TopicPartition, info: PartitionInfo, is_internal: bool, *, holder: ReadersHeld | None
    ) -> PartitionRow:
        at = self.offsets.get(partition)
        if at is None:
            return PartitionRow(str(partition), 0, 0, 0, 0, 0, is_internal, cause="offline", error=NO_LEADER)
        since_ms = NO_TIME if at.last_stable >= at.high_watermark else self._since_ms(partition, at, holder)
        return PartitionRow(
            str(partition),
            at.log_start,
            at.last_stable,
            at.high_watermark,
            at.high_watermark,
            0,
            is_internal,
            leader=info.leader,
            open=0 if holder is None else holder.open,
            held_since_ms=since_ms,
            held_by="" if holder is None else holder.name,
            cause="" if holder is None else holder.cause,
        )

    def _since_ms(self, partition: TopicPartition, at: PartitionOffsets, holder: ReadersHeld | None) -> int:
        if holder is not None and holder.since_ms >= 0:
            return holder.since_ms
        offset, since_ms = self._held.get(partition, (-1, 0))
        if offset != at.last_stable:
            since_ms = self._now_ms()
            self._held[partition] = at.last_stable, since_ms
        return since_ms

    async def _holders(self, held: list[TopicPartition]) -> dict[TopicPartition, ReadersHeld]:
        """The oldest transaction that is open in each partition."""
        admin = TransactionAdmin(self._client)
        try:
            found = await admin.open_transactions(held) if held else []
        except BrokerError:  # without READ on one of the topics
            return {each: ReadersHeld("", NOT_TOLD) for each in held}
        oldest: dict[TopicPartition, OpenTransaction] = {}
        count = Counter(each.partition for each in found)
        for each in found:
            oldest.setdefault(each.partition, each)
        holders = {
            each: holder_of(first, self._described(first.producer.producer_id)) for each, first in oldest.items()
        }
        suspects = {each: _identity(oldest[each]) for each, holder in holders.items() if not holder.cause}
        before, self._suspects = self._suspects, frozenset(suspects.values())
        again = [each for each, suspect in suspects.items() if suspect in before]
        if again:
            cause = "hanging" if await admin.sees_all_ids() else NOT_TOLD
            holders |= {each: holders[each]._replace(cause=cause) for each in again}
        return {each: holder._replace(open=count[each]) for each, holder in holders.items()}


def holder_of(transaction: OpenTransaction, known: DescribedTransaction | None) -> ReadersHeld:
    """The holder of readers by what its coordinator has told; without a cause if that will not end it."""
    if known is None or not will_end(transaction, known):
        return ReadersHeld(f"producer {transaction.producer.producer_id}", "")
    if known.state.startswith(_PREPARING):
        return ReadersHeld(known.transactional_id, "markers_pending", known.start_ms)
    cause = "prepared" if known.is_two_phase else "open_transaction"
    return ReadersHeld(known.transactional_id, cause, known.start_ms)


def _identity(transaction: OpenTransaction) -> tuple[TopicPartition, int, int]:
    return transaction.partition, transaction.producer.producer_id, transaction.start_offset
