"""The world of one replicated partition: a controller, brokers with a replica each, and messages between them.

A state is a tuple of frozen values. A record is (leader epoch, number); batches hold one record. What was committed is
remembered on the side, to be compared with.
"""

from dataclasses import dataclass
from typing import NamedTuple

from eosin.cluster.replication.rules.followed_partition import Answered, FetchPosition, FollowedPartition, Phase
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.leading import FollowerFetch
from eosin.cluster.replication.rules.led_partition import IsrChange, LedPartition

Record = tuple[int, int]
NO_LEADER = -1


@dataclass(frozen=True)
class Bounds:
    """A configuration: who takes part, and how often what may happen."""

    name: str
    about: str
    brokers: int = 2
    min_in_sync: int = 1
    elr: bool = False
    """Whether the controller keeps eligible leader replicas (KIP-966)."""
    appends: int = 2
    crashes: int = 0
    """A broker stops, and loses what it had not synced, or keeps it."""
    losses: int = 0
    """A stopped broker comes back with an empty disk."""
    fences: int = 0
    """The controller hears nothing of a running broker for a session timeout."""
    elections: int = 0
    """The controller makes another replica in sync the leader, or the same one again."""
    lags: int = 0
    """`replica.lag.time.max.ms` pass."""
    late_fetches: int = 0
    """A copy of a fetch arrives later, whatever happened meanwhile."""
    lost_answers: int = 0
    """The controller's answer to a change of the ISR is lost."""
    records_per_fetch: int = 8
    fair_every: int = 1
    """From every so-manieth state the model runs on, fairly, to the end."""
    max_states: int = 3_000_000


class Budget(NamedTuple):
    """What may still happen."""

    appends: int
    crashes: int
    losses: int
    fences: int
    elections: int
    lags: int
    late_fetches: int
    lost_answers: int


class Registered(NamedTuple):
    """A broker, as the controller has it (`positions.Registration`)."""

    epoch: int
    fenced: bool
    in_controlled_shutdown: bool = False


class Controller(NamedTuple):
    """The metadata log's newest state (`led_partition.PartitionMetadata`, and the brokers)."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    brokers: tuple[Registered, ...]
    """By node id, from 0 on."""
    newest_epoch: int
    """Of all registrations."""


class Replica(NamedTuple):
    """A broker with its replica. `log` and what follows survive a crash, as far as they were durable."""

    log: tuple[Record, ...]
    epochs: tuple[tuple[int, int], ...]
    durable_end: int
    high_watermark: int
    incarnation: int = 0
    """Its broker epoch; 0 while it is down."""
    image: Controller | None = None
    """What it knows of the metadata log."""
    led: LedPartition | None = None
    followed: FollowedPartition | None = None


class FetchRequest(NamedTuple):
    """A follower's fetch."""

    leader: int
    fetch: FollowerFetch
    position: FetchPosition


class FetchAnswer(NamedTuple):
    """The leader's answer."""

    answered: Answered
    records: tuple[Record, ...]


class Change(NamedTuple):
    """A change of the ISR on its way to the controller."""

    leader: int
    incarnation: int
    change: IsrChange


class ChangeAnswer(NamedTuple):
    """The controller's answer on its way."""

    leader: int
    incarnation: int
    change: IsrChange
    answer: IsrChangeResult


class State(NamedTuple):
    """Everything, at one moment."""

    controller: Controller
    replicas: tuple[Replica, ...]
    late: tuple[FetchRequest, ...]
    """Fetches of connections that were given up."""
    changes: tuple[Change | ChangeAnswer, ...]
    committed: tuple[Record, ...]
    """All that a leader has ever called committed."""
    now: int
    """How often `replica.lag.time.max.ms` has passed."""
    budget: Budget


ASKING = (Phase.ASKING_LATEST, Phase.ASKING_EARLIEST)
