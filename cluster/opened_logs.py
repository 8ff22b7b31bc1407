"""`open_logs`: the logs of a broker, or of a command beside it, as the settings ask for them."""

from collections.abc import Callable
from typing import Final

from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import cleaner_config
from eosin.storage.disk.flusher import Durability, Flusher
from eosin.storage.disk.interfaces import Disk
from eosin.storage.journal.flusher import JournalFlusher
from eosin.storage.journal.journal import JournalConfig
from eosin.storage.manager import LogManager

MEMORY_DIR: Final = "memory"
"""The data directory's name where nothing is written."""


def open_logs(
    config: BrokerConfig,
    *,
    clock: Clock,
    chance: Chance,
    disk: Disk,
    wire_clock: Clock | None = None,
    flusher: Flusher | None = None,
    flushed: Callable[[int], None] | None = None,
    made_durable: Callable[[int], None] | None = None,
) -> LogManager:
    """The logs as `eosin.durability` asks for them, not yet opened. Unless `flusher` is given, the one of the logs
    tells `flushed` how long each flush takes (ns), in a thread, and `made_durable` the bytes of each. Compaction
    keeps to its pace on `wire_clock`, by default `clock`."""
    durability = Durability(config.durability)
    if flusher is None and durability is Durability.FSYNC:
        flusher = JournalFlusher(threads=config.eosin_flush_threads, watch=flushed, watch_bytes=made_durable)
    return LogManager(
        disk,
        config.data_dir or MEMORY_DIR,
        clock=clock,
        pace_clock=wire_clock,
        chance=chance,
        durability=durability,
        node_id=config.node_id,
        cluster_id=config.eosin_cluster_id,
        joined=config.is_joined,
        replicated=config.is_joined,
        defaults=config.topic_defaults,
        flusher=flusher,
        verification_enabled=config.transaction_partition_verification_enable,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        producer_id_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        cleaner=cleaner_config(config),
        high_watermark_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        reserve_bytes=config.eosin_disk_reserve_bytes,
        journal=JournalConfig(
            size_bytes=config.eosin_journal_size_bytes, direct_bytes=config.eosin_journal_direct_bytes
        ),
    )
