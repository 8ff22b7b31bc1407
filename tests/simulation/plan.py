"""What a seed stands for: the clients of a run, the faults that meet them, and when."""

import random
from dataclasses import dataclass, replace

from eosin.protocol.names import TopicPartition
from simulation.values import COMPACTED, DELETED, RETAINED, SMALLEST_SEGMENT_BYTES

TOPICS = ("a", "b")
PARTITIONS = tuple(TopicPartition(topic, index) for topic in TOPICS for index in range(2))
FAULTS = (
    *("power",) * 3,
    *("stop at call",) * 3,
    "kill",
    "restart",
    "failed sync",
    "failed call",
    "full disk",
    "slow disk",
    "slow network",
    "jump",
)
"""What may happen, as often as it is to happen."""
DURABLE_FAULTS = frozenset({"power", "failed sync", "failed call"})
"""Those against which only durability `fsync` promises anything."""


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """One instance of an application, and how it ends."""

    transactions: int
    version: int
    timeout_ms: int
    patience_ms: float
    life_ms: float
    """Killed after this, if it still runs."""
    successor_ms: float
    """After this the next instance starts, whether this one runs or not."""


@dataclass(frozen=True, slots=True)
class AppPlan:
    """An application. With `sources` its instances copy what they read there; else they write."""

    name: str
    """Its transactional id, and its group if it reads."""
    instances: tuple[InstancePlan, ...]
    sources: tuple[TopicPartition, ...] = ()
    is_group: bool = False
    """Whether its instances are members of a group, each with a transactional id of its own."""
    is_static: bool = False
    """Whether all of them are one static member (KIP-345), each in the place of the one before."""
    is_consumer: bool = False
    """Whether they are members by the consumer protocol (KIP-848)."""
    is_streams: bool = False
    """Whether they are members of a streams group (KIP-1071)."""
    decides: bool = False
    """Whether a database decides its transactions, which have no timeout (KIP-939)."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault."""

    after: int
    """So many moments of the history after the fault before."""
    kind: str
    lasts_ms: float
    number: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A run. The same plan leads to the same history."""

    seed: int
    durability: str
    apps: tuple[AppPlan, ...]
    idempotent: int
    """Batches that a producer without transactions writes, in all."""
    readers: int
    watchers: int
    """Instances of a consumer that commits its offsets outside of transactions."""
    segment_bytes: int
    sync_ms: float
    delay_ms: float
    stall: float
    """How likely a request comes seconds late."""
    cold: float
    few_epochs: bool
    """Whether producer ids are used up after a few epochs."""
    recovers: bool
    """Whether a producer may go on after a timeout (`transaction.timeout.recovery`)."""
    retains: bool
    """Whether there is a topic from which retention removes what is old."""
    expires: bool
    """Whether a transactional id is forgotten when it was unused for a moment."""
    deletions: int
    """How often a topic is deleted and created again."""
    faults: tuple[FaultPlan, ...]

    @property
    def targets(self) -> tuple[TopicPartition, ...]:
        """Where producers write to."""
        short_lived = ((RETAINED, self.retains), (DELETED, self.deletions))
        return (*PARTITIONS, COMPACTED, *(partition for partition, exists in short_lived if exists))


def plan_of(seed: int) -> Plan:
    """The plan that `seed` stands for."""
    chance = random.Random(f"plan {seed}")
    durability = "fsync" if chance.random() < 0.8 else "os"
    writers = chance.choice((1, 1, 2, 2, 3))
    copiers = chance.choice((0, 1, 1, 2))
    apps = [AppPlan(f"writer-{index}", _instances(chance)) for index in range(writers)]
    for index, source in enumerate(chance.sample(PARTITIONS, copiers)):
        apps.append(AppPlan(f"copier-{index}", _instances(chance), (source,)))
    if chance.random() < 0.3:
        topic = chance.choice(TOPICS)
        sources = tuple(partition for partition in PARTITIONS if partition.topic == topic)
        is_static = seed % 4 == 1 or seed % 16 == 10 or seed % 32 == 7
        how = {"is_static": is_static, "is_consumer": seed % 4 == 2, "is_streams": seed % 16 == 7}
        apps.append(AppPlan("group", _instances(chance), sources, is_group=True, **how))
    plan = Plan(
        seed,
        durability,
        tuple(apps),
        idempotent=chance.choice((0, 0, 3, 6)),
        readers=chance.choice((0, 1, 2)),
        watchers=chance.choice((0, 0, 0, 1, 3)),
        segment_bytes=chance.choice((SMALLEST_SEGMENT_BYTES, 1500, 1 << 20)),
        sync_ms=chance.choice((0.5, 4.0, 20.0)),
        delay_ms=chance.choice((1.0, 1.0, 10.0)),
        stall=chance.choice((0.0, 0.0, 0.05)),
        cold=chance.choice((0.0, 0.0, 0.3)),
        few_epochs=chance.random() < 0.15,
        recovers=chance.random() < 0.85,
        retains=chance.random() < 0.2,
        expires=seed % 16 == 4,
        deletions=chance.choice((0, 0, 0, 0, 1, 2, 3)),
        faults=_faults(chance, durability),
    )
    if chance.random() < 0.12:
        plan = replace(plan, apps=(*plan.apps, AppPlan("database", _instances(chance), decides=True)))
    return plan


def _instances(chance: random.Random) -> tuple[InstancePlan, ...]:
    version = chance.choice((1, 2, 2))
    timeout_ms = chance.choice((200, 800, 2500, 2500))
    return tuple(
        InstancePlan(
            transactions=chance.choice((1, 2, 3)),
            version=version if chance.random() < 0.9 else 3 - version,
            timeout_ms=timeout_ms,
            patience_ms=chance.choice((200.0, 2000.0, 60_000.0)),
            life_ms=chance.random() * 400 if chance.random() < 0.3 else 1e9,
            successor_ms=chance.random() * 400 if chance.random() < 0.4 else 1e9,
        )
        for _ in range(chance.choice((1, 2, 2, 3)))
    )


def _faults(chance: random.Random, durability: str) -> tuple[FaultPlan, ...]:
    kinds = [kind for kind in FAULTS if durability == "fsync" or kind not in DURABLE_FAULTS]
    return tuple(
        FaultPlan(
            chance.randint(1, chance.choice((10, 50, 150))),
            chance.choice(kinds),
            chance.choice((20.0, 100.0, 600.0)) * chance.random(),
            chance.randint(1, 60),
        )
        for _ in range(chance.choice((0, 1, 2, 3, 4, 5)))
    )
