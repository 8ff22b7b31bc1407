"""Regular expressions in subscriptions: when their topics are looked for, and what follows from these (new-groups.md
A5)."""

from typing import Final

from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import RegexesResolved
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.consumer.rules.topics import metadata_hash

PAUSE_MS: Final = 10_000
"""Between two searches of a group."""


def is_due(group: ConsumerGroup, *, now_ms: int, version: int, refresh_ms: int) -> bool:
    """True if the topics of the group's regular expressions are to be looked for: one has none yet, topics may have
    come since the last search, or this is long ago. `version` is that of the metadata."""
    used = {member.regex for member in group.members.values() if member.regex}
    if not used:
        return False
    if not used <= group.regexes.keys():
        return True
    oldest = min((group.regexes[each] for each in used), key=lambda each: each.timestamp_ms)
    since = now_ms - oldest.timestamp_ms
    if 0 <= since < PAUSE_MS:
        return False
    return any(group.regexes[each].version < version for each in used) or not 0 <= since < refresh_ms


def resolved(decision: ConsumerDecision, event: RegexesResolved) -> None:
    """Keep what was found. Another set of topics begins another group epoch."""
    used = {member.regex for member in decision.group.members.values()}
    changed = False
    for regex, found in event.resolved.items():
        if regex not in used:
            continue
        before = decision.group.regexes.get(regex)
        changed = changed or before is None or before.topics != found.topics
        decision.put_regex(regex, found)
    names = decision.group.subscribed_names()
    if changed or metadata_hash(names, decision.topics) != decision.group.metadata_hash:
        decision.bump()
