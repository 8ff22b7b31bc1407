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
        self._links: dict[int, LinkSeen] = {}
        """The open connections."""
        self._begun: dict[int, dict[int, int]] = {}
        """Of each: the requests without an end, and the number of the event with which each began."""

    def connected(self, link: "Link") -> None:
        """Record a connection."""
        seen = self._links[link.id] = LinkSeen(link.id, link.peer)
        self._begun[link.id] = {}
        self._recording.connected(seen)
        if self._inner is not None:
            self._inner.connected(link)

    def lost(self, link: "Link") -> None:
        """Record the end of a connection, and that of its requests: nobody reads their responses."""
        for number in self._begun.pop(link.id, {}).values():
            self._recording.record(LOST, request=number, link=link.id)
        self._links.pop(link.id, None)
        self._recording.disconnected(link.id)
        if self._inner is not None:
            self._inner.lost(link)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Record its beginning."""
        link = observed.link
        number = self._recording.began(
            observed.api.key, observed.context.api_version, observed.request, self._seen(observed)
        )
        open_requests = self._begun.get(link.id)
        if open_requests is not None:  # it is connected
            open_requests[observed.number] = number
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
        link = observed.link
        number = self._begun.get(link.id, {}).pop(observed.number, 0)
        if not number:
            return  # its connection is gone
        key, response = observed.api.key, observed.response
        if link.is_stalled:
            self._recording.ended(number, link.id, key, response, what="executed")
            self._recording.record(LOST, request=number, link=link.id, api=key, rule=observed.rule)
        else:
            self._recording.ended(number, link.id, key, response, rule=observed.rule)

    def _seen(self, observed: ObservedRequest) -> LinkSeen:
        """The connection as it is known now: a client tells its library's name only after a while."""
        link, client_id = observed.link, observed.context.client_id or ""
        seen = self._links.get(link.id)
        if seen is not None and seen.client_id == client_id and (seen.software or not link.software[0]):
            return seen
        now = LinkSeen(link.id, link.peer, client_id, " ".join(filter(None, link.software)))
        if seen is not None:  # it is connected
            self._links[link.id] = now
        return now
