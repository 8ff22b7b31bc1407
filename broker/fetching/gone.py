"""`GonePartitions`: what the log says of consumers that fetch from what does not exist.

Such a consumer is answered with an error each time, beside its other partitions, and may go on for ever without a word:
its topic was deleted, or is made anew under another id. Always true: of one client and topic there is at most one line
in `INTERVAL_MS`, and of all together there are `MAX_LINES`.
"""

import logging
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import uuid_text
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.broker.fetching.sessions import WantedPartition
    from eosin.network.api import RequestContext

_logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 60_000
MAX_LINES: Final = 20


class GonePartitions:
    """The clients and topics that the log has named in this minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.elapsed_ms()
        # By the hash of both names: each may have 32 KiB, and a collision costs a line of the log.
        self._told: set[int] = set()

    def fetched(self, wanted: "WantedPartition", context: "RequestContext") -> None:
        """A consumer wants a partition that does not exist."""
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._since_ms >= INTERVAL_MS:
            self._since_ms = now_ms
            self._told.clear()
        if len(self._told) >= MAX_LINES:
            return
        key = hash((context.client_id, context.client_host, wanted.topic or wanted.topic_id))
        if key in self._told:
            return
        self._told.add(key)
        _logger.warning(
            "client %.100r at %s fetches from %s, which does not exist",
            context.client_id,
            context.client_host,
            _named(wanted),
        )


def _named(wanted: "WantedPartition") -> str:
    """The partition as the client names it; of an id, also what its topic was called, where that is remembered."""
    if wanted.topic:
        return f"partition {wanted.partition} of topic {wanted.topic!r:.250}"
    name = f" ({wanted.name.topic!r})" if wanted.name.topic else ""
    return f"partition {wanted.partition} of the topic of id {uuid_text(wanted.topic_id)}{name}"
