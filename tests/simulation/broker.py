"""The broker of a run: its settings, and what it must not write to its log."""

import logging

from eosin.settings.broker import BrokerConfig
from eosin.storage.log.config import DAY_MS
from simulation.history import History
from simulation.plan import Plan

EXPIRATION_MS = 150
"""A transactional id is forgotten after this, where a plan wants that."""


def config_of(plan: Plan) -> BrokerConfig:
    """Small sizes and short intervals, so that everything happens within a run."""
    return BrokerConfig(
        listeners=(),
        log_dirs=("data",),
        eosin_durability=plan.durability,
        offsets_topic_num_partitions=2,
        transaction_state_log_num_partitions=2,
        offsets_topic_segment_bytes=max(1000, plan.segment_bytes),
        transaction_state_log_segment_bytes=max(1000, plan.segment_bytes),
        eosin_journal_size_bytes=(8192, 16384, 1 << 20, 0)[plan.seed % 4],
        eosin_journal_direct_bytes=(300, 1000, 1 << 16)[plan.seed // 4 % 3],
        auto_create_topics_enable=False,
        group_min_session_timeout_ms=100,
        group_consumer_session_timeout_ms=700,
        group_consumer_heartbeat_interval_ms=200,
        group_consumer_assignment_interval_ms=100,
        group_streams_session_timeout_ms=700,
        group_streams_heartbeat_interval_ms=200,
        group_streams_assignment_interval_ms=100,
        group_streams_initial_rebalance_delay_ms=100,
        log_cleaner_backoff_ms=100,
        log_retention_check_interval_ms=100,
        transaction_two_phase_commit_enable=any(app.decides for app in plan.apps),
        transaction_timeout_recovery="on" if plan.recovers else "kafka",
        transactional_id_expiration_ms=EXPIRATION_MS if plan.expires else DAY_MS,
        transaction_remove_expired_transaction_cleanup_interval_ms=EXPIRATION_MS // 3,
    )


class complaints(logging.Handler):
    """Takes the broker's log lines for the time of a run: an unexpected exception in them is a fault."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history
        self._logger = logging.getLogger("eosin")

    def __enter__(self) -> None:
        self._before = self._logger.level, self._logger.propagate, self._logger.handlers
        self._logger.setLevel(logging.ERROR)
        self._logger.propagate = False
        self._logger.handlers = [self]

    def __exit__(self, *_: object) -> None:
        level, self._logger.propagate, self._logger.handlers = self._before
        self._logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError):
            self._history.faults.append(f"{record.getMessage()}: {error!r}")
