"""The sentence about a share group (KIP-932): where it is, who reads, and what holds a partition back (console.md 3).
Pure."""

from typing import Final

from eosin.observe.explain.event_words import in_words
from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import GroupFacts, SharedPartition
from eosin.observe.recorder.wording import client, clipped, duration, moment, name, number, plural

MOST_SHOWN: Final = 20
"""Partitions in the evidence."""
LONG_MS: Final = 60_000
"""A record that nobody finishes for so long is worth a word."""
_AT_LIMIT: Final = "records_in_flight"
_UNFINISHED: Final = "unfinished_record"


def explain_share_group(facts: GroupFacts) -> Explained:
    """Explain what of its partitions a share group is not done with, and who holds it back."""
    parts = facts.shared or ()
    left = sum(each.lag for each in parts if each.lag > 0)
    unread = [each for each in parts if each.start_offset < 0]
    sentence = f"share group {name(facts.group)}: {facts.state}, {plural(len(facts.members), 'member')}"
    sentence += f", {plural(left, 'record')} not done with in {plural(len(parts), 'partition')}"
    held = _held_back(facts)
    if unread and held is None:  # there is room for one of them
        some = "" if len(unread) == len(parts) else f"{len(unread)} of "
        sentence += f", {some}which nobody has read yet"
    if held is not None:
        sentence += f"; {_holding(held, facts)}"
    elif facts.epoch > facts.assignment_epoch and facts.members:
        sentence += f"; its partitions at epoch {facts.epoch} are decided at a member's next heartbeat"
    evidence = [_line(each, facts) for each in parts if each.lag > 0 or each.in_flight or each.given_up]
    return Explained(
        subject=facts.group,
        sentence=clipped(f"{sentence}."),
        cause="" if held is None else _AT_LIMIT if held.is_at_its_limit else _UNFINISHED,
        evidence=(*evidence[:MOST_SHOWN], *_idle(facts)),
        next=_next(facts, left, held),
        timeline=() if facts.history is None else in_words(facts.history.events),
        sources=facts.sources,
    )


def _held_back(facts: GroupFacts) -> SharedPartition | None:
    """The partition whose oldest record holds back the most, if any has waited for long: first those at their limit,
    then those that were handed out in vain."""
    held = [
        each
        for each in facts.shared or ()
        if each.is_at_its_limit
        or (each.since_ms >= 0 and facts.now_ms - each.since_ms >= LONG_MS and (each.in_flight or each.returned))
    ]
    return min(held, key=lambda each: (not each.is_at_its_limit, each.since_ms), default=None)


def _holding(held: SharedPartition, facts: GroupFacts) -> str:
    """The record that holds a partition back, as a clause."""
    oldest = f"offset {number(held.start_offset)}"
    if held.is_at_its_limit:
        what = f"{name(held.partition)} is at its limit of {number(held.limit)} records under way, behind {oldest}"
    else:
        ago = duration(facts.now_ms - held.since_ms)
        what = f"{oldest} of {name(held.partition)} is not done for {ago}"
    return f"{what}, {_whereabouts(held, facts)}"


def _whereabouts(part: SharedPartition, facts: GroupFacts) -> str:
    """The member that has the oldest record of a partition, and for the which time."""
    if part.holder is None:
        return f"which nobody has; it was delivered {plural(part.deliveries, 'time')}"
    until, nth = moment(part.until_ms, facts.now_ms), _ordinal(part.deliveries)
    return f"which {client(part.holder)} has until {until}, for the {nth} time of {number(part.delivery_limit)}"


def _ordinal(count: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(count, f"{count}th")


def _line(part: SharedPartition, facts: GroupFacts) -> str:
    readers = plural(part.readers, "member") if part.readers else "nobody"
    records = plural(max(0, part.lag), "record")
    line = f"{name(part.partition)}: {records} from offset {part.start_offset}, read by {readers}"
    if part.end_offset < 0:
        return line
    line += f"; {number(part.in_flight)} in flight, {number(part.returned)} to be delivered again"
    if part.given_up:
        line += f", {number(part.given_up)} given up after {number(part.delivery_limit)} deliveries"
    if part.in_flight or part.returned:
        line += f"; offset {number(part.start_offset)} is the oldest, {_whereabouts(part, facts)}"
    return line


def _idle(facts: GroupFacts) -> tuple[str, ...]:
    """The members that have no partition."""
    if not facts.idle:
        return ()
    others = f" and {plural(len(facts.idle) - 1, 'other')}" if len(facts.idle) > 1 else ""
    why = "the topics that it is subscribed to have no partition that can be read yet"
    return (f"{client(facts.idle[0])}{others}: no partition, since {why}",)


def _next(facts: GroupFacts, left: int, held: SharedPartition | None) -> Next | None:
    if held is not None and held.holder is not None:
        return Next(
            f"{client(held.holder)} has to accept, release or reject it, or its lock ends; after"
            f" {number(held.delivery_limit)} deliveries it is given up (share.delivery.count.limit).",
            held.until_ms,
        )
    if not facts.members:
        return Next("Nobody reads: the group has no members, and stays until it is deleted.")
    if left:
        return Next("Records come again when their locks run out (share.record.lock.duration.ms).")
    return None
