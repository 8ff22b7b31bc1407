"""Features of a cluster and their levels (KIP-584): which there are, which levels brokers work with, and `Features`, by
which `Cluster` shows what is in force.

A level is finalized for the whole cluster: by the settings of a broker that runs alone, at its start, and by the
controllers of several machines, at any time (cluster.md 1.6). Always true: whatever depends on a level reads it from
`Cluster.features`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
"""Finalized by a control record of the quorum, and by no record of its metadata."""
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
"""At 1, consumer groups are served (KIP-848)."""
SHARE_VERSION: Final = "share.version"
"""At 1, share groups are served (KIP-932); at `DEAD_LETTERS_LEVEL` they have dead letters (KIP-1191)."""
DEAD_LETTERS_LEVEL: Final = 2
STREAMS_VERSION: Final = "streams.version"
"""At 1, streams groups are served (KIP-1071)."""
EOSIN_VERSION: Final = "eosin.version"
"""Tells brokers of Eosin from others; its range holds 0, the level of a feature that nobody has finalized, and goes up
to `SERVES_READERS` since followers answer consumers (cluster.md 4.20)."""
SERVES_READERS: Final = 2

LevelRange = tuple[int, int]
"""The lowest and the highest level of a feature that a broker works with."""

SUPPORTED_JOINED: Final[Mapping[str, LevelRange]] = {
    METADATA_VERSION: (25, 33),
    KRAFT_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, DEAD_LETTERS_LEVEL),
    STREAMS_VERSION: (0, 1),
    EOSIN_VERSION: (0, SERVES_READERS),
}
"""Levels that one broker of several works with. A feature that is not named counts as 0 to 0, so that a cluster whose
records Eosin does not know refuses it."""

SUPPORTED_ALONE: Final[Mapping[str, LevelRange]] = {
    name: SUPPORTED_JOINED[name] for name in (GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION)
}
"""Levels that a broker alone works with: its metadata have no records that the other features are about."""

NO_LEVELS: Final[Mapping[str, int]] = {}
LEVELS_OF_NEW_DIRECTORIES: Final[Mapping[str, int]] = {
    GROUP_VERSION: 1,
    SHARE_VERSION: DEAD_LETTERS_LEVEL,
    STREAMS_VERSION: 1,
}
"""Levels that a broker alone begins with. An older directory keeps its own until they are raised."""

CHANGED_WHILE_RUNNING: Final = frozenset({GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION})
"""Features of a broker alone whose level stands in its metadata, and changes with UpdateFeatures."""

LEVEL_SETTINGS: Final[Mapping[str, str]] = {TRANSACTION_VERSION: "eosin.transaction.version"}
"""The settings by which a broker alone finalizes levels."""


class Features(NamedTuple):
    """The features of a cluster as one of its brokers knows them."""

    supported: Mapping[str, LevelRange]
    """Levels that this broker works with; a feature that is not here is unknown to it."""
    finalized: Mapping[str, int]
    """Levels in force. A feature at level 0 is not here (transactions.md 6.5)."""
    epoch: int
    """Grows with each change of `finalized`, and never goes back: clients keep the levels that they were sent with the
    highest."""

    def level(self, name: str) -> int:
        """The level in force of a feature; 0 for one that is not finalized."""
        return self.finalized.get(name, 0)


def features_alone(*, transaction_version: int, levels: Mapping[str, int] = NO_LEVELS, epoch: int) -> Features:
    """The features of a broker alone whose settings choose this level of `transaction.version`, and whose metadata have
    these `levels` of others."""
    finalized = {TRANSACTION_VERSION: transaction_version, **levels}
    return Features(SUPPORTED_ALONE, {name: level for name, level in finalized.items() if level}, epoch)
