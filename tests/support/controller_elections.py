"""Change a partition as a controller of Apache Kafka 4.3.1 does when brokers come and go: its leader, its ISR and the
replicas that may lead besides (KIP-966, cluster.md 2.4 and 4.12). Pure, for `fake_controller.py`.

Made from what a real controller has written (`tests/cluster/quorum/transcripts`, `tests/clusters/test_controller.py`):
with `eligible.leader.replicas.version` 0 the last member of an ISR stays in it, with 1 it goes over to the ELR.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from eosin.cluster.quorum.rules.image import NO_LEADER, PartitionRegistration
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.records.metadata import PartitionChangeRecord

SAME_LEADER: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The facts that decide beside the partition itself."""

    has_elr: bool
    """True if `eligible.leader.replicas.version` is 1."""
    min_isr: int
    """The topic's `min.insync.replicas`."""
    may_lead: Callable[[int], bool]
    """Returns True if a replica is alive, not on its way out, and its directory online."""


def partition_change(
    topic_id: Uuid,
    index: int,
    partition: PartitionRegistration,
    rules: Rules,
    *,
    isr: Collection[int] | None = None,
    unclean: Collection[int] = (),
    prefers_first: bool = False,
    leader_recovered: bool = False,
    directories: tuple[Uuid, ...] | None = None,
) -> PartitionChangeRecord | None:
    """The record that a partition needs, None when it stays as it is.

    `isr` is the ISR that is wanted; `unclean` are replicas that come back from a stop after which they may lack
    something; `prefers_first` asks for an election of the first replica, also away from a leader that is well.
    """
    wanted = [each for each in partition.replicas if each in (partition.isr if isr is None else isr)]
    if isr is not None and set(wanted) == set(isr):
        wanted = list(isr)
    elr, last_known = _elr(partition, wanted, rules, unclean)
    leader, is_unclean = _leader(partition, wanted, elr, rules, prefers_first=prefers_first)
    change: dict[str, object] = {}
    if leader != partition.leader:
        change["leader"] = leader
        if is_unclean:
            wanted, elr, last_known = [leader], (), ()
            if not partition.recovering:
                change["leader_recovery_state"] = RECOVERING
        elif leader != NO_LEADER and leader not in wanted:  # from the ELR
            wanted = [leader]
            elr = tuple(each for each in elr if each != leader)
            elr, last_known = _elr(partition, wanted, rules, unclean)
    if tuple(wanted) != partition.isr and (wanted or rules.has_elr):
        change["isr"] = tuple(wanted)
        if not wanted and partition.leader != NO_LEADER:
            last_known = (partition.leader,)
    if rules.has_elr and set(elr) != set(partition.elr):
        change["eligible_leader_replicas"] = elr
    if rules.has_elr and last_known != partition.last_known_elr:
        change["last_known_elr"] = last_known
    if leader_recovered and partition.recovering:
        change["leader_recovery_state"] = RECOVERED
    if directories is not None and directories != partition.directories:
        change["directories"] = directories
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **change) if change else None  # type: ignore[arg-type]


def _elr(
    partition: PartitionRegistration, isr: list[int], rules: Rules, unclean: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The replicas that may lead though not in sync, and the last leader of a partition that has none. Both are empty
    while the ISR is large enough."""
    if not rules.has_elr or len(isr) >= min(rules.min_isr, len(partition.replicas)):
        return (), ()
    candidates = dict.fromkeys((*partition.elr, *partition.isr))
    elr = tuple(sorted(each for each in candidates if each not in isr and each not in unclean))
    return elr, partition.last_known_elr


def _leader(
    partition: PartitionRegistration, isr: list[int], elr: tuple[int, ...], rules: Rules, *, prefers_first: bool
) -> tuple[int, bool]:
    """The leader, and True if the election is unclean."""

    def is_valid(replica: int) -> bool:
        return (replica in isr or (not isr and replica in elr)) and rules.may_lead(replica)

    if prefers_first and is_valid(partition.replicas[0]):
        return partition.replicas[0], False
    if is_valid(partition.leader):
        return partition.leader, False
    found = next((each for each in partition.replicas if is_valid(each)), None)
    if found is not None:
        return found, False
    last = partition.last_known_elr
    if rules.has_elr and not isr and not elr and len(last) == 1 and rules.may_lead(last[0]):
        return last[0], True
    return NO_LEADER, False
