"""Bugs to plant in the broker, so that the judge can be judged: each is what a careless change might do.

Each is a context manager; within it every broker of this process has the bug.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from simulation.planted import coordinator_bugs, durability_bugs, group_bugs, journal_bugs, storage_bugs

Bug = Callable[[], AbstractContextManager[None]]

BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        storage_bugs.marker_not_written,
        storage_bugs.marker_of_the_other_kind,
        storage_bugs.duplicate_accepted,
        storage_bugs.last_stable_offset_too_high,
        durability_bugs.sync_skipped,
        storage_bugs.aborted_list_incomplete,
        storage_bugs.late_writes_accepted,
        durability_bugs.producers_forgotten,
        storage_bugs.gap_accepted,
        storage_bugs.high_watermark_too_early,
        storage_bugs.undecided_records_shown,
        durability_bugs.open_transactions_forgotten,
        durability_bugs.checksums_not_checked,
        durability_bugs.offsets_not_synced,
        durability_bugs.live_marker_compacted_away,
        durability_bugs.latest_value_compacted_away,
        durability_bugs.compacted_segment_not_synced,
        durability_bugs.checkpoint_ahead_of_the_data,
        durability_bugs.deleted_log_kept,
        journal_bugs.journal_sync_skipped,
        journal_bugs.journal_generation_not_checked,
        journal_bugs.shortened_log_replayed_in_full,
        journal_bugs.ring_overwritten,
        journal_bugs.high_watermark_before_the_journal,
        coordinator_bugs.pending_offsets_applied_on_abort,
        coordinator_bugs.pending_offsets_visible,
        coordinator_bugs.epoch_not_persisted,
        coordinator_bugs.epoch_not_raised,
        coordinator_bugs.roll_forward_skipped,
        coordinator_bugs.decision_not_durable,
        coordinator_bugs.zombies_welcome,
        coordinator_bugs.epoch_not_raised_on_timeout,
        coordinator_bugs.prepared_transaction_aborted,
        coordinator_bugs.timeout_forgotten,
        coordinator_bugs.generation_not_checked,
        coordinator_bugs.replaced_member_may_commit,
        coordinator_bugs.open_transaction_expires,
        coordinator_bugs.commit_taken_for_abort,
        group_bugs.member_epoch_not_checked,
        group_bugs.older_epochs_commit_anything,
        group_bugs.partition_given_while_another_has_it,
        group_bugs.task_given_while_another_runs_it,
        group_bugs.epoch_of_streams_not_checked,
    )
}
"""Every bug by its name."""
ONLY: dict[str, str] = {
    "gap_accepted": "full for a moment",
    "generation_not_checked": "more members",
    "replaced_member_may_commit": "static members",
    "open_transaction_expires": "forgotten ids",
    "member_epoch_not_checked": "consumer members",
    "older_epochs_commit_anything": "consumer members",
    "partition_given_while_another_has_it": "consumer members",
    "task_given_while_another_runs_it": "streams members",
    "epoch_of_streams_not_checked": "streams members",
}
"""The profile of the runs of a bug that other runs show seldom."""
