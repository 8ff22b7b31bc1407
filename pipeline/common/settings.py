"""The settings of a pipeline, with Kafka's names: limits, intervals, and settings of its clients.

Always true: an unknown setting is refused with a sentence, since a misspelt limit would limit nothing; `retries`, which
KIP-572 replaced by `task.timeout.ms`, is ignored with one warning.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.producer import TRANSACTION_TIMEOUT_MS
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS

MAX_POLL_INTERVAL_MS: Final = 300_000
COMMIT_INTERVAL_MS: Final = 100
METADATA_MAX_AGE_MS: Final = 300_000
BATCH_BYTES: Final = 256 * 1024
OFFSETS_REFRESH_INTERVAL_MS: Final = 20_000
"""A third of the shortest retention that a broker can have, a minute (`offsets.retention.minutes`)."""
RESET_NONE: Final = "none"
RESET_EARLIEST: Final = "earliest"
_LIMITS: Final[Mapping[str, tuple[str, int]]] = {
    # name: (field, smallest value)
    "task.timeout.ms": ("task_timeout_ms", 0),
    "retry.backoff.ms": ("retry_backoff_ms", 0),
    "max.poll.interval.ms": ("max_poll_interval_ms", 1),
    "transaction.timeout.ms": ("transaction_timeout_ms", 1),
    "request.timeout.ms": ("request_timeout_ms", 1),
    "commit.interval.ms": ("commit_interval_ms", 0),
    "metadata.max.age.ms": ("metadata_max_age_ms", 0),
    "batch.size": ("batch_bytes", 1),
    "lease.port": ("lease_port", 0),
    "eosin.offsets.refresh.interval.ms": ("offsets_refresh_interval_ms", 1),
}
_OFFSET_RESET: Final = "auto.offset.reset"
_RETRIES: Final = "retries"
_CLIENT_RETRIES: Final = ("producer.retries", "admin.retries")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The settings of one pipeline, with defaults for those that are not given."""

    task_timeout_ms: int = TASK_TIMEOUT_MS
    retry_backoff_ms: int = RETRY_BACKOFF_MS
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    commit_interval_ms: int = COMMIT_INTERVAL_MS
    metadata_max_age_ms: int = METADATA_MAX_AGE_MS
    """The longest time until a runner notices partitions that were added to its input or output."""
    batch_bytes: int = BATCH_BYTES
    """Keys, values and headers in one batch of a runner, unless a single record is larger."""
    lease_port: int = 0
    """The port at which tasks of route `executors` ask the driver for partitions; 0 is any free port."""
    offsets_refresh_interval_ms: int = OFFSETS_REFRESH_INTERVAL_MS
    """The age at which a runner commits the offset of a quiet partition again."""
    offset_reset: str = RESET_NONE
    """The position at which a runner begins in a partition that it has read before and whose offset is lost: `none` is
    an error, `earliest` reads the partition again. A partition that was never read always begins at its earliest
    record."""
    client_retries: Mapping[str, int] = field(default_factory=dict)
    """`producer.retries` and `admin.retries`, if given: how often one call of that client is repeated."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Settings from names and texts. Raises ConflictingSettings."""
        found: dict[str, int] = {}
        retries: dict[str, int] = {}
        reset = given.get(_OFFSET_RESET, RESET_NONE)
        if reset not in (RESET_NONE, RESET_EARLIEST):
            raise ConflictingSettings(f"{_OFFSET_RESET} is {reset!r}, and can be {RESET_NONE} or {RESET_EARLIEST}")
        for name, text in given.items():
            if name == _RETRIES:
                log.warning("retries is ignored: task.timeout.ms limits how long a task is retried (KIP-572)")
            elif name in _CLIENT_RETRIES:
                retries[name] = number(name, text, least=0)
            elif name in _LIMITS:
                attribute, least = _LIMITS[name]
                found[attribute] = number(name, text, least=least)
            elif name != _OFFSET_RESET:
                known = ", ".join([*_LIMITS, _OFFSET_RESET, *_CLIENT_RETRIES])
                raise ConflictingSettings(f"a pipeline has no setting {name!r}: there are {known}")
        return cls(**found, offset_reset=reset, client_retries=retries)

    @property
    def topic_creation_ms(self) -> int:
        """The time that the creation of topics may take: half of the time that a group leader may be silent
        (KIP-572)."""
        return self.max_poll_interval_ms // 2


def number(name: str, text: str, *, least: int) -> int:
    """The value of a setting that is a number. Raises ConflictingSettings."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConflictingSettings(f"{name} is {text!r}, and must be a number from {least} on")
    return value
