"""`GroupPositions`: the offsets that a group has committed, and what it has not read, in partitions that this broker
leads; those that a member has and the group has committed nothing for included (console.md 5.4)."""

import asyncio
import contextlib
from collections.abc import Iterable
from operator import add
from typing import Final, NamedTuple

from eosin.broker.services import Services
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.observe.explain.facts import GroupPartition
from eosin.observe.survey.any_group import AnyGroup, described
from eosin.observe.survey.assigned_partitions import AssignedPartitions, owned, read_by_tasks
from eosin.observe.survey.slices import ROW, Slices, in_slices
from eosin.observe.survey.unread_records import UnreadRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

MOST_BYTES: Final = 1024 * 1024
"""Bytes before a group in a partition in which its records are counted."""
BYTES_PER_ROUND: Final = 2 * 1024 * 1024
LONGEST_WAIT_S: Final = 0.2
SUMMED: Final = 4
"""Units of work of a partition that is summed up."""
NOT_COUNTED: Final = -1
NOTHING_COMMITTED: Final = -1


class Behind(NamedTuple):
    """The sums over a group's partitions."""

    lag: int
    """Records that a reader of committed records will still get; offsets where they were not counted."""
    is_exact: bool
    offsets_behind: int
    control_records: int
    undecided: int
    """Offsets behind open transactions."""
    pending: int
    """Partitions whose offsets wait for a transaction."""
    uncommitted: int
    """Partitions that a member has and the group has committed nothing for; their lag counts from the log's start."""
    to_end: int
    """Offsets up to the high watermark."""


class GroupPositions:
    """Reads the offsets of the groups that one broker coordinates."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._unread = UnreadRecords(most_bytes=MOST_BYTES, bytes_per_round=BYTES_PER_ROUND)
        self.assigned: Final = AssignedPartitions()

    def begin_round(self) -> None:
        """Allow records to be counted anew."""
        self._unread.begin_round()

    async def of(self, group_id: str) -> list[GroupPartition]:
        """A group's partitions."""
        offsets, wanted = self._services.groups.offsets, None
        pending = set()
        with contextlib.suppress(TimeoutError):  # it waits for what is being written, which a slow disk may keep
            async with asyncio.timeout(LONGEST_WAIT_S):
                _, stable = await offsets.fetch(group_id, None, require_stable=True)
                wanted = [each.partition for each in stable]
                pending = {each.partition for each in stable if each.error is ErrorCode.UNSTABLE_OFFSET_COMMIT}
        slices = Slices()
        error, committed = await offsets.fetch(group_id, wanted, require_stable=False)
        if error is not ErrorCode.NONE:
            return []
        found = []
        for each in committed:
            await slices.worked(ROW)
            log = self._services.partitions.get(each.partition)
            if isinstance(log, ErrorCode):
                continue
            unread = None if each.offset < 0 else await self._unread.count(group_id, log, each.offset)
            is_counted = unread is not None and not unread.uncounted
            found.append(
                GroupPartition(
                    str(each.partition),
                    each.offset,
                    log.last_stable_offset,
                    log.high_watermark,
                    pending=each.partition in pending,
                    records=unread.records if unread is not None and is_counted else NOT_COUNTED,
                    control_records=unread.control_records if unread is not None and is_counted else 0,
                    log_start=log.log_start_offset,
                )
            )
        group = described(self._services.groups, group_id)
        if isinstance(group, ErrorCode):
            return found
        return [*found, *await self._uncommitted(self.had_by(group), {each.partition for each in committed})]

    def had_by(self, group: AnyGroup) -> tuple[TopicPartition, ...]:
        """The partitions that the members of a group have, of whose offsets it is to commit; none of a share group."""
        match group:
            case Group():
                return self.assigned.of(group)
            case ConsumerGroup():
                return owned(group, self._services.cluster.topic_by_id)
            case StreamsGroup():
                return read_by_tasks(group, *group.members.values())
            case ShareGroup():
                return ()

    async def _uncommitted(
        self, assigned: Iterable[TopicPartition], known: set[TopicPartition]
    ) -> list[GroupPartition]:
        found, slices = [], Slices()
        for each in assigned:
            await slices.worked(ROW)
            log = ErrorCode.NONE if each in known else self._services.partitions.get(each)
            if not isinstance(log, ErrorCode):
                ends = log.last_stable_offset, log.high_watermark
                found.append(GroupPartition(str(each), NOTHING_COMMITTED, *ends, log_start=log.log_start_offset))
        return found


def behind(partitions: Iterable[GroupPartition]) -> Behind:
    """Sum up a group over all of its partitions."""
    parts = list(partitions)
    return Behind(
        lag=sum(each.lag for each in parts),
        is_exact=all(each.records >= 0 or not each.offsets_behind for each in parts),
        offsets_behind=sum(each.offsets_behind for each in parts),
        control_records=sum(each.control_records for each in parts),
        undecided=sum(each.undecided for each in parts),
        pending=sum(each.pending for each in parts),
        uncommitted=sum(each.is_uncommitted for each in parts),
        to_end=sum(each.offsets_behind + each.undecided for each in parts),
    )


async def behind_in_slices(partitions: Iterable[GroupPartition]) -> Behind:
    """The same, of some partitions at a time: there may be very many."""
    whole = behind(())
    async for some in in_slices(partitions, SUMMED):
        part = behind(some)
        whole = Behind(*map(add, whole, part))._replace(is_exact=whole.is_exact and part.is_exact)
    return whole
