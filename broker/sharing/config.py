"""The settings of share groups that have a form of their own (share.auto.offset.reset, share.isolation.level)."""

import re
from typing import TYPE_CHECKING, Final

from eosin.coordinator.groups.rules.config import READ_UNCOMMITTED, ShareGroupConfig
from eosin.protocol.names import IsolationLevel

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE)


def isolation_of(config: ShareGroupConfig) -> IsolationLevel:
    """The isolation level of a group, whatever its members say."""
    is_uncommitted = config.isolation_level == READ_UNCOMMITTED
    return IsolationLevel.READ_UNCOMMITTED if is_uncommitted else IsolationLevel.READ_COMMITTED


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration of ISO 8601 in days, hours, minutes and seconds; None for any other text."""
    found = _ISO_8601.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days))))


async def first_offset(log: "PartitionLog", config: ShareGroupConfig, now_ms: int) -> int:
    """The offset at which a group with these settings begins to read a log (share.auto.offset.reset). Raises OSError,
    CorruptRecords."""
    if config.auto_offset_reset == EARLIEST:
        return log.log_start_offset
    if config.auto_offset_reset.startswith(BY_DURATION):
        back_ms = duration_ms(config.auto_offset_reset.removeprefix(BY_DURATION)) or 0
        found = await log.offset_for_timestamp(now_ms - back_ms, isolation=isolation_of(config))
        if found is not None:
            return found.offset
    return log.high_watermark
