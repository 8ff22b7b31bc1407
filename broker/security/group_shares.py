"""`GroupShares`: how much memory one user may fill with the members of groups (security.md 6.2).

A member brings up to 1 MiB of metadata, and there may be a million groups. Always true: who stays below seven eighths
of its share is never refused, for before a refusal the user's groups are counted as they are; users are told apart
where they prove who they are, all others share one.
"""

from typing import TYPE_CHECKING, Final

from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.group import Group, protocol_bytes
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.topology.topology import topology_bytes
from eosin.network.audit import log
from eosin.protocol.errors import ErrorCode
from eosin.runtime.log_budget import LogBudget
from eosin.runtime.logging_format import fields, shown
from eosin.runtime.turns import in_turns

if TYPE_CHECKING:
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.model.principals import Principal
    from eosin.network.api import RequestContext
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig

MEMBER_BYTES: Final = 1000
"""Bytes that a member takes beside its metadata and its assignment; and so a group without members."""
COUNT_AGAIN_MS: Final = 10_000
"""Between two counts of one user's groups that found little room: each of them takes time."""
LITTLE: Final = 8
"""Less than this part of a share is little room."""


FORGET_CHECKS: Final = 2
"""Groups that are looked at for each group that is added: whoever adds groups removes more than it adds."""


class _Share:
    __slots__ = ("full_ms", "groups", "held_bytes", "used_ms")

    def __init__(self) -> None:
        self.groups: dict[str, None] = {}
        self.held_bytes = 0
        """Bytes that the groups hold, or more: of members that are gone until they are counted again."""
        self.full_ms: int | None = None
        """The time when a count found little room."""
        self.used_ms = 0
        """The time when something was counted last."""


class GroupShares:
    """The shares of one broker."""

    def __init__(self, clock: "Clock", groups: "GroupCoordinator", *, max_bytes: int) -> None:
        """`max_bytes`: of one user."""
        self._clock = clock
        self._groups = groups
        self._max_bytes = max_bytes
        self._shares: dict[Principal, _Share] = {}
        """Of users that have groups, as far as is known: the one that was not used for longest comes first."""
        self._budget = LogBudget(clock, _log_left_out, lines=1)

    def __len__(self) -> int:
        """Number of users that are remembered."""
        return len(self._shares)

    def admits(self, context: "RequestContext", group_id: str, size: int) -> bool:
        """True if the user may bring so many bytes more to a group, as far as is known; counts them if it may."""
        principal = context.session.principal
        share = self._shares.get(principal) or _Share()
        size += MEMBER_BYTES + 2 * len(group_id)
        if share.held_bytes + size > self._max_bytes:
            return False
        share.held_bytes += size
        is_new = group_id not in share.groups
        share.groups[group_id] = None
        self._move_to_end(principal, share)
        if is_new:
            self._forget_some()
        return True

    def _move_to_end(self, principal: "Principal", share: _Share) -> None:
        share.used_ms = self._clock.elapsed_ms()
        self._shares.pop(principal, None)
        self._shares[principal] = share

    def _forget_some(self) -> None:
        """Look at groups of users that were not here for a while, and forget those users that have none any more."""
        long_ago_ms = self._clock.elapsed_ms() - COUNT_AGAIN_MS  # what was admitted since may not have its group yet
        for _ in range(FORGET_CHECKS):
            principal, share = next(iter(self._shares.items()), (None, None))
            if principal is None or share is None or share.used_ms > long_ago_ms:
                return
            group_id = next(iter(share.groups), None)
            if group_id is not None:
                del share.groups[group_id]
                if self._that_holds(group_id) is not None:
                    share.groups[group_id] = None  # behind the others
                    self._move_to_end(principal, share)
            if not share.groups:
                del self._shares[principal]

    async def may_bring(self, context: "RequestContext", group_id: str, size: int) -> bool:
        """The same, if need be after a count of all that the user's groups hold."""
        return self.admits(context, group_id, size) or await self.admits_after_count(context, group_id, size)

    async def admits_after_count(self, context: "RequestContext", group_id: str, size: int) -> bool:
        """The same, after that count, a few groups in each turn of the event loop."""
        principal = context.session.principal
        share, now_ms = self._shares.get(principal) or _Share(), self._clock.elapsed_ms()
        if share.full_ms is None or now_ms - share.full_ms >= COUNT_AGAIN_MS:
            await self._count(share)
            little = self._max_bytes - share.held_bytes < self._max_bytes // LITTLE
            share.full_ms = now_ms if little else None
            if self.admits(context, group_id, size):
                return True
        if self._budget.allows(principal, context):
            _log_left_out(context, 1)
        return False

    def held_bytes(self, principal: "Principal") -> int:
        """Bytes that a user's groups are counted with."""
        share = self._shares.get(principal)
        return 0 if share is None else share.held_bytes

    async def _count(self, share: _Share) -> None:
        held = 0

        def count(group_id: str) -> None:
            nonlocal held
            group = self._that_holds(group_id)
            if group is None:
                share.groups.pop(group_id, None)
            else:
                held += _size_of(group)

        await in_turns(list(share.groups), count, self._clock)
        share.held_bytes = held

    def _that_holds(self, group_id: str) -> "AnyGroup | None":
        """A group of any kind; None if it has no members and, of a streams group, no topology."""
        found: AnyGroup | ErrorCode = self._groups.describe(group_id)
        if isinstance(found, ErrorCode):
            found = self._groups.describe_consumer(group_id)
        if isinstance(found, ErrorCode):
            found = self._groups.share.describe(group_id)
        if isinstance(found, ErrorCode):
            found = self._groups.streams.describe(group_id)
        if isinstance(found, StreamsGroup) and found.topology is not None:
            return found
        return None if isinstance(found, ErrorCode) or not found.members else found


PARTITION_BYTES: Final = 200
"""Bytes that a partition of a consumer group takes, which its target, its owner and its member have."""

AnyGroup = Group | ConsumerGroup | ShareGroup | StreamsGroup


def _size_of(group: AnyGroup) -> int:
    match group:
        case Group():
            return _size(group)
        case ConsumerGroup():
            return _size_of_consumer_group(group)
        case ShareGroup():
            return _size_of_share_group(group)
        case StreamsGroup():
            tasks = len(group.owners) + len(group.copies)
            topology = 0 if group.topology is None else topology_bytes(group.topology)
            members = sum(MEMBER_BYTES + _said_by(member) for member in group.members.values())
            return MEMBER_BYTES + members + PARTITION_BYTES * tasks + topology + len(group.description.data)


def _said_by(member: StreamsMember) -> int:
    """The characters of all that a member of a streams group says of itself."""
    host = "" if member.endpoint is None else member.endpoint.host
    said = (member.member_id, member.instance_id or "", member.rack_id or "", member.process_id, host)
    return sum(map(len, said)) + sum(len(key) + len(value) for key, value in member.tags)


def _size_of_share_group(group: ShareGroup) -> int:
    size = MEMBER_BYTES + 2 * len(group.group_id)
    for member in group.members.values():
        size += MEMBER_BYTES + sum(map(len, member.topics)) + PARTITION_BYTES * len(member.assigned)
    return size


def _size_of_consumer_group(group: ConsumerGroup) -> int:
    size = MEMBER_BYTES + 2 * len(group.group_id) + PARTITION_BYTES * len(group.owners)
    for member in group.members.values():
        size += MEMBER_BYTES + sum(map(len, member.topics)) + len(member.regex)
        if member.classic is not None:
            size += protocol_bytes(member.classic.protocols)
    return size


def _size(group: Group) -> int:
    size = MEMBER_BYTES + 2 * len(group.group_id)
    for member in group.members.values():
        size += MEMBER_BYTES + len(member.assignment) + protocol_bytes(member.protocols)
    return size


def _log_left_out(context: "RequestContext", refused: int) -> None:
    log.warning(
        "a user's groups hold as much as they may (eosin.principal.group.bytes.max)",
        extra=fields(principal=shown(context.session.principal), host=context.session.host, refused=refused),
    )


def group_shares_of(config: "BrokerConfig", clock: "Clock", groups: "GroupCoordinator") -> GroupShares | None:
    """The shares that the settings say; None for no limit."""
    most = config.eosin_principal_group_bytes_max
    return GroupShares(clock, groups, max_bytes=most) if most else None
