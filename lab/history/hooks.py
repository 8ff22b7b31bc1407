"""`RecordingHooks`: writes every request of a broker into its history."""

from typing import Final

from eosin.lab.history.occurrences import LinkSeen
from eosin.lab.history.recording import Recording
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict

MOST_UNANSWERED: Final = 10_000
"""Requests whose end may still come; those of clients that are gone never end."""


class RecordingHooks(RequestHooks):
    """Stands before other hooks, so that a request is in the history before anything happens to it."""

    def __init__(self, recording: Recording) -> None:
        self._recording: Final = recording
        self._begun: dict[int, int] = {}
        """The number of the event with which a request began, by the id of the object that is the request."""
        self._links: dict[int, LinkSeen] = {}

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """Record its beginning."""
        context = observed.context
        begun = self._begun
        begun[id(observed)] = self._recording.began(
            observed.api.key, context.api_version, observed.request, self._link(observed)
        )
        if len(begun) > MOST_UNANSWERED:
            del begun[next(iter(begun))]
        return None

    def responded(self, observed: ObservedRequest) -> None:
        """Record its end."""
        connection = observed.context.connection
        self._recording.ended(
            self._begun.pop(id(observed), 0),
            0 if connection is None else connection.number,
            observed.api.key,
            observed.response,
        )

    def _link(self, observed: ObservedRequest) -> LinkSeen:
        """The connection as it is known now: a client says its library's name only after a while."""
        context = observed.context
        number = 0 if context.connection is None else context.connection.number
        link = self._links.get(number)
        if link is not None and link.client_id == (context.client_id or ""):
            software = context.client_software_name
            if not software or link.software:
                return link
        link = self._links[number] = LinkSeen(
            number,
            observed.peer,
            context.client_id or "",
            " ".join(filter(None, (context.client_software_name, context.client_software_version))),
        )
        return link
