"""`RecordingHooks`: writes every request and every connection of a broker into its history.

It stands around the hooks of scripted faults: a request is in the history before anything happens to it, and its
response after all that may keep it from its client.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from eosin.lab.history.occurrences import EXECUTED, INTERNAL, LOST, LinkSeen
from eosin.lab.history.recording import Recording
from eosin.model.close_connection import CloseConnection
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict

if TYPE_CHECKING:
    from eosin.network.link import ClientLink

_ONE: Final[Mapping[str, int]] = MappingProxyType({})


class RecordingHooks(RequestHooks):
    """The hooks of a broker that keeps a history."""

    def __init__(
        self, recording: Recording, inner: RequestHooks | None = None, *, nodes: Mapping[str, int] = _ONE
    ) -> None:
        """`inner`: other hooks, which see each request after it was recorded. `nodes`: by the listener, if there are
        several."""
        recording.end_life()
        recording.end_life = self._end
        self._recording: Final = recording
        self._inner: Final = inner
        self._nodes: Final = nodes
        self._open: dict[ClientLink, _OpenLink] = {}

    def _end(self) -> None:
        """The broker starts anew: nothing of its last life goes on, whether it was stopped or has crashed."""
        for link in list(self._open):
            self._lost(link)

    def connected(self, link: "ClientLink") -> None:
        """Record a connection."""
        self._recording.links += 1
        seen = LinkSeen(self._recording.links, link.peer, node=self._nodes.get(link.listener, 0))
        self._open[link] = _OpenLink(seen)
        self._recording.connected(seen)
        if self._inner is not None:
            self._inner.connected(link)

    def lost(self, link: "ClientLink") -> None:
        """Record the end of a connection, and that of its requests: nobody reads their responses."""
        self._lost(link)
        if self._inner is not None:
            self._inner.lost(link)

    def _lost(self, link: "ClientLink") -> None:
        ended = self._open.pop(link, None)
        if ended is not None:
            for number, observed in (*ended.withheld, *ended.begun.values()):
                self._recording.record(
                    LOST, request=number, link=ended.seen.link, api=observed.api.key, rule=observed.rule
                )
            self._recording.disconnected(ended.seen.link)

    def fired(self, what: str, observed: ObservedRequest | None, rule: str) -> None:
        """Record that a rule has fired: at a request, or inside the broker."""
        if observed is not None:
            observed.rule = f"{observed.rule} {rule}".strip()
        number, link = self._place(observed)
        api = None if observed is None else observed.api.key
        self._recording.record(what, request=number, link=link, api=api, rule=rule)

    def failed(self, sentence: str) -> None:
        """Record that something of the lab's own went wrong."""
        self._recording.record(INTERNAL, detail=sentence)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Record its beginning."""
        key, version = observed.api.key, observed.context.api_version
        link = self._open.get(observed.link)
        if link is None:  # the client was gone before its request began
            self._recording.began(key, version, observed.request, LinkSeen(0, observed.peer))
        else:
            if link.withheld and not observed.link.is_stalled:
                self._released(link)
            number = self._recording.began(key, version, observed.request, link.current(observed))
            link.begun[observed.number] = number, observed
        inner = self._inner
        return None if inner is None or inner.is_idle else await inner.begun(observed)

    def waits(self, observed: ObservedRequest) -> None:
        """Nothing to record."""
        if self._inner is not None:
            self._inner.waits(observed)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Record that it was executed, if a fault ends its connection now."""
        if self._inner is None or self._inner.is_idle:
            return response
        try:
            return await self._inner.handled(observed, response)
        except CloseConnection:
            number, link = self._place(observed)
            self._recording.ended(number, link, observed.api.key, response, what=EXECUTED)
            raise

    def responded(self, observed: ObservedRequest) -> None:
        """Record its end: its response goes to its client, unless a fault keeps it."""
        if self._inner is not None and not self._inner.is_idle:
            self._inner.responded(observed)
        link = self._open.get(observed.link)
        number = 0 if link is None else link.begun.pop(observed.number, (0, None))[0]
        if link is None or not number:
            return  # its connection is gone
        key, response, rule = observed.api.key, observed.response, observed.rule
        if not rule and not link.withheld:  # no fault has anything to do with it
            self._recording.ended(number, link.seen.link, key, response)
        elif observed.link.is_stalled:
            self._recording.ended(number, link.seen.link, key, response, what=EXECUTED, rule=rule)
            link.withheld.append((number, observed))
        elif observed.link.is_closing:
            self._recording.ended(number, link.seen.link, key, response, what=EXECUTED)
            self._recording.record(LOST, request=number, link=link.seen.link, api=key, rule=rule)
        else:
            if link.withheld:
                self._released(link)
            self._recording.ended(number, link.seen.link, key, response, rule=rule)

    def _place(self, observed: ObservedRequest | None) -> tuple[int, int]:
        """The number of the event with which a request began, and that of its connection; 0 for what is not known."""
        link = None if observed is None else self._open.get(observed.link)
        if observed is None or link is None:
            return 0, 0
        return link.begun.get(observed.number, (0, observed))[0], link.seen.link

    def _released(self, link: "_OpenLink") -> None:
        """The responses that were withheld have left: their client goes on."""
        for number, observed in link.withheld:
            self._recording.ended(number, link.seen.link, observed.api.key, observed.response, rule=observed.rule)
        link.withheld = []


class _OpenLink:
    """A connection that is open."""

    __slots__ = ("begun", "seen", "withheld")

    def __init__(self, seen: LinkSeen) -> None:
        self.seen = seen
        self.begun: dict[int, tuple[int, ObservedRequest]] = {}
        """The requests without an end, by their number on the connection, each with that of its first event."""
        self.withheld: list[tuple[int, ObservedRequest]] = []
        """Requests whose responses a fault withholds; they leave, or are lost with the connection."""

    def current(self, observed: ObservedRequest) -> LinkSeen:
        """The connection as it is known now: a client tells its library's name only after a while."""
        seen, client_id = self.seen, observed.context.client_id or ""
        if seen.client_id == client_id and (seen.software or not observed.link.software[0]):
            return seen
        software = " ".join(filter(None, observed.link.software))
        self.seen = LinkSeen(seen.link, seen.peer, client_id, software, seen.node)
        return self.seen
