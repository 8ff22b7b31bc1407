"""The settings of share groups that have a form of their own (share.auto.offset.reset, share.isolation.level)."""

from typing import TYPE_CHECKING, Final

from eosin.coordinator.groups.rules.config import READ_UNCOMMITTED, ShareGroupConfig
from eosin.protocol.names import IsolationLevel
from eosin.runtime.durations import duration_ms

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"


def isolation_of(config: ShareGroupConfig) -> IsolationLevel:
    """The isolation level of a group, whatever its members say."""
    is_uncommitted = config.isolation_level == READ_UNCOMMITTED
    return IsolationLevel.READ_UNCOMMITTED if is_uncommitted else IsolationLevel.READ_COMMITTED


async def first_offset(log: "PartitionLog", config: ShareGroupConfig, now_ms: int) -> int:
    """The offset at which a group with these settings begins to read a log (share.auto.offset.reset). Records of a
    transaction that is open count by their age as all others do: a group that reads committed ones gets them when it
    has ended. Raises OSError, CorruptRecords."""
    if config.auto_offset_reset == EARLIEST:
        return log.log_start_offset
    if config.auto_offset_reset.startswith(BY_DURATION):
        back_ms = duration_ms(config.auto_offset_reset.removeprefix(BY_DURATION)) or 0
        since_ms = max(0, now_ms - back_ms)
        found = await log.offset_for_timestamp(since_ms, isolation=IsolationLevel.READ_UNCOMMITTED)
        if found is not None:
            return found.offset
    return log.high_watermark
