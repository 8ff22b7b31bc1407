"""What a seed stands for in share groups (KIP-932): which there are, and who comes and goes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eosin.settings.broker import BrokerConfig
from simulation.plan import TOPICS
from simulation.values import COMPACTED

LOCK_S: Final = 1.0
"""How long a member has a record: the shortest time that the broker allows."""


@dataclass(frozen=True, slots=True)
class ShareMemberPlan:
    """One member, and how it ends."""

    comes_s: float
    life_s: float


@dataclass(frozen=True, slots=True)
class SharePlan:
    """One share group."""

    group: str
    topics: tuple[str, ...]
    is_committed: bool
    count_limit: int
    has_letters: bool
    members: tuple[ShareMemberPlan, ...]
    resets_s: float | None
    """When an administrator has it begin anew, who waits until it is empty; None: nobody does."""


def share_plan(chance: random.Random) -> tuple[SharePlan, ...]:
    """The share groups of a run."""
    limit = chance.choice((2, 5, 10, 10))
    return tuple(
        SharePlan(
            f"shares-{number}",
            chance.choice((TOPICS, TOPICS[:1], (*TOPICS, COMPACTED.topic))),
            is_committed=chance.random() < 0.5,
            count_limit=limit,
            has_letters=chance.random() < 0.4,
            members=tuple(
                ShareMemberPlan(chance.random() * chance.choice((0.0, 2.0)), 3 * chance.random() + 0.3)
                for _ in range(chance.choice((2, 3, 4)))
            ),
            resets_s=3 * chance.random() if chance.random() < 0.3 else None,
        )
        for number in range(chance.choice((1, 1, 2)))
    )


def share_settings(plans: Sequence[SharePlan], config: BrokerConfig) -> dict[str, int]:
    """The settings of a broker on which these share groups are: short times, small logs."""
    if not plans:
        return {}
    return {
        "group_share_session_timeout_ms": 700,
        "group_share_heartbeat_interval_ms": 200,
        "group_share_assignment_interval_ms": 100,
        "group_share_initialize_retry_interval_ms": 1000,
        "group_share_record_lock_duration_ms": int(LOCK_S * 1000),
        "group_share_delivery_count_limit": plans[0].count_limit,
        "share_coordinator_state_topic_num_partitions": 2,
        "share_coordinator_state_topic_replication_factor": 3,
        "share_coordinator_state_topic_min_isr": 2,
        "share_coordinator_state_topic_segment_bytes": config.offsets_topic_segment_bytes,
        "share_coordinator_state_topic_prune_interval_ms": 300,
        "share_coordinator_snapshot_update_records_per_snapshot": 5,
        "share_coordinator_cold_partition_snapshot_interval_ms": 300,
        "share_coordinator_write_timeout_ms": 1000,
    }
