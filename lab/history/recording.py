"""`Recording`: the events of one broker, in order, in bounded memory, and who waits for the next one.

Always true: it belongs to one event loop; an event is kept as a plain tuple, which becomes an `Occurrence` when
somebody reads it; the oldest go when there are `most`, and are counted.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from eosin.lab.common.values import PartitionName
from eosin.lab.history.occurrences import ANSWERED, ASKED, CLOSED, CONNECTED, HistorySpan, LinkSeen, Occurrence
from eosin.lab.history.requests import MOST_PARTITIONS, RawPartition, RequestFacts, facts_of, first_error, spelled
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import Clock, stopwatch_ns

MOST_EVENTS: Final = 100_000
PROTOCOL: Final = "protocol"
FULL: Final = "full"
OFF: Final = "off"
LEVELS: Final = (OFF, PROTOCOL, FULL)
"""`off` keeps nothing; `protocol` what requests are about; `full` their fields and the values of records too."""
MOST_TEXT: Final = 2000
"""Characters of a request at the level `full`."""

_Raw = tuple[int, int, int, str, int, int, ApiKey | None, int, RequestFacts, str, str]
"""An `Occurrence` as it is kept: number, stopwatch, time, what, request, number of the link, API, version, facts, code
and rule."""
_API: Final = 6
_NO_FACTS: Final[RequestFacts] = (None, None, (), "")


class Recording:
    """The history of a broker, in its event loop."""

    def __init__(
        self, clock: Clock, *, level: str = PROTOCOL, most: int = MOST_EVENTS, topic_name: Callable[[bytes], str] = repr
    ) -> None:
        """`topic_name` finds the name of a topic by its id."""
        self.level: Final = level
        self.topic_name = topic_name
        self._now_ms = clock.now_ms
        self._is_full: Final = level == FULL
        self._most: Final = most
        self._began_ns: Final = stopwatch_ns()
        self._events: Final[deque[_Raw]] = deque(maxlen=most)
        self._links: dict[int, LinkSeen] = {}
        """The connections that events are about, oldest first."""
        self._waiting: list[asyncio.Future[None]] = []
        self.last = 0
        """The number of the last event."""
        self.end_life: Callable[[], None] = lambda: None
        """Called when the broker starts anew."""
        self.links = 0
        """The number of connections that there were: over restarts, too."""
        self._cleared = 0
        """The number of the last event that was forgotten on purpose."""

    def follow(self, clock: Clock) -> None:
        """Use the clock of a broker."""
        self._now_ms = clock.now_ms

    @property
    def span(self) -> HistorySpan:
        """The part that is kept."""
        return HistorySpan(self.level, self.last, self.last - self._cleared - len(self._events))

    def clear(self) -> None:
        """Forget all that has happened; numbers go on."""
        self._events.clear()
        self._cleared = self.last

    # Recording ------------------------------------------------------------------------------------------------------

    def record(
        self,
        what: str,
        *,
        transactional_id: str | None = None,
        group: str | None = None,
        partitions: Iterable[RawPartition] = (),
        link: int = 0,
        request: int = 0,
        api: ApiKey | None = None,
        code: str = "",
        rule: str = "",
        detail: str = "",
    ) -> int:
        """Add an event; its number. `request` is that of the event with which its request began."""
        facts = transactional_id, group, tuple(islice(partitions, MOST_PARTITIONS)), detail
        return self._add(what, request, link, api, -1, facts, code, rule)

    def began(self, key: ApiKey, version: int, request: Any, link: LinkSeen) -> int:
        """Add the beginning of a request; its number. `link` is kept as the newest of its number."""
        facts = facts_of(key, request)
        if self._is_full:
            facts = _with_text(facts, key, request)
        number = link.link
        if self._links.get(number) is not link:
            self._keep_link(link)
        self.last = begun = self.last + 1  # as in `_add`: every request comes by, and a call takes its time
        self._events.append((begun, stopwatch_ns(), self._now_ms(), ASKED, begun, number, key, version, facts, "", ""))
        if self._waiting:
            self._wake()
        return begun

    def ended(
        self, request: int, link: int, key: ApiKey, response: Any, *, rule: str = "", what: str = ANSWERED
    ) -> int:
        """Add the end of a request; the number of that event."""
        self.last = number = self.last + 1  # as in `_add`
        code = first_error(response)
        self._events.append(
            (number, stopwatch_ns(), self._now_ms(), what, request, link, key, -1, _NO_FACTS, code, rule)
        )
        if self._waiting:
            self._wake()
        return number

    def connected(self, link: LinkSeen) -> int:
        """Add a connection."""
        self._keep_link(link)
        return self._add(CONNECTED, 0, link.link, None, -1, _NO_FACTS, "", "")

    def disconnected(self, link: int) -> int:
        """Add the end of a connection."""
        return self._add(CLOSED, 0, link, None, -1, _NO_FACTS, "", "")

    def _keep_link(self, link: LinkSeen) -> None:
        self._links[link.link] = link
        if len(self._links) > self._most:
            del self._links[next(iter(self._links))]

    def _add(
        self,
        what: str,
        request: int,
        link: int,
        api: ApiKey | None,
        version: int,
        facts: RequestFacts,
        code: str,
        rule: str,
    ) -> int:
        self.last = number = self.last + 1
        self._events.append(
            (number, stopwatch_ns(), self._now_ms(), what, request, link, api, version, facts, code, rule)
        )
        if self._waiting:
            self._wake()
        return number

    # Reading --------------------------------------------------------------------------------------------------------

    def occurrences(self, since: int = 0, *, apis: Collection[str] = ()) -> list[Occurrence]:
        """The events that are kept, of a higher number than `since`; with `apis` those of their requests alone."""
        return [self._occurrence(raw) for raw in self._since(since) if not apis or _spelled(raw[_API]) in apis]

    def last_occurrences(self, count: int) -> list[Occurrence]:
        """The last events, oldest first."""
        return self.occurrences(self.last - count)

    def _since(self, since: int) -> Iterator[_Raw]:
        events = self._events
        skipped = max(0, since - (self.last - len(events)))
        if skipped > len(events) // 2:  # a deque is slow in its middle
            newest = list(islice(reversed(events), max(0, len(events) - skipped)))
            return reversed(newest)
        return islice(events, skipped, None)

    def _occurrence(self, raw: _Raw) -> Occurrence:
        number, at_ns, now_ms, what, request, link, api, version, facts, code, rule = raw
        transactional_id, group, partitions, detail = facts
        return Occurrence(
            number,
            at_ns - self._began_ns,
            now_ms,
            what,
            request,
            None if not link else self._links.get(link) or LinkSeen(link),
            _spelled(api),
            version,
            transactional_id or "",
            group or "",
            tuple(PartitionName(self._name(topic), index) for topic, index in partitions),
            code,
            rule,
            detail,
        )

    def _name(self, topic: Any) -> str:
        return topic if isinstance(topic, str) else self.topic_name(topic)

    # Waiting --------------------------------------------------------------------------------------------------------

    async def changed(self, since: int, wait_ms: float) -> int:
        """Wait for an event of a higher number than `since`, at most so long; the number of the last one."""
        if self.last <= since and wait_ms > 0:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await future
            except TimeoutError:
                pass
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)
        return self.last

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def _spelled(api: ApiKey | None) -> str:
    return "" if api is None else spelled(api)


def _with_text(facts: RequestFacts, key: ApiKey, request: Any) -> RequestFacts:
    from eosin.lab.history.full_text import full_text

    transactional_id, group, partitions, detail = facts
    return transactional_id, group, partitions, f"{detail} {full_text(key, request, MOST_TEXT)}".strip()
