"""`OwnAclEntries` and `ImageAclEntries`: the access control entries of a cluster, and how to change them (security.md
4.2, 4.5).

Only a broker with an authorizer makes one. Always true: only durable entries are found; all entries of a request
come, or go, in one step, in which the followers hear of them: before its response leaves (security.md 7).
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from eosin.model.acl_entries import Follower
from eosin.model.acls import Acl, AclFilter
from eosin.model.cluster import Outcome
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.records.cluster_metadata import AclKey, AclRecord
from eosin.runtime.turns import TURN_MS, in_turns, next_turn

if TYPE_CHECKING:
    from eosin.cluster.metadata.image import MetadataImage
    from eosin.cluster.metadata.writer import MetadataWriter, Records
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta
    from eosin.protocol.schemas.records.metadata import AccessControlEntryRecord
    from eosin.runtime.chance import Chance
    from eosin.runtime.clock import Clock

_TURN: Final = "access control entries"
_UNWRITTEN: Final = "The cluster's metadata cannot be written"


class OwnAclEntries:
    """The entries of a cluster of one broker, which keeps them in its own metadata log."""

    def __init__(
        self, image: "MetadataImage", writer: "MetadataWriter", *, chance: "Chance", clock: "Clock", most: int
    ) -> None:
        """`most` is how many entries there may be; the metadata are read already."""
        self._writer = writer
        self._chance = chance
        self._clock = clock
        self._most = most
        self._ids = {acl_of(record): acl_id for acl_id, record in image.acls.items()}
        self._followers: list[Follower] = []
        self._one_at_a_time = asyncio.Lock()

    def follow(self, follower: Follower) -> None:
        """See `AclEntries.follow`."""
        self._followers.append(follower)
        follower(list(self._ids), ())

    async def create(self, acls: Sequence[Acl]) -> list[Outcome]:
        """See `AclEntries.create`. Beyond the most there may be, an entry is refused (security.md 4.4.3)."""
        async with self._one_at_a_time:
            await self._writer.turn(_TURN)  # a requester that went away has left the lock, and not yet its change
            added: dict[Acl, Uuid] = {}
            outcomes = []
            for acl in acls:
                if acl in self._ids or acl in added:
                    outcomes.append(Outcome(ErrorCode.NONE))
                elif len(self._ids) + len(added) >= self._most:
                    text = f"there are {self._most} entries already, the most that eosin.acl.max.entries allows"
                    outcomes.append(Outcome(ErrorCode.POLICY_VIOLATION, text))
                else:
                    added[acl] = self._chance.uuid()
                    outcomes.append(Outcome(ErrorCode.NONE))
            if not added:
                return outcomes
            changes = [(AclKey(acl_id), record_of(acl)) for acl, acl_id in added.items()]
            error = await self._write(changes, added, {})
            if error is not ErrorCode.NONE:
                pairs = zip(acls, outcomes, strict=True)
                return [Outcome(error, _UNWRITTEN) if acl in added else each for acl, each in pairs]
            return outcomes

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]] | Outcome:
        """See `AclEntries.delete`."""
        async with self._one_at_a_time:
            await self._writer.turn(_TURN)
            matched = await self._matched(filters)
            removed = {acl: self._ids[acl] for acls in matched for acl in acls}
            if removed:
                error = await self._write([(AclKey(each), None) for each in removed.values()], {}, removed)
                if error is not ErrorCode.NONE:
                    return Outcome(error, _UNWRITTEN)
            return matched

    async def _matched(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """The entries that each filter finds. One takes turns where there are many entries; here many filters do."""
        matched: list[list[Acl]] = []
        until_ms = self._clock.elapsed_ms() + TURN_MS
        for each in filters:
            matched.append(await self.found(each))
            if self._clock.elapsed_ms() >= until_ms:
                await next_turn()
                until_ms = self._clock.elapsed_ms() + TURN_MS
        return matched

    async def found(self, wanted: AclFilter) -> list[Acl]:
        """See `AclEntries.found`."""
        return await found_in_turns(list(self._ids), wanted, self._clock)

    async def _write(self, records: "Records", added: Mapping[Acl, Uuid], removed: Mapping[Acl, Uuid]) -> ErrorCode:
        def written() -> None:
            self._ids.update(added)
            for acl in removed:
                del self._ids[acl]
            for follower in self._followers:
                follower(list(added), list(removed))

        return await asyncio.shield(self._writer.write(_TURN, records, written))


class ImageAclEntries:
    """The entries of a cluster of several machines: its controllers write and change them."""

    def __init__(self, image: "ClusterImage", clock: "Clock") -> None:
        self._clock = clock
        self._held = Counter(map(acl_of, image.acls.values()))
        """Number of times that each entry is in the image: its ids differ."""
        self._followers: list[Follower] = []

    def __contains__(self, acl: Acl) -> bool:
        return self._held[acl] > 0

    def follow(self, follower: Follower) -> None:
        """See `AclEntries.follow`."""
        self._followers.append(follower)
        follower(list(self._held.elements()), ())

    def apply(self, delta: "ImageDelta") -> None:
        """Show another image."""
        if not delta.acls_changed:
            return
        before, after = (
            [acl_of(record) for each in delta.acls_changed if (record := image.acls.get(each)) is not None]
            for image in (delta.before, delta.after)
        )
        self._held.update(after)
        self._held.subtract(before)
        for acl in before:
            if self._held[acl] <= 0:
                del self._held[acl]
        for follower in self._followers:
            follower(after, before)

    async def found(self, wanted: AclFilter) -> list[Acl]:
        """See `AclEntries.found`."""
        return await found_in_turns(list(self._held), wanted, self._clock)

    async def create(self, acls: Sequence[Acl]) -> NoReturn:
        """Nobody asks: the request is passed on."""
        raise AssertionError("the controllers create access control entries")

    async def delete(self, filters: Sequence[AclFilter]) -> NoReturn:
        """Nobody asks: the request is passed on."""
        raise AssertionError("the controllers delete access control entries")


async def found_in_turns(acls: Sequence[Acl], wanted: AclFilter, clock: "Clock") -> list[Acl]:
    """The entries of `acls` that match a filter; many thousands take many turns of the event loop."""
    found: list[Acl] = []

    def add(acl: Acl) -> None:
        if wanted.matches(acl):
            found.append(acl)

    await in_turns(acls, add, clock)
    return found


def acl_of(record: "AclRecord | AccessControlEntryRecord") -> Acl:
    """The entry that a record describes."""
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def record_of(acl: Acl) -> AclRecord:
    """The record that describes an entry."""
    return AclRecord(*acl)
