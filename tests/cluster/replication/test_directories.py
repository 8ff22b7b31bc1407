"""What a broker tells the controller of its replicas' directories (cluster.md 4.18)."""

from dataclasses import replace

import pytest
from cluster_images import broker, partition

from eosin.cluster.quorum.rules.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from eosin.cluster.replication.directories import (
    Duty,
    LocalLog,
    copies_elsewhere,
    directory_of,
    duty_at_start,
    may_assign_now,
)
from eosin.protocol.names import Uuid

OURS, REPLACED = b"o" * 16, b"r" * 16
NOWHERE = (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


def test_a_sound_log_in_our_directory_needs_no_word() -> None:
    assert duty_at_start(OURS, OURS, LocalLog.SOUND) is Duty.NOTHING


def test_a_log_that_was_never_written_is_not_lost() -> None:
    assert duty_at_start(OURS, OURS, LocalLog.NEVER_WRITTEN) is Duty.NOTHING


@pytest.mark.parametrize("assigned", [OURS, *NOWHERE])
def test_a_lost_log_that_counts_as_online_is_declared_lost(assigned: Uuid) -> None:
    assert duty_at_start(assigned, OURS, LocalLog.LOST) is Duty.DECLARE_LOST


@pytest.mark.parametrize("assigned", [LOST_DIRECTORY, REPLACED])
@pytest.mark.parametrize("log", LocalLog)
def test_nobody_vouches_for_a_replica_of_another_disk_before_it_has_caught_up(assigned: Uuid, log: LocalLog) -> None:
    assert duty_at_start(assigned, OURS, log) is Duty.ASSIGN_WHEN_CAUGHT_UP


@pytest.mark.parametrize("assigned", NOWHERE)
@pytest.mark.parametrize("log", [LocalLog.SOUND, LocalLog.NEVER_WRITTEN])
def test_a_replica_that_is_nowhere_is_assigned_to_us(assigned: Uuid, log: LocalLog) -> None:
    assert duty_at_start(assigned, OURS, log) is Duty.ASSIGN


def test_a_replica_has_caught_up_when_all_that_is_committed_is_durable_here() -> None:
    assert may_assign_now(log_end_offset=10, durable_end=10, leader_high_watermark=10)
    assert not may_assign_now(log_end_offset=12, durable_end=9, leader_high_watermark=10)
    assert not may_assign_now(log_end_offset=9, durable_end=9, leader_high_watermark=10)


def test_a_directory_is_found_by_the_order_of_the_replicas() -> None:
    both = replace(partition(1, replicas=(2, 1)), directories=(REPLACED, OURS))
    assert directory_of(both, 1) == OURS
    assert directory_of(both, 2) == REPLACED
    assert directory_of(both, 3) == LOST_DIRECTORY
    assert directory_of(replace(both, directories=(REPLACED,)), 1) == MIGRATING_DIRECTORY


def test_a_copy_elsewhere_could_count_when_its_broker_runs_and_its_directory_is_online() -> None:
    registered = {each: replace(broker(each), log_dirs=(OURS,)) for each in (1, 2, 3, 4)}
    registered[4] = replace(registered[4], fenced=True)
    placed = replace(
        partition(-1, replicas=(5, 4, 3, 2, 1)), directories=(OURS, OURS, OURS, UNASSIGNED_DIRECTORY, OURS)
    )
    assert copies_elsewhere(placed, 1, registered) == (3, 2)
    lost = replace(placed, directories=(OURS, OURS, LOST_DIRECTORY, REPLACED, OURS))
    assert copies_elsewhere(lost, 1, registered) == ()
