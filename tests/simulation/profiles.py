"""Runs that do one thing over and over (`ONLY`): what a seed seldom draws, and a planted bug needs.

A profile keeps what it does not speak of from the plan of the seed. One of a single broker says in a cluster what
clients do, and faults are those of any run.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from simulation.plan import PARTITIONS, TOPICS, AppPlan, FaultPlan, InstancePlan, Plan, plan_of

NEVER_MS: Final = 1e9
_CUTS: Final = ("isolate", "isolate", "cut from controllers", "election")

Profile = Callable[[Plan, random.Random], Plan]


def profiled(seed: int, only: str | None) -> Plan:
    """The plan that `seed` stands for, in a profile if one is named."""
    plan = plan_of(seed)
    return plan if only is None else {**PROFILES, **CLUSTER_PROFILES}[only](plan, random.Random(f"{only} {seed}"))


def _instances(
    chance: random.Random, count: int, *, transactions: int = 3, successor_ms: float = NEVER_MS
) -> tuple[InstancePlan, ...]:
    """Patient instances, each with a successor after so long at most, while it still runs."""
    return tuple(
        InstancePlan(
            transactions=transactions,
            version=chance.choice((1, 2)),
            timeout_ms=2500,
            patience_ms=60_000.0,
            life_ms=NEVER_MS,
            successor_ms=successor_ms if successor_ms == NEVER_MS else successor_ms * chance.random(),
        )
        for _ in range(count)
    )


def _writers(chance: random.Random, count: int) -> tuple[AppPlan, ...]:
    return tuple(AppPlan(f"writer-{index}", _instances(chance, 3)) for index in range(count))


def _copiers(chance: random.Random) -> tuple[AppPlan, ...]:
    """One for each partition, with one instance after the other."""
    return tuple(
        AppPlan(f"copier-{index}", _instances(chance, 5, transactions=2, successor_ms=600), (source,))
        for index, source in enumerate(PARTITIONS)
    )


def _slow_moments(chance: random.Random, count: int) -> tuple[FaultPlan, ...]:
    """Requests and syncs that take long."""
    return tuple(
        FaultPlan(chance.randint(1, 50), chance.choice(("slow network", "slow disk")), 600 * chance.random(), 1)
        for _ in range(count)
    )


def _full_for_a_moment(plan: Plan, chance: random.Random) -> Plan:
    """The disk is full for so short that of several batches in flight a later one is taken, and the first is not."""
    faults = tuple(
        FaultPlan(chance.randint(1, 12), "full disk", 20 * chance.random(), chance.randint(1, 10)) for _ in range(16)
    )
    return replace(
        plan,
        durability="os",
        apps=_writers(chance, 2),
        idempotent=30,
        stall=0.0,
        delay_ms=10.0,
        deletions=0,
        faults=faults,
    )


def _members(
    plan: Plan,
    chance: random.Random,
    *,
    are_static: bool = False,
    are_consumers: bool = False,
    are_streams: bool = False,
) -> Plan:
    """A group whose members come while others are in the middle of a transaction: with the same name, if they are
    static, or as one more. Where they are consumers (KIP-848), or run tasks (KIP-1071), some die, and the broker goes
    down as in any run."""
    topic = chance.choice(TOPICS)
    sources = tuple(partition for partition in PARTITIONS if partition.topic == topic)
    instances = _instances(chance, 4, successor_ms=300)
    writers, faults = _writers(chance, 2), _slow_moments(chance, 3)
    if are_consumers or are_streams:
        instances = tuple(replace(each, life_ms=_life_ms(chance)) for each in instances)
        faults += plan.faults
    how = {"is_group": True, "is_static": are_static, "is_consumer": are_consumers, "is_streams": are_streams}
    apps = (*writers, AppPlan("group", instances, sources, **how))
    return replace(plan, apps=apps, delay_ms=10.0, stall=0.05, deletions=0, faults=faults)


def _life_ms(chance: random.Random) -> float:
    return 1000 * chance.random() if chance.random() < 0.3 else NEVER_MS


def _forgotten_ids(plan: Plan, chance: random.Random) -> Plan:
    """Ids are forgotten that were unused for a moment, and transactions take longer than that."""
    return replace(plan, apps=_writers(chance, 3), expires=True, stall=0.1, faults=_slow_moments(chance, 4))


def _copiers_cut_off(plan: Plan, chance: random.Random) -> Plan:
    """Copiers follow each other, and each asks a coordinator for what the one before has committed: perhaps one that is
    none any more."""
    faults = tuple(
        FaultPlan(chance.randint(1, 60), chance.choice(_CUTS), 1000 + 2000 * chance.random(), chance.randint(1, 60))
        for _ in range(5)
    )
    apps = (*_writers(chance, 2), *_copiers(chance))
    plan = replace(plan, durability="fsync", apps=apps, idempotent=20, stall=0.0, deletions=0, faults=faults)
    return replace(plan, expires=False, few_epochs=False)


PROFILES: Final[Mapping[str, Profile]] = {
    "full for a moment": _full_for_a_moment,
    "more members": _members,
    "static members": partial(_members, are_static=True),
    "consumer members": partial(_members, are_consumers=True),
    "static consumer members": partial(_members, are_static=True, are_consumers=True),
    "streams members": partial(_members, are_streams=True),
    "forgotten ids": _forgotten_ids,
}
CLUSTER_PROFILES: Final[Mapping[str, Profile]] = {
    "copiers cut off": _copiers_cut_off,
}
"""Those whose faults strike clusters alone."""
