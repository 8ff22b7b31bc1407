"""`GroupRounds`: groups of all kinds and their true lag, as rows (console.md 5.4)."""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from eosin.broker.services import Services
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember
from eosin.coordinator.groups.rules.group import Member
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.streams.rules.group import StreamsMember
from eosin.observe.console.rows import NAMED_MEMBERS, GroupRow, member_name
from eosin.observe.console.tables import Table
from eosin.observe.survey.any_group import AnyGroup, described, kind_of, live
from eosin.observe.survey.group_positions import GroupPositions, behind_in_slices
from eosin.observe.survey.shared_partitions import SharedPartitions
from eosin.observe.survey.slices import GROUP, Slices
from eosin.protocol.errors import ErrorCode

MOST_GROUPS: Final = 2000
GROWTH_MS: Final = 60_000
"""The time over which a lag is compared with itself."""
PER_ROUND: Final = 50
"""Groups that are looked at in one round; the others have their turn in the next ones."""


class _Before(NamedTuple):
    """A group as it was some time ago."""

    at_ms: int
    to_end: int
    last_commit_ms: int
    grew: bool
    """True if it had grown by then."""


class GroupRounds:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services, positions: GroupPositions, table: Table[str]) -> None:
        self._services = services
        self._positions = positions
        self._shared = SharedPartitions(services)
        self._table = table
        self._rows: dict[str, GroupRow] = {}
        self._before: dict[str, _Before] = {}
        self._waiting: list[str] = []

    async def round(self, version: int) -> None:
        """Look at some groups."""
        groups = self._services.groups
        if not self._waiting:
            listed = [each.group_id for each in islice(live(groups), MOST_GROUPS)]
            self._waiting = listed[::-1]
            there = set(listed)
            for name in [each for each in self._rows if each not in there]:
                del self._rows[name]
                self._before.pop(name, None)
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
        groups = self._services.groups
        group = described(groups, name)
        if isinstance(group, ErrorCode):
            return None
        if isinstance(group, ShareGroup):
            return await self._share_row(group)
        parts = await self._positions.of(name)
        sums, last_commit_ms = await behind_in_slices(parts), groups.last_commit_ms(name)
        grows = self._grows(name, sums.to_end, last_commit_ms)
        return GroupRow(
            name,
            group.state.value,
            len(group.members),
            len(parts),
            **sums._asdict(),
            last_commit_ms=last_commit_ms,
            grows=grows,
            named=_named(group),
            kind=kind_of(group),
        )

    async def _share_row(self, group: ShareGroup) -> GroupRow:
        """The row of a share group, whose lag is what it is not done with."""
        parts = await self._shared.of(group)
        lag = sum(max(0, each.lag) for each in parts)
        return GroupRow(
            group.group_id,
            group.state.value,
            len(group.members),
            len(parts),
            lag,
            is_exact=all(each.lag >= 0 for each in parts),
            to_end=lag,
            named=_named(group),
            kind=kind_of(group),
            in_flight=sum(each.in_flight for each in parts),
        )

    def _grows(self, name: str, to_end: int, last_commit_ms: int) -> bool:
        """True if a group had fewer offsets before it when it was last compared, and has committed nothing since."""
        now_ms, before = self._services.clock.now_ms(), self._before.get(name)
        if before is not None and last_commit_ms == before.last_commit_ms and now_ms - before.at_ms < GROWTH_MS:
            return before.grew
        grew = before is not None and last_commit_ms == before.last_commit_ms and to_end > before.to_end
        self._before[name] = _Before(now_ms, to_end, last_commit_ms, grew)
        return grew


def _named(group: AnyGroup) -> tuple[str, ...]:
    """The first few members of a group."""
    members: Iterable[Member | ConsumerMember | ShareMember | StreamsMember] = group.members.values()
    first = islice(members, NAMED_MEMBERS)
    return tuple(member_name(each.member_id, each.client_id, each.client_host) for each in first)
