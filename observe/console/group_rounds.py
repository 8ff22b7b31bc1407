"""`GroupRounds`: consumer groups and their true lag, as rows (console.md 5.4)."""

from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.group import Group
from eosin.observe.console.rows import GroupRow
from eosin.observe.console.tables import Table
from eosin.observe.survey.group_positions import GroupPositions, behind
from eosin.observe.survey.slices import GROUP, Slices

MOST_GROUPS: Final = 2000
PER_ROUND: Final = 50
"""Groups that are looked at in one round; the others have their turn in the next ones."""


class GroupRounds:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services, positions: GroupPositions, table: Table[str]) -> None:
        self._services = services
        self._positions = positions
        self._table = table
        self._rows: dict[str, GroupRow] = {}
        self._waiting: list[str] = []

    async def round(self, version: int) -> None:
        """Look at some groups."""
        groups = self._services.groups
        if not self._waiting:
            listed = [each.group_id for each in groups.live_groups()[:MOST_GROUPS]]
            self._waiting = listed[::-1]
            there = set(listed)
            for name in [each for each in self._rows if each not in there]:
                del self._rows[name]
                self._table.remove(name, version)
        self._positions.begin_round()
        slices = Slices()
        for _ in range(min(PER_ROUND, len(self._waiting))):
            name = self._waiting.pop()
            await slices.worked(GROUP)
            row = await self._row(name)
            if row is not None and self._rows.get(name) != row:
                self._rows[name] = row
                self._table.put(name, row, version)

    async def _row(self, name: str) -> GroupRow | None:
        group = self._services.groups.describe(name)
        if not isinstance(group, Group):
            return None
        parts = await self._positions.of(name)
        return GroupRow(name, group.state.value, len(group.members), len(parts), **behind(parts)._asdict())
