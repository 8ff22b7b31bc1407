"""`RecordingHooks`: writes every request and every connection of a broker into its history.

It stands around the hooks of scripted faults: a request is in the history before anything happens to it, and its
response after all that may keep it from its client.
"""

from typing import TYPE_CHECKING, Any, Final

from eosin.lab.history.occurrences import LOST, LinkSeen
from eosin.lab.history.recording import Recording
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict

if TYPE_CHECKING:
    from eosin.network.link import Link


class RecordingHooks(RequestHooks):
    """The hooks of a broker that keeps a history."""

    def __init__(self, recording: Recording, inner: RequestHooks | None = None) -> None:
        """`inner`: other hooks, which see each request after it was recorded."""
        self._recording: Final = recording
        self._inner: Final = inner
        self._open: dict[int, _OpenLink] = {}
        """The connections, by their number in this life of the broker."""

    def connected(self, link: "Link") -> None:
        """Record a connection."""
        self._recording.links += 1
        seen = LinkSeen(self._recording.links, link.peer)
        self._open[link.id] = _OpenLink(seen)
        self._recording.connected(seen)
        if self._inner is not None:
            self._inner.connected(link)

    def lost(self, link: "Link") -> None:
        """Record the end of a connection, and that of its requests: nobody reads their responses."""
        ended = self._open.pop(link.id, None)
        if ended is not None:
            for number in ended.begun.values():
                self._recording.record(LOST, request=number, link=ended.seen.link)
            self._recording.disconnected(ended.seen.link)
        if self._inner is not None:
            self._inner.lost(link)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Record its beginning."""
        key, version = observed.api.key, observed.context.api_version
        link = self._open.get(observed.link.id)
        if link is None:  # the client was gone before its request began
            self._recording.began(key, version, observed.request, LinkSeen(0, observed.peer))
        else:
            seen = link.current(observed)
            link.begun[observed.number] = self._recording.began(key, version, observed.request, seen)
        return None if self._inner is None else await self._inner.begun(observed)

    def waits(self, observed: ObservedRequest) -> None:
        """Nothing to record."""
        if self._inner is not None:
            self._inner.waits(observed)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Nothing to record yet."""
        return response if self._inner is None else await self._inner.handled(observed, response)

    def responded(self, observed: ObservedRequest) -> None:
        """Record its end: its response goes to its client, unless a fault keeps it."""
        if self._inner is not None:
            self._inner.responded(observed)
        link = self._open.get(observed.link.id)
        number = 0 if link is None else link.begun.pop(observed.number, 0)
        if link is None or not number:
            return  # its connection is gone
        key, response = observed.api.key, observed.response
        if observed.link.is_stalled:
            self._recording.ended(number, link.seen.link, key, response, what="executed")
            self._recording.record(LOST, request=number, link=link.seen.link, api=key, rule=observed.rule)
        else:
            self._recording.ended(number, link.seen.link, key, response, rule=observed.rule)


class _OpenLink:
    """A connection that is open."""

    __slots__ = ("begun", "seen")

    def __init__(self, seen: LinkSeen) -> None:
        self.seen = seen
        self.begun: dict[int, int] = {}
        """The requests without an end, and the number of the event with which each began."""

    def current(self, observed: ObservedRequest) -> LinkSeen:
        """The connection as it is known now: a client tells its library's name only after a while."""
        seen, client_id = self.seen, observed.context.client_id or ""
        if seen.client_id == client_id and (seen.software or not observed.link.software[0]):
            return seen
        software = " ".join(filter(None, observed.link.software))
        self.seen = LinkSeen(seen.link, seen.peer, client_id, software)
        return self.seen
