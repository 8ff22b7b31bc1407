"""`GroupSurvey`: consumer groups and their true lag, as rows (console.md 5.4)."""

import asyncio
import contextlib
from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.group import Group
from eosin.observe.console.lags import LagCounts
from eosin.observe.console.rows import GroupRow
from eosin.observe.console.tables import Table
from eosin.observe.explain.facts import GroupPartition
from eosin.protocol.errors import ErrorCode
from eosin.runtime.turns import next_turn

MOST_GROUPS: Final = 2000
PER_ROUND: Final = 50
"""Groups that are looked at in one round; the others have their turn in the next ones."""
PER_TURN: Final = 5
LONGEST_WAIT_S: Final = 0.2


class GroupSurvey:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services, table: Table[str]) -> None:
        self._services = services
        self._table = table
        self._rows: dict[str, GroupRow] = {}
        self._waiting: list[str] = []
        self.lags = LagCounts(services)

    async def round(self, version: int) -> None:
        """Look at some groups."""
        groups = self._services.groups
        if not self._waiting:
            listed = [each.group_id for each in groups.list_groups()[1][:MOST_GROUPS]]
            self._waiting = listed[::-1]
            there = set(listed)
            for name in [each for each in self._rows if each not in there]:
                del self._rows[name]
                self._table.remove(name, version)
        self.lags.begin_round()
        for number in range(min(PER_ROUND, len(self._waiting))):
            name = self._waiting.pop()
            if number % PER_TURN == 0:
                await next_turn()
            row = await self._row(name)
            if row is not None and self._rows.get(name) != row:
                self._rows[name] = row
                self._table.put(name, row, version)

    async def _row(self, name: str) -> GroupRow | None:
        group = self._services.groups.describe(name)
        if not isinstance(group, Group):
            return None
        parts = await self.partitions(name)
        return GroupRow(
            name,
            group.state.value,
            len(group.members),
            len(parts),
            lag=sum(each.lag for each in parts),
            is_exact=all(each.records >= 0 or not each.offsets_behind for each in parts),
            offsets_behind=sum(each.offsets_behind for each in parts),
            control_records=sum(each.control_records for each in parts),
            undecided=sum(each.undecided for each in parts),
            pending=sum(each.pending for each in parts),
        )

    async def partitions(self, name: str) -> list[GroupPartition]:
        """The offsets that a group has committed and the records that it has not read, in partitions that this broker
        leads."""
        offsets, wanted = self._services.groups.offsets, None
        pending = set()
        with contextlib.suppress(TimeoutError):  # it waits for what is being written, which a slow disk may keep
            async with asyncio.timeout(LONGEST_WAIT_S):
                _, stable = await offsets.fetch(name, None, require_stable=True)
                wanted = [each.partition for each in stable]
                pending = {each.partition for each in stable if each.error is ErrorCode.UNSTABLE_OFFSET_COMMIT}
        error, committed = await offsets.fetch(name, wanted, require_stable=False)
        if error is not ErrorCode.NONE:
            return []
        found = []
        for each in committed:
            log = self._services.partitions.get(each.partition)
            if isinstance(log, ErrorCode):
                continue
            first = each.offset if each.offset < 0 else max(each.offset, log.log_start_offset)
            records, controls = await self.lags.count(name, each.partition, log, first)
            found.append(
                GroupPartition(
                    str(each.partition),
                    each.offset,
                    log.last_stable_offset,
                    log.high_watermark,
                    pending=each.partition in pending,
                    records=records,
                    control_records=controls,
                    log_start=log.log_start_offset,
                )
            )
        return found
