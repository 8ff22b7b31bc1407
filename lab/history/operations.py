"""`HistoryOperations`: the questions of a test about the history of its broker, and its waits for what comes next.

Always true: a wait ends after at most `wait_ms`, so that whoever makes one call at a time (`ProcessBroker`) can make
others in between; what travels is made of numbers, texts, lists and mappings.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from eosin.lab.common.errors import NotToldError
from eosin.lab.history.matching import RequestMatch, match_in
from eosin.lab.history.occurrences import HistorySpan, Occurrence, SeenRequest
from eosin.lab.history.reading import RequestSearch, check_whole, first_missing, requests_in
from eosin.lab.history.recording import OFF, Recording
from eosin.lab.history.transcript import line_of, transcript
from eosin.runtime.clock import SystemClock

POLL_MS = 5
"""Between two looks at a broker that keeps no history."""
MOST_LINES = 20
_EVENTS_PER_LINE = 50
"""Enough, however many quiet requests are left out."""


class HistoryOperations:
    """The part of `Operations` that is about the history."""

    recording: Recording | None = None
    """None for a broker that keeps none, or that is not of the lab."""

    def _recording_for(self, what: str) -> Recording:
        if self.recording is None:
            raise NotToldError(f'only a broker of the lab that was started with record="protocol" tells {what}')
        return self.recording

    async def history(self, since: int) -> list[Occurrence]:
        """The events that are kept, of a higher number than `since`."""
        return self._recording_for("its history").occurrences(since)

    async def kept_history(self) -> list[Occurrence]:
        """All events that are kept; none where none are."""
        return [] if self.recording is None else self.recording.occurrences()

    async def history_span(self) -> HistorySpan:
        """The part of the history that is kept."""
        return HistorySpan(OFF, 0, 0) if self.recording is None else self.recording.span

    async def clear_history(self) -> None:
        """Forget the events until now."""
        self._recording_for("its history").clear()

    async def next_event(self, since: int, wait_ms: int) -> int:
        """Wait for an event of a higher number than `since`, or for nothing if no history is kept; the last number."""
        if self.recording is None:
            await SystemClock().sleep(min(wait_ms, POLL_MS))
            return 0
        return await self.recording.changed(since, wait_ms)

    async def await_requests(self, match: Mapping[str, Any], count: int, wait_ms: int) -> list[SeenRequest]:
        """The requests that fit and are over, once there are `count`, or when the time is up."""
        recording, wanted = self._recording_for("requests"), match_in(match)
        clock = SystemClock()
        end_ms = clock.elapsed_ms() + wait_ms
        search = RequestSearch(wanted)
        last = 0
        while True:
            since, last = last, recording.last
            search.read(recording.occurrences(since, apis=wanted.api))
            left_ms = end_ms - clock.elapsed_ms()
            if len(search.ended) >= count or left_ms <= 0:
                return search.ended
            await recording.changed(last, left_ms)

    async def missing_requests(self, wanted: Sequence[Mapping[str, Any]]) -> str:
        """A sentence and the requests that there were if `wanted` are no part of them in their order, else nothing.
        Raises LabError for a history that has lost its beginning."""
        recording = self._recording_for("requests")
        check_whole(recording.span)
        matches = [match_in(each) for each in wanted]
        events = recording.occurrences()
        index = first_missing(events, matches)
        if index is None:
            return ""
        after = f" after {_listed(matches[:index])}" if index else ""
        apis = {api for each in matches for api in each.api}
        seen = [line_of(each) for each in requests_in(events) if not apis or each.api in apis]
        lines = seen[-MOST_LINES:] or ["none of these"]
        return "\n".join(
            [f"there was no {matches[index]}{after}; the requests were:", *(f"  {each}" for each in lines)]
        )

    async def last_lines(self, count: int) -> list[str]:
        """The last lines of the history, as a person reads it; none where none is kept."""
        if self.recording is None:
            return []
        return transcript(self.recording.last_occurrences(count * _EVENTS_PER_LINE))[-count:]

    async def fired_lines(self) -> list[str]:
        """The requests at which rules of scripted faults have fired, as a person reads them."""
        if self.recording is None:
            return []
        return [line_of(each) for each in requests_in(self.recording.occurrences()) if each.rule][:MOST_LINES]


def _listed(matches: Sequence[RequestMatch]) -> str:
    return ", ".join(map(str, matches))
