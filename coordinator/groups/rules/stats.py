"""`GroupStats`: counts of what a broker's groups have done since its start, kept by those who do it."""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupStats:
    """Counters; each only grows."""

    completed_rebalances: int = 0
    """Generations of classic groups whose members all have their assignments."""
    consumer_rebalances: int = 0
    """Group epochs of consumer groups (KIP-848) that a member's heartbeat, or other topics of a regular expression,
    have begun; as in Kafka, those that follow from a departure are not counted."""
    share_rebalances: int = 0
    """The same of share groups (KIP-932)."""
    streams_rebalances: int = 0
    """The same of streams groups (KIP-1071)."""
    commits: int = 0
    """Offsets that were committed, outside of transactions."""
    expirations: int = 0
    """Offsets that were forgotten when their retention had passed."""
    deletions: int = 0
    """Offsets that clients have deleted (OffsetDelete)."""
