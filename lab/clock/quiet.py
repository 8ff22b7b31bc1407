"""`Quiet`: tells when a broker has nothing to do, from inside its event loop.

The loop itself cannot be asked what is ready in it. So counters that exist are read: in `TURNS` turns of the loop in a
row nothing of what the broker began has moved, and nothing of it is under way. Always true: a wait ends after a real
time, and says what it waited for.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.lab.clock.lab_clock import ClockError, LabClock
from eosin.network.request_stats import RequestStats
from eosin.protocol.keys import ApiKey

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.node.running import RunningNode

TURNS: Final = 2
"""Turns of the loop in a row in which nothing may have moved."""
TIMEOUT_MS: Final = 10_000
"""Longest wait, unless a test names another; the environment variable EOSIN_LAB_TIMEOUT multiplies it."""
_MOST_NAMED: Final = 3
_CHECK_MS: Final = 1.0
_WAITS_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that end with those of other members."""
_LONG_POLLS: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Requests that wait for records."""
_IN_THE_BACKGROUND: Final = _LONG_POLLS | {
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
}
"""Requests that a client sends although its application does nothing."""


class BusyError(ClockError):
    """The broker works on, or waits for something that does not come."""


Held = Callable[[], str | None]
"""Returns a few words on what somebody keeps from going on; None for nothing."""


def patience_ms(timeout_ms: float | None = None) -> float:
    """The longest wait in real time. Raises ClockError for an EOSIN_LAB_TIMEOUT that is no number."""
    factor = os.environ.get("EOSIN_LAB_TIMEOUT", "1")
    try:
        return (TIMEOUT_MS if timeout_ms is None else timeout_ms) * float(factor)
    except ValueError:
        raise ClockError(f"EOSIN_LAB_TIMEOUT is a number that multiplies waits, not {factor!r}") from None


class Quiet:
    """The work of one broker, as far as it can be seen."""

    def __init__(self, node: "RunningNode", clock: LabClock) -> None:
        self._node = node
        self._clock = clock
        self._real = clock.wire
        self._parts = node.host, node.services.transactions, node.background, node.logs.flusher
        self._outstanding = (0, 0)
        """Of transactions, when it was last still: compared once, not in each turn."""
        self.held: Final[list[Held]] = []
        """Faults add here what they hold."""
        self.held_writes: Final[list[Held]] = []
        """The same of what keeps records from being durable, for which time does not wait."""

    def holds(self) -> list[str]:
        """Words on each thing that faults hold."""
        return [words for each in self.held if (words := each()) is not None]

    # For jumps of the clock

    async def idle(self, first: Callable[[], None] | None = None) -> None:
        """Let the broker finish what it can without its clients and without the clock; what faults hold, and what is
        tried again later, waits on. `first` is called as in a turn of the loop before. Raises ClockError when it works
        on and on."""
        deadline_ms: float | None = None
        still = 0
        before = self._work()
        if first is not None:
            _call_in_turn(first)
            now = self._work()
            still, before = int(now == before), now
        while True:
            await asyncio.sleep(0)
            now = self._work()
            still = still + 1 if now == before else 0
            before = now
            if still < TURNS:
                continue
            if (outstanding := self._parts[1].outstanding) != self._outstanding:
                self._outstanding = outstanding
                still = 0
                continue
            why = self._works_on()
            if why is None:  # at once, between nearly all timers
                return
            if deadline_ms is None:
                deadline_ms = self._real.elapsed_ms() + patience_ms()
            if self._real.elapsed_ms() > deadline_ms:
                raise BusyError(f"the broker does not come to rest: {why}")
            await self._real.sleep(_CHECK_MS)
            still = 0

    def _work(self) -> tuple[object, ...]:
        """A value that changes with what the broker does, but for what is `outstanding` of transactions."""
        host, _, background, flusher = self._parts
        return (
            self._clock.work,
            host.accepted,
            len(host.running),
            flusher.backlog_bytes,
            background.begun,
            background.ended,
        )

    def _works_on(self) -> str | None:
        """The reason to wait: work that ends without anybody's doing; None for nothing."""
        node = self._node
        _, soon = self._clock.work
        if soon:
            return "a timer that is due has not been called"
        if node.background.begun > node.background.ended:
            return "a round of its periodic work has not ended"
        if node.logs.flusher.backlog_bytes and not any(each() for each in self.held_writes):
            return f"{node.logs.flusher.backlog_bytes} bytes are not durable yet"
        return None

    # For tests

    async def settled(self, *, quiet_ms: float = 0, timeout_ms: float | None = None) -> None:
        """Wait until the broker has nothing to do; with `quiet_ms`, until for so long (real) no client has sent
        anything but what it sends in the background. Raises ClockError."""
        limit_ms = patience_ms(timeout_ms)
        began_ms = since_ms = self._real.elapsed_ms()
        sent, before, still = self._sent() if quiet_ms else 0, self._work(), 0
        while True:
            await asyncio.sleep(0)
            now = self._work()
            still = still + 1 if now == before else 0
            before = now
            if still < TURNS:
                continue
            if (outstanding := self._parts[1].outstanding) != self._outstanding:
                self._outstanding = outstanding
                still = 0
                continue
            why = self._works_on() or self._unfinished()
            now_ms = self._real.elapsed_ms()
            if quiet_ms and (sent_now := self._sent()) != sent:
                sent, since_ms = sent_now, now_ms
            if why is None and now_ms - since_ms < quiet_ms:
                why = f"a client has sent something in the last {quiet_ms:g} ms"
            if why is None:
                return
            if now_ms - began_ms > limit_ms:
                raise BusyError(f"the broker is not quiet after {limit_ms / 1000:g} s: {why}{self._open()}")
            await self._real.sleep(_CHECK_MS)
            still = 0

    def _unfinished(self) -> str | None:
        """The reason to wait: work that is not done, whoever has to do it; None for nothing."""
        if held := self.holds():
            return "; ".join(held[:_MOST_NAMED])
        waiting, unwritten = self._node.services.transactions.outstanding
        if waiting:
            return "a transaction waits for its markers" if waiting == 1 else f"{waiting} transactions wait for markers"
        if unwritten:
            return "the last record of a transaction is not written yet"
        running = list(self._node.host.running.values())
        polls = self._node.services.partitions.long_polls.count
        if sum(each in _LONG_POLLS for each in running) > polls:
            return "a Fetch is being answered"
        if names := sorted({each.name for each in running if each not in _WAITS_FOR_OTHERS | _LONG_POLLS}):
            return f"{', '.join(names[:_MOST_NAMED])} has no response yet"
        for connection in self._node.host.connections:
            if not connection.in_flight and _holds_requests(connection):
                return f"a request of {connection.client_id or 'a client'} at {connection.peer} has not begun"
        return None

    def _open(self) -> str:
        """The end of a sentence about transactions that are open."""
        found = self._node.services.transactions.txns()
        ids = [txn.transactional_id for some in found for txn in some if txn.state is TransactionState.ONGOING]
        return f"; open transactions: {', '.join(sorted(ids)[:_MOST_NAMED])}" if ids else ""

    def _sent(self) -> int:
        """Number of requests so far that an application has caused."""
        host = self._node.host
        if host.stats is None:
            host.stats = RequestStats()  # counts from now on
        answered = sum(
            each.count for key, each in host.stats.latencies.items() if ApiKey(key) not in _IN_THE_BACKGROUND
        )
        return answered + sum(key not in _IN_THE_BACKGROUND for key in host.running.values())


def _call_in_turn(call: Callable[[], None]) -> None:
    """Call as the event loop does: whatever is raised is its own affair. A crash is raised, too, and then nothing here
    goes on, since the loop is left."""
    try:
        call()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  # as asyncio.Handle has it
        context = {"message": f"exception in {call!r}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


def _holds_requests(connection: "ServerConnection") -> bool:
    """True if requests came that have not begun; not of a client that does not read: perhaps it is the one who waits
    here."""
    is_over = connection.is_gone or connection.is_closing
    return not (is_over or connection.may_be_closed or connection.unread() is not None)
