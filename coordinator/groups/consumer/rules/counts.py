"""`MemberCounts`: numbers of a group's members by what they say and by where they are, kept as members change.

A group may have 10,000 members, so nothing that happens to one of them may look at all. Always true: the counts are
those of the group's members, and no count is 0.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from eosin.runtime.sorted_map import EMPTY, SortedMap

Names = tuple[str, ...]
"""The names that a member is subscribed to, sorted."""
NOWHERE: Final = -3
"""In place of the epoch of a member that is not STABLE; no member has it."""


class CountedMember(NamedTuple):
    """One member, as far as it is counted."""

    topics: Names = ()
    regex: str = ""
    vote: str = ""
    """The assignor that it votes for; empty for none."""
    stable_epoch: int = NOWHERE
    """Its epoch if it is STABLE."""
    is_classic: bool = False


NOBODY: Final = CountedMember()
"""A member that is not there."""


class MemberCounts(msgspec.Struct, frozen=True, gc=False):
    """The counts of one group."""

    lists: SortedMap[Names, tuple[Names, int]] = EMPTY
    """Each list of names that members are subscribed to, as the one object that they share, and their number."""
    listed: SortedMap[str, int] = EMPTY
    """The number of those lists that have a name."""
    names: frozenset[str] = frozenset()
    """The names in any of the lists: the same object as long as they are the same."""
    regexes: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Members that are subscribed to each regular expression: there are few."""
    votes: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Members that vote for each assignor."""
    stable: SortedMap[int, int] = EMPTY
    """Members that are STABLE, by their epoch."""
    classic: int = 0
    """Classic members."""

    def shared(self, topics: Names) -> Names:
        """The list of other members which is equal to this one; itself if there is none."""
        return self.lists.get(topics, (topics, 0))[0]


NO_COUNTS: Final = MemberCounts()
"""Of a group without members."""


def counted(counts: MemberCounts, before: CountedMember, after: CountedMember) -> MemberCounts:
    """The counts after a member has become another."""
    if before == after:
        return counts
    lists, listed, names = counts.lists, counts.listed, counts.names
    if before.topics is not after.topics and before.topics != after.topics:
        for topics, change in ((after.topics, 1), (before.topics, -1)):
            size = len(listed)
            lists, listed = _with_list(lists, listed, topics, change)
            names = names if len(listed) == size else frozenset(listed)
    return MemberCounts(
        lists,
        listed,
        names,
        _with_few(counts.regexes, before.regex, after.regex),
        _with_few(counts.votes, before.vote, after.vote),
        _with_epochs(counts.stable, before.stable_epoch, after.stable_epoch),
        counts.classic + after.is_classic - before.is_classic,
    )


_Lists = SortedMap[Names, tuple[Names, int]]


def _with_list(
    lists: _Lists, listed: SortedMap[str, int], topics: Names, change: int
) -> tuple[_Lists, SortedMap[str, int]]:
    """One member more or less has a list. The names of a list count once, however many members have it."""
    if not topics:
        return lists, listed
    known, count = lists.get(topics, (topics, 0))
    if count and count + change:
        return lists.put(known, (known, count + change)), listed
    lists = lists.put(topics, (topics, change)) if change > 0 else lists.without(topics)
    counts = {name: listed.get(name, 0) + change for name in topics}
    left = {name: count for name, count in counts.items() if count}
    return lists, listed.changed(left, [name for name in topics if name not in left])


def _with_epochs(counts: SortedMap[int, int], before: int, after: int) -> SortedMap[int, int]:
    if after != before and after != NOWHERE:
        counts = counts.put(after, counts.get(after, 0) + 1)
    if after != before and before != NOWHERE:
        left = counts[before] - 1
        counts = counts.put(before, left) if left else counts.without(before)
    return counts


def _with_few(counts: Mapping[str, int], before: str, after: str) -> Mapping[str, int]:
    if before == after:
        return counts
    found = dict(counts)
    if after:
        found[after] = found.get(after, 0) + 1
    if before:
        found[before] -= 1
        if not found[before]:
            del found[before]
    return found
