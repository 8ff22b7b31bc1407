"""Creates the topics of a pipeline, one after the other and within a time limit (KIP-572, rule 11).

Always true: a topic that cannot be created yet is logged and does not hold up the others; a topic that exists already
is fine; and the creation ends, successful or not, before a group would take its leader for dead.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

from eosin.client.errors import BrokerError, ClientError
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TaskTimeouts, duration, is_timeout
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock, SystemClock

Create = Callable[[], Awaitable[object]]
"""Creates one topic, once; raises a ClientError."""

log = logging.getLogger(__name__)


async def create_topics(
    topics: Mapping[str, Create],
    *,
    limit_ms: int,
    retry_backoff_ms: int = RETRY_BACKOFF_MS,
    clock: Clock | None = None,
) -> None:
    """Create all topics within `limit_ms`. A topic that times out is tried again after the others.

    Raises the first error that is not a timeout; at the limit, the last timeout, with a note that names the missing
    topics.
    """
    clock = clock or SystemClock()
    deadline_ms = clock.elapsed_ms() + limit_ms
    backoff = TaskTimeouts(retry_backoff_ms=retry_backoff_ms, clock=clock)
    missing = dict(topics)
    while True:
        last: BaseException | None = None
        for name, create in list(missing.items()):
            try:
                await create()
            except (ClientError, TimeoutError) as error:
                if isinstance(error, BrokerError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    del missing[name]
                    continue
                if not is_timeout(error):
                    raise
                last = error
                left_ms = max(0, deadline_ms - clock.elapsed_ms())
                log.warning("topic %s could not be created yet (%s left): %s", name, duration(left_ms), error)
            else:
                del missing[name]
        if last is None:
            return
        if clock.elapsed_ms() >= deadline_ms:
            last.add_note(
                f"could not create {', '.join(missing)} in {limit_ms} ms, which is half of max.poll.interval.ms"
            )
            raise last
        await clock.sleep(backoff.idle_backoff_ms())
