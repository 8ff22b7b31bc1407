"""What a seed stands for in a cluster: the clients of a run of one broker, three brokers, and faults that strike
machines, routes and controllers."""

import random
from dataclasses import dataclass, replace

from simulation.cluster.directed import CUT_DECISION, DEPOSED, DIRECTED, JUMP_BESIDE_LAG, TO_AND_FRO
from simulation.cluster.share_plan import SharePlan, share_plan
from simulation.plan import AppPlan, FaultPlan, Plan
from simulation.profiles import CLUSTER_PROFILES, PROFILES, profiled

BROKERS = (1, 2, 3)
FAULTS = (
    *("kill",) * 3,
    *("power",) * 3,
    "kill all",
    "power all",
    *("restart",) * 2,
    *("isolate",) * 2,
    *("cut one way",) * 2,
    "cut from controllers",
    "cut between brokers",
    "slow link",
    "slow disk",
    "stop at call",
    "pause",
    "failed sync",
    "failed call",
    *("election",) * 2,
    "controller",
    "no controller",
)
"""What may happen, as often as it is to happen."""
RARER_FAULTS = (
    "elections in turn",
    "coordinators in turn",
    "snapshot",
    "clients cut off",
    "jump",
    "full disk",
    "reassignment",
    "all but one",
)
"""What may happen besides, in every fourth run: the others stay what they were."""
LONG_CUT = "long cut"
CUT_DELETION = "cut deletion"
CUT_MARKER = "cut marker"
ALONE = frozenset({"empty disk", "power all but one", LONG_CUT, CUT_DELETION, CUT_MARKER}) | DIRECTED
"""Those with runs of their own (`ONLY`): each begins when the one before is over. An empty disk waits besides until
every replica is in sync, since what one machine has lost others must have. A long cut between two brokers begins when
markers are on their way, and lasts until they are given up, while clients of the first protocol go on and on. A cut
deletion is on its way from a broker to the controllers when these two are cut off until the broker has given it up; its
client waits until it is done, and creates the topic again. A cut marker is on its way from a leader to a replica in
sync, which leads from then on without it."""
LONG_CUT_MS = 1200.0
"""Longer than `request.timeout.ms`, and than `controller.socket.timeout.ms`."""
MAKES_STALE = frozenset(
    {
        "isolate",
        "cut one way",
        "cut from controllers",
        "slow link",
        "pause",
        "no controller",
        "elections in turn",
        "coordinators in turn",
        "snapshot",
        *(DIRECTED - {JUMP_BESIDE_LAG, TO_AND_FRO}),
    }
)
"""After these a coordinator may not know for a while that another one is elected, and refuse what it does not know."""
LATE = MAKES_STALE | {"controller"}
"""After these a request that a broker passes on may reach the controller when its client has long asked again."""
NEEDS_SYNCS = frozenset({"power", "power all", "power all but one", "failed sync", "failed call"})
"""Those against which only durability `fsync` promises anything."""


NEAR = frozenset({10, 12, 13, 15})
"""The seeds, modulo 16, in whose runs brokers have racks and consumers read from the replica in theirs: the others stay
what they were."""
RACKS = ("r1", "r2", "r3")
SHARING = frozenset({8, 9})
"""The seeds, modulo 16, in whose runs there are share groups: the others stay what they were."""
SHARE_MEMBERS = "share members"
"""The profile of runs that all have share groups (`ONLY`), under the faults of any run."""
TARDY = frozenset({13, 15})
"""The seeds, modulo 16, in whose runs requests often come late, producers give up what takes long, and often come back
when their transaction has timed out."""
TARDY_PATIENCE_MS = 200.0
TARDY_OVERSLEEPS = 0.4
TARDY_DEADLINE_S = 600.0
"""For a run: a member of a group is out of it after one late request, so that one attempt in six or so is committed."""
TARDY_STALL = 0.1


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A run. The same plan leads to the same history."""

    clients: Plan
    """What clients do, and the faults."""
    has_elr: bool
    """Whether the quorum was formatted with `eligible.leader.replicas.version` 1."""
    min_isr: int
    """`min.insync.replicas` of the topics of clients."""
    link_ms: float
    """How long a message between machines takes at most."""
    fetchers: int
    """`num.replica.fetchers`"""
    is_tardy: bool
    """Whether requests often come late, up to the end, and producers after their transactions have timed out."""
    near_readers: int
    """Consumers that read from the replica in their rack; with any, each broker has a rack."""
    shares: tuple[SharePlan, ...] = ()
    """Share groups (KIP-932)."""

    @property
    def features(self) -> dict[str, int]:
        """The levels with which the quorum was formatted: those of new groups only where there are any."""
        apps = self.clients.apps
        return {
            "metadata.version": 33,
            "eligible.leader.replicas.version": int(self.has_elr),
            "transaction.version": 2,
            "group.version": int(any(app.is_consumer for app in apps)),
            "streams.version": int(any(app.is_streams for app in apps)),
            "share.version": 2 if self.shares else 0,
        }


def cluster_plan_of(seed: int, *, only: str | None = None) -> ClusterPlan:
    """The plan that `seed` stands for. With `only`, no fault but that one strikes, or clients do what that profile
    says."""
    chance = random.Random(f"cluster {seed}")
    clients = profiled(seed, only if only in PROFILES or only in CLUSTER_PROFILES else None)
    clients = replace(clients, apps=tuple(_as_in_a_cluster(app, seed, only) for app in clients.apps))
    faults = clients.faults if only in CLUSTER_PROFILES else _faults(chance, seed, clients.durability, only)
    if only == LONG_CUT:
        faults = tuple(replace(fault, lasts_ms=LONG_CUT_MS + fault.lasts_ms) for fault in faults)
    if only in (LONG_CUT, CUT_DECISION, DEPOSED):
        clients = replace(clients, apps=tuple(map(_steady, clients.apps)))
    if only == CUT_DELETION:
        faults = tuple(replace(fault, lasts_ms=LONG_CUT_MS + fault.lasts_ms) for fault in faults)
        clients = replace(clients, deletions=3, idempotent=12)
    if only == SHARE_MEMBERS:
        clients = replace(clients, idempotent=24)
    # A deletion that comes late deletes what was created since: no protocol keeps it from that.
    deletions = 0 if any(fault.kind in LATE for fault in faults) else clients.deletions
    is_tardy = seed % 16 in TARDY and only not in (LONG_CUT, CUT_DELETION, *DIRECTED)
    stall = TARDY_STALL if is_tardy else min(clients.stall, 0.02)
    if is_tardy:
        clients = replace(clients, apps=tuple(_impatient(app, seed) for app in clients.apps))
    return ClusterPlan(
        replace(clients, faults=faults, stall=stall, deletions=deletions),
        has_elr=chance.random() < 0.5,
        min_isr=chance.choice((2, 2, 2, 1)),
        link_ms=chance.choice((1.0, 2.0, 15.0)),
        fetchers=chance.choice((1, 1, 2)),
        is_tardy=is_tardy,
        near_readers=2 if seed % 16 in NEAR else 0,
        shares=share_plan(random.Random(f"shares {seed}")) if _has_shares(seed, only) else (),
    )


def _as_in_a_cluster(app: AppPlan, seed: int, only: str | None) -> AppPlan:
    """The same application; of the groups of new protocols (KIP-848, KIP-1071) only some, where faults of all kinds
    strike: the others stay what they were."""
    if only in PROFILES or only == SHARE_MEMBERS:
        return app
    is_any = only is None
    return replace(app, is_consumer=is_any and app.is_consumer and seed % 8 == 6, is_streams=is_any and app.is_streams)


def _has_shares(seed: int, only: str | None) -> bool:
    return only == SHARE_MEMBERS or (only is None and seed % 16 in SHARING)


def _faults(chance: random.Random, seed: int, durability: str, only: str | None) -> tuple[FaultPlan, ...]:
    kinds = FAULTS if only is None or only in PROFILES or only == SHARE_MEMBERS else (only,)
    if only is None and seed % 4 == 3:
        kinds = (*FAULTS, *RARER_FAULTS * (len(FAULTS) // len(RARER_FAULTS)))
    left = [kind for kind in kinds if durability == "fsync" or kind not in NEEDS_SYNCS]
    return tuple(
        FaultPlan(
            chance.randint(1, chance.choice((10, 50, 150))),
            chance.choice(left),
            chance.choice((20.0, 200.0, 1000.0, 3000.0)) * chance.random(),
            chance.randint(1, 60),
        )
        for _ in range(chance.choice((1, 2, 3, 4)) if left else 0)
    )


def _impatient(app: AppPlan, seed: int) -> AppPlan:
    """The same application, of the first protocol in two of three runs: its epochs stay, so only verification keeps
    late writes out."""
    version = {} if app.decides or not seed % 3 else {"version": 1}
    instances = tuple(replace(each, patience_ms=TARDY_PATIENCE_MS, **version) for each in app.instances)
    return replace(app, instances=instances)


def _steady(app: AppPlan) -> AppPlan:
    """The same application, of the first protocol: it begins one transaction after the other, and gives up nothing."""
    if app.decides:
        return app
    instances = tuple(
        replace(each, transactions=6, version=1, timeout_ms=10_000, patience_ms=60_000.0, life_ms=1e9, successor_ms=1e9)
        for each in app.instances[:1]
    )
    return replace(app, instances=instances)
