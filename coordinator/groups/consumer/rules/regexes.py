"""Regular expressions in subscriptions: when their topics are looked for, and what follows (consumer-groups.md 5)."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import RegexesResolved
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ResolvedRegex

PAUSE_MS: Final = 10_000
"""Between two searches of a group."""


def due(group: ConsumerGroup, *, now_ms: int, topics_changed: bool, refresh_ms: int) -> frozenset[str]:
    """The regular expressions whose topics are to be looked for: all of the group, if one has none yet, if topics may
    have come since the last search (`topics_changed`), or if this was long ago."""
    if not group.counts.regexes:
        return frozenset()
    used = used_by(group)
    if not used <= group.regexes.keys():
        return used
    since = now_ms - min(group.regexes[each].timestamp_ms for each in used)
    if 0 <= since < PAUSE_MS:
        return frozenset()
    return used if topics_changed or not 0 <= since < refresh_ms else frozenset()


def used_by(group: ConsumerGroup) -> frozenset[str]:
    """The regular expressions that members are subscribed to."""
    return frozenset(group.counts.regexes)


def resolved(decision: ConsumerDecision, event: RegexesResolved) -> None:
    """Keep what was found. Another set of topics begins another group epoch; to find none at first is no change."""
    used = decision.group.counts.regexes
    changed = False
    for regex, found in event.resolved.items():
        if regex not in used:
            continue
        before = decision.group.regexes.get(regex)
        changed = changed or found.topics != (frozenset() if before is None else before.topics)
        decision.put_regex(regex, found)
    for regex in sorted(event.unreadable.intersection(used)):
        # What another coordinator has found counts on: to find nothing would take their partitions from its members.
        before = decision.group.regexes.get(regex, ResolvedRegex(frozenset(), 0, 0))
        decision.put_regex(regex, replace(before, timestamp_ms=decision.now_ms))
    names = decision.group.subscribed_names()
    if changed or decision.hash_of(names) != decision.group.metadata_hash:
        decision.bump()
