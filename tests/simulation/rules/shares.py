"""Share groups: at least once each, never again once that is promised, and one member at a time."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

from eosin.protocol.names import TopicPartition
from simulation.case import Case, Violations, records
from simulation.share_history import (
    FINAL,
    Acknowledged,
    HandedOut,
    Kind,
    Place,
    Reset,
    ShareHistory,
    SharePromise,
    StartTold,
)
from simulation.values import COMPACTED

TOLERANCE_S = 0.005
"""Locks are measured in whole milliseconds, and timers end one early."""


_Event = TypeVar("_Event", HandedOut, Acknowledged)


def _by_place(events: Iterable[_Event]) -> dict[Place, list[_Event]]:
    found: dict[Place, list[_Event]] = {}
    for each in events:
        found.setdefault(each.place, []).append(each)
    return found


def one_member_at_a_time(case: Case) -> Violations:
    """A leader gives a record to another member, or again to the same, only when the one who had it has let go of it,
    is gone, or had it for as long as its lock lasts."""
    shares = case.history.shares
    gone: dict[tuple[str, int], list[int]] = {}
    for departure in shares.departures:
        gone.setdefault((departure.member, departure.node_id), []).append(departure.moment)
    acknowledged = _by_place(shares.acknowledged)
    for place, handed_out in _by_place(shares.handed_out).items():
        lock_s = shares.groups[place.group].lock_s
        for first, second in pairwise(handed_out):
            if first.tenure != second.tenure or second.at >= first.at + lock_s - TOLERANCE_S:
                continue
            said = acknowledged.get(place, ())
            if any(
                each.member == first.member
                and each.asked < second.moment
                and not _was_answered(each, before=first.moment)
                for each in said
            ):
                continue
            # One that has gone earlier may have left behind a request that comes late, and ends its session.
            if any(moment < second.moment for moment in gone.get((first.member, first.tenure.node_id), ())):
                continue
            yield f"{_named(place)} was given to {second.member} while {first.member} had it at {first.tenure}"


def _was_answered(acknowledged: Acknowledged, *, before: int) -> bool:
    return acknowledged.answered is not None and acknowledged.answered < before


def final_is_final(case: Case) -> Violations:
    """A record that was accepted or rejected, as its member was told, is not handed out again; nor after a reset by
    whoever has read the state of before."""
    shares = case.history.shares
    acknowledged = _by_place(shares.acknowledged)
    for place, handed_out in _by_place(shares.handed_out).items():
        for done in acknowledged.get(place, ()):
            since = done.durable_since
            if done.kind not in FINAL or since is None:
                continue
            epoch = _state_epoch(done, handed_out)
            for each in handed_out:
                if each.moment > since and each.is_current and each.tenure.state_epoch <= epoch:
                    yield f"{_named(place)} was {done.kind.name} by {done.member} and went to {each.member} later"


def _state_epoch(done: Acknowledged, handed_out: Iterable[HandedOut]) -> int:
    """The state epoch in which a member had what it has acknowledged."""
    had = [each for each in handed_out if each.member == done.member and each.moment < done.asked]
    return had[-1].tenure.state_epoch if had else -1


def counts_only_grow(case: Case) -> Violations:
    """Of two deliveries by one window the later one has the higher count; so has one after a release that is durable.
    None is above the limit."""
    shares = case.history.shares
    acknowledged = _by_place(shares.acknowledged)
    for place, handed_out in _by_place(shares.handed_out).items():
        limit = shares.groups[place.group].count_limit
        for each in handed_out:
            if not 1 <= each.count <= limit:
                yield f"{_named(place)} was delivered with the count {each.count}, of {limit} at most"
        for first, second in pairwise(handed_out):
            if first.window == second.window and second.count <= first.count:
                yield f"the count of {_named(place)} went from {first.count} to {second.count} at {first.tenure}"
        for done in acknowledged.get(place, ()):
            since = done.durable_since
            if done.kind is not Kind.RELEASE or since is None:
                continue
            had = [each for each in handed_out if each.member == done.member and each.moment < done.asked]
            for each in handed_out:
                is_later = each.moment > since and each.is_current
                if had and is_later and _is_same_state(had[-1], each) and each.count <= had[-1].count:
                    yield (
                        f"{_named(place)} was released by {done.member} after delivery {had[-1].count}, "
                        f"and came with the count {each.count} to {each.member}"
                    )


def _is_same_state(one: HandedOut, other: HandedOut) -> bool:
    return one.tenure.state_epoch == other.tenure.state_epoch


def nothing_is_left_out(case: Case) -> Violations:
    """When a group has come to the end, each record that it could read was handed out, and then accepted or rejected by
    somebody, or its deliveries were used up."""
    shares = case.history.shares
    handed_out, acknowledged = _by_place(shares.handed_out), _by_place(shares.acknowledged)
    for promise in shares.groups.values():
        for place, value in _readable(case, promise):
            given = handed_out.get(place, [])
            if not given:
                yield f"{_named(place)}, {value}, was never delivered"
                continue
            is_decided = any(each.kind in FINAL for each in acknowledged.get(place, ()))
            if not is_decided and max(each.count for each in given) < promise.count_limit:
                yield f"{_named(place)}, {value}, is done, and nobody has decided about it"


def _readable(case: Case, promise: SharePromise) -> Iterator[tuple[Place, str]]:
    for partition, final in case.final.partitions.items():
        if partition.topic not in promise.topics:
            continue
        if promise.is_committed:
            seen = list(final.committed)
        else:
            seen = [each for batch in final.batches for each in records(batch)]
        for offset, value in seen:
            yield Place(promise.group, partition, offset), value


def members_get_what_they_may(case: Case) -> Violations:
    """A record in a member's hands is in the log at its offset, and committed if its group reads nothing else."""
    shares = case.history.shares
    for told in shares.told:
        group, partition, offset = told.place
        places = case.visible if shares.groups[group].is_committed else case.places
        is_there = (partition, offset) in places.get(told.text, ())
        if not is_there and not (partition == COMPACTED and case.may_be_gone(told.text)):
            yield f"{told.member} was given {told.text!r} at {_named(told.place)}, which is not to be read there"


def starts_never_go_back(case: Case) -> Violations:
    """Where a group begins moves forward, but for an administrator's reset."""
    shares = case.history.shares
    told_of: dict[tuple[str, TopicPartition], list[StartTold]] = {}
    for told in shares.starts:
        told_of.setdefault((told.group, told.partition), []).append(told)
    for (group, partition), all_told in told_of.items():
        resets = [each for each in shares.resets if each.group == group]
        for told in all_told:
            before = max((each.offset for each in all_told if _is_before(each, told, resets)), default=-1)
            if told.offset < before and not told.is_excused:
                yield f"{group} began at {before} of {partition}, and at {told.offset} later"


def _is_before(one: StartTold, other: StartTold, resets: Iterable[Reset]) -> bool:
    """True if the first one is answered when the other is asked, and no administrator comes in between."""
    return one.answered < other.asked and not any(
        reset.asked < other.answered and (reset.answered is None or reset.answered > one.asked) for reset in resets
    )


def rejected_have_dead_letters(case: Case) -> Violations:
    """In a group with dead letters each record whose rejection was told has one in the end, and none is made up."""
    shares = case.history.shares
    texts = {each.place: each.text for each in shares.told}
    for group, letters in shares.letters.items():
        written = set(letters) - {""}
        rejected = [each for each in shares.acknowledged if each.place.group == group and each.kind is Kind.REJECT]
        for done in rejected:
            if done.place.partition == COMPACTED:
                continue  # compaction may have taken what there was to copy
            if done.durable_since is not None and texts.get(done.place) not in written:
                yield f"{_named(done.place)} was rejected by {done.member}, and has no dead letter"
        may_have = {texts.get(each.place) for each in rejected} | _used_up(case, shares, group)
        for text in sorted(written - {text for text in may_have if text is not None}):
            yield f"{group} has a dead letter of {text!r}, which was neither rejected nor delivered too often"


def _used_up(case: Case, shares: ShareHistory, group: str) -> set[str]:
    """What the records of a group say whose last delivery there was, whether or not anybody heard of it."""
    limit = shares.groups[group].count_limit
    last = {each.place for each in shares.handed_out if each.place.group == group and each.count >= limit}
    found = {each.text for each in shares.told if each.place in last}
    where = {place[1:] for place in last}
    return found | {value for value, places in case.places.items() if where.intersection(places)}


def _named(place: Place) -> str:
    return f"{place.partition.topic}-{place.partition.partition}@{place.offset} of {place.group}"


RULES = (
    one_member_at_a_time,
    final_is_final,
    counts_only_grow,
    nothing_is_left_out,
    members_get_what_they_may,
    starts_never_go_back,
    rejected_have_dead_letters,
)
