"""`GroupShareConfig`: the settings of one share group, as its share partitions need them (new-groups 3.4)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eosin.protocol.names import IsolationLevel

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GroupShareConfig:
    """Settings of one share group, by Kafka's names without `share.` or `group.share.`: those of the broker, or the
    group's own in their place."""

    record_lock_duration_ms: int = 30_000
    """A member has a record for so long, and others get it then."""
    delivery_count_limit: int = 5
    """Deliveries of one record."""
    partition_max_record_locks: int = 2000
    """Offsets of one partition from the first that is not done to the last that was delivered."""
    auto_offset_reset: str = LATEST
    """The offset at which a group begins that has none: `latest`, `earliest`, or `by_duration:` and a duration."""
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    renew_acknowledge_enable: bool = True


ShareConfigOf = Callable[[str], GroupShareConfig]
"""The settings of a share group, by its id."""


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration of ISO 8601 in days, hours, minutes and seconds; None for any other text."""
    found = _ISO_8601.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days))))
