"""`ClusterGroups`: the consumer groups of a whole cluster and what they have not read, over Kafka's protocol.

Always true: a round looks at `PER_ROUND` groups, and reads records to count them in at most `COUNTED_PER_ROUND`
partitions; a lag that was not counted is said to be at most so many offsets.
"""

from typing import Final, NamedTuple

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.groups import SHARE, GroupAdmin, GroupDescription
from eosin.client.partition_offsets import Between, OffsetAdmin, PartitionOffsets
from eosin.client.pending_offsets import pending_offsets
from eosin.client.share_groups import SharePosition, share_positions
from eosin.observe.console.group_rounds import MOST_GROUPS
from eosin.observe.console.rows import NAMED_MEMBERS, GroupRow, member_name
from eosin.observe.console.tables import KeptRows
from eosin.observe.explain.facts import GroupPartition
from eosin.observe.survey.group_positions import NOT_COUNTED, NOTHING_COMMITTED, behind
from eosin.protocol.names import TopicPartition

PER_ROUND: Final = 20
COUNTED_PER_ROUND: Final = 20


class GroupSurveyed(NamedTuple):
    """A group as it was in its last round."""

    group: GroupDescription
    parts: tuple[GroupPartition, ...]
    shared: tuple[SharePosition, ...] = ()
    """Of a share group, which commits no offsets."""


class ClusterGroups:
    """Reads the groups of one cluster."""

    def __init__(self, client: Client, rows: KeptRows[str]) -> None:
        self._client = client
        self._rows = rows
        self._waiting: list[str] = []
        self._counted: dict[tuple[str, TopicPartition], tuple[int, int, Between | None]] = {}
        """By group and partition: from where to where was counted, and what was found."""
        self._left = 0
        self.known: dict[str, GroupSurveyed] = {}
        """By name."""

    async def round(self, version: int, offsets: dict[TopicPartition, PartitionOffsets]) -> None:
        """Look at some groups. Raises ClientError."""
        admin, self._left = GroupAdmin(self._client), COUNTED_PER_ROUND
        listed = [each.group_id for each in await admin.list_groups()][:MOST_GROUPS]
        there = set(listed)
        self.known = {name: seen for name, seen in self.known.items() if name in there}
        self._counted = {key: seen for key, seen in self._counted.items() if key[0] in there}
        self._waiting = [each for each in self._waiting if each in there]
        waiting = set(self._waiting)
        fresh = [each for each in listed if each not in self.known and each not in waiting]
        self._waiting = [*fresh, *self._waiting] or listed
        for name in self._waiting[:PER_ROUND]:
            seen = await self._surveyed(admin, name, offsets)
            if seen is not None:
                self.known[name] = seen
        self._waiting = self._waiting[PER_ROUND:]
        self._rows.put_all({name: group_row(seen) for name, seen in self.known.items()}, version)

    async def _surveyed(
        self, admin: GroupAdmin, name: str, offsets: dict[TopicPartition, PartitionOffsets]
    ) -> GroupSurveyed | None:
        try:
            group = await admin.describe(name)
            if group.type == SHARE:
                return GroupSurveyed(group, (), tuple((await share_positions(self._client, name)).values()))
            committed = await admin.offsets(name)
            pending = await pending_offsets(self._client, name)
        except BrokerError:  # it may be listed and not described, or its coordinator moves
            return None
        if not group.is_there and not committed:
            return None
        assigned = {each for member in group.members for each in member.partitions}
        parts = []
        for each in sorted({*committed, *pending, *assigned}):
            at = offsets.get(each)
            if at is None:  # deleted, or without a leader
                continue
            position = committed.get(each, NOTHING_COMMITTED)
            first = max(position, at.log_start)
            found = await self._count(name, each, first, at.last_stable) if position >= 0 else None
            is_counted = found is not None or 0 <= at.last_stable <= first
            parts.append(
                GroupPartition(
                    str(each),
                    position,
                    at.last_stable,
                    at.high_watermark,
                    pending=each in pending,
                    records=NOT_COUNTED if not is_counted else 0 if found is None else found.records,
                    control_records=0 if found is None else found.control_records,
                    log_start=at.log_start,
                )
            )
        return GroupSurveyed(group, tuple(parts))

    async def _count(self, name: str, partition: TopicPartition, first: int, end: int) -> Between | None:
        """The records that lie before a group; None for none, and where it is not counted."""
        if first >= end:
            return None
        seen = self._counted.get((name, partition))
        if seen is not None and seen[:2] == (first, end):
            return seen[2]
        if not self._left:
            return None
        self._left -= 1
        try:
            found = await OffsetAdmin(self._client).between(partition, first, end)
        except BrokerError:  # without READ on the topic
            found = None
        self._counted[name, partition] = first, end, found
        return found


def group_row(seen: GroupSurveyed) -> GroupRow:
    """The row of a group."""
    group, sums = seen.group, behind(seen.parts)._asdict()
    if group.type == SHARE:
        left = sum(max(0, each.lag) for each in seen.shared)
        sums |= {"lag": left, "to_end": left, "is_exact": all(each.lag >= 0 for each in seen.shared)}
    return GroupRow(
        group.group_id,
        group.state,
        len(group.members),
        len(seen.parts) + len(seen.shared),
        **sums,
        kind=group.type,
        named=tuple(member_name(each.member_id, each.client_id, each.host) for each in group.members[:NAMED_MEMBERS]),
    )
