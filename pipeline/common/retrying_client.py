"""A client that repeats its calls by the rules of KIP-572, on behalf of the tasks that wait for them.

Always true: a call that times out starts or checks the timer of every task it is made for; it is repeated unchanged
until the time of a task is up and the final attempt has failed; when no call is late any more, the timers are cleared.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from eosin.client.client import Client
from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.errors import ClientError
from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.common.security import PLAIN, connection_security
from eosin.pipeline.common.task_timeouts import TaskTimeouts, is_timeout
from eosin.runtime.clock import Clock, SystemClock

T = TypeVar("T")


class _RetriesUsedUp(Exception):
    def __init__(self, error: ClientError) -> None:
        super().__init__(str(error))
        self.error = error


class RetryingClient(Client):
    """A client that works on behalf of `tasks`, which may be changed between calls."""

    def __init__(
        self,
        bootstrap: str,
        timeouts: TaskTimeouts,
        tasks: Collection[str] = (),
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retries: int | None = None,
        clock: Clock | None = None,
        security: SecuritySettings = PLAIN,
    ) -> None:
        """One attempt of a call may take `request_timeout_ms`, including the retries of the plain client; `retries`
        limits these (`producer.retries`, `admin.retries`)."""
        super().__init__(
            bootstrap,
            request_timeout_ms=request_timeout_ms,
            retry_timeout_ms=request_timeout_ms,
            security=connection_security(security),
        )
        self.tasks = tasks
        self.timeouts = timeouts
        self._retries = retries
        self._clock = clock or SystemClock()
        self._late_calls = 0

    async def retry(self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Repeat `attempt` until it succeeds, fails for good, or the time of a task is up. It must be repeatable."""
        late = False
        tasks = list(self.tasks)
        try:
            while True:
                for task in tasks:
                    self.timeouts.is_final_attempt(task)
                try:
                    return await self._one_attempt(attempt, timeout_ms)
                except (ClientError, TimeoutError) as error:
                    if self._closed or not tasks or not is_timeout(error):
                        raise
                    if not late:
                        late = True
                        self._late_calls += 1
                    self.timeouts.on_timeout(tasks, error)
                await self._clock.sleep(self.timeouts.idle_backoff_ms())
        finally:
            if late:
                self._late_calls -= 1
                if not self._late_calls:
                    for task in tasks:
                        self.timeouts.on_success(task)

    async def _one_attempt(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None) -> T:
        left = self._retries

        async def counted() -> T:
            nonlocal left
            try:
                return await attempt()
            except ClientError as error:
                if left is None or not error.retriable:
                    raise
                if not left:
                    raise _RetriesUsedUp(error) from error
                left -= 1
                raise

        try:
            return await super().retry(counted, timeout_ms=timeout_ms)
        except _RetriesUsedUp as used_up:
            raise used_up.error from None
