"""The settings of the transaction coordinator, by Kafka's names (transactions.md 7); those of ours have the broker's
names without `eosin.`."""

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 86_400_000
TWO_PHASE_VERSION: Final = 2
"""The lowest transaction version at which producers may take part in two-phase commits."""


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Complete before the coordinator starts. Only `transaction_version` may become another one, by
    `TransactionCoordinator.use_transaction_version`."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * DAY_MS
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """The longest time between two looks at the deadlines; most transactions are aborted at theirs."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_timeout_recovery: bool = True
    """True if a producer whose transaction timed out may go on (transactions.md 12.3); else a timeout fences it, as
    Kafka's does."""
    transaction_two_phase_commit_enable: bool = False
    """True if producers may take part in two-phase commits (KIP-939). Needs `TWO_PHASE_VERSION`."""
    transaction_version: int = 2
    """The highest level of the feature `transaction.version` that clients are offered: 0, 1 or 2."""
    end_txn_marker_wait_ms: int = 5
    """Limit of the time that the answer to EndTxn waits for the transaction to be complete (B17)."""
    concurrent_transactions_wait_ms: int = 500
    """Limit of a request's wait in place of the answer CONCURRENT_TRANSACTIONS (transactions.md 11.11)."""
    retry_backoff_ms: int = 20
    """Before markers, or a record in doubt, are written again; doubled each time."""
    retry_backoff_max_ms: int = 1000
