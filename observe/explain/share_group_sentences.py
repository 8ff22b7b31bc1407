"""The sentence about a share group (KIP-932): where it is, and who reads (console.md 3)."""

from typing import Final

from eosin.observe.explain.event_words import in_words
from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import GroupFacts, SharedPartition
from eosin.observe.recorder.wording import clipped, name, plural

MOST_SHOWN: Final = 20
"""Partitions in the evidence."""


def explain_share_group(facts: GroupFacts) -> Explained:
    """Explain what of its partitions a share group is not done with."""
    parts = facts.shared or ()
    left = sum(each.lag for each in parts if each.lag > 0)
    unread = [each for each in parts if each.start_offset < 0]
    sentence = f"share group {name(facts.group)}: {facts.state}, {plural(len(facts.members), 'member')}"
    sentence += f", {plural(left, 'record')} not done with in {plural(len(parts), 'partition')}"
    if unread:
        sentence += f", of which nobody has read {plural(len(unread), 'partition')} yet"
    if facts.epoch > facts.assignment_epoch and facts.members:
        sentence += f"; its partitions at epoch {facts.epoch} are decided at a member's next heartbeat"
    return Explained(
        subject=facts.group,
        sentence=clipped(f"{sentence}."),
        evidence=tuple(_line(each) for each in parts if each.lag > 0)[:MOST_SHOWN],
        next=_next(facts, left),
        timeline=() if facts.history is None else in_words(facts.history.events),
        sources=facts.sources,
    )


def _line(partition: SharedPartition) -> str:
    readers = plural(partition.readers, "member") if partition.readers else "nobody"
    records = plural(partition.lag, "record")
    return f"{name(partition.partition)}: {records} from offset {partition.start_offset}, read by {readers}"


def _next(facts: GroupFacts, left: int) -> Next | None:
    if not facts.members:
        return Next("Nobody reads: the group has no members, and stays until it is deleted.")
    if left:
        return Next("Records come again when their locks run out (share.record.lock.duration.ms).")
    return None
