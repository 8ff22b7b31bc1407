"""`LabHistory` and `AsyncLabHistory`: the history of a broker as a test has it (`broker.history`)."""

from typing import Any, Final

from eosin.lab.common.callers import AsyncCaller, Caller
from eosin.lab.history import reading
from eosin.lab.history.matching import match_of
from eosin.lab.history.occurrences import HistorySpan, LinkSeen, Occurrence, SeenRequest
from eosin.lab.history.operations import HistoryOperations
from eosin.lab.history.transcript import transcript


class LabHistory:
    """All that has happened in a broker: requests, the coordinators' decisions, connections."""

    def __init__(self, broker: Caller) -> None:
        self._broker: Final = broker

    def events(self, since: int = 0) -> list[Occurrence]:
        """The events that are kept, oldest first, after the one of number `since`."""
        return self._broker.call(HistoryOperations.history, since)

    def requests(self, api: str | None = None, /, **match: Any) -> list[SeenRequest]:
        """The requests of an API, or all, in the order in which they began. `match` has their fields by name
        (`transactional_id="invoicing-*"`, `code="PRODUCER_FENCED"`). Raises LabError for a name that does not exist."""
        wanted = match_of(api, **match)
        return reading.matching(self.events(), wanted)

    def of(self, transactional_id: str) -> list[Occurrence]:
        """The events about a transactional id, oldest first."""
        return reading.about(self.events(), transactional_id)

    def between(self, first: reading.Moment, second: reading.Moment) -> list[Occurrence]:
        """The events after the end of `first` and before the beginning of `second`."""
        return reading.between(self.events(), first, second)

    def order(self, first: reading.Moment, second: reading.Moment) -> int:
        """-1 if `first` was over before `second` began, 1 if it is the other way round, 0 if they overlap."""
        return reading.order(first, second)

    def connections(self) -> list[LinkSeen]:
        """The connections of clients, open and closed ones."""
        return reading.links_in(self.events())

    @property
    def truncated(self) -> int:
        """The number of events that are no longer kept."""
        return self.span.truncated

    @property
    def span(self) -> HistorySpan:
        """The part of the history that is kept."""
        return self._broker.call(HistoryOperations.history_span)

    def transcript(self, *, everything: bool = False) -> list[str]:
        """One line for each request and each decision; with `everything` those too that are rarely of interest."""
        return transcript(self.events(), everything=everything)

    def print(self, *, everything: bool = False) -> None:
        """Print the transcript."""
        print("\n".join(self.transcript(everything=everything)))

    def clear(self) -> None:
        """Forget the events until now."""
        self._broker.call(HistoryOperations.clear_history)


class AsyncLabHistory:
    """The same, awaited."""

    def __init__(self, broker: AsyncCaller) -> None:
        self._broker: Final = broker

    async def events(self, since: int = 0) -> list[Occurrence]:
        """The events that are kept, oldest first, after the one of number `since`."""
        return await self._broker.call(HistoryOperations.history, since)

    async def requests(self, api: str | None = None, /, **match: Any) -> list[SeenRequest]:
        """The requests of an API, or all, in the order in which they began. `match` has their fields by name
        (`transactional_id="invoicing-*"`, `code="PRODUCER_FENCED"`). Raises LabError for a name that does not exist."""
        wanted = match_of(api, **match)
        return reading.matching(await self.events(), wanted)

    async def of(self, transactional_id: str) -> list[Occurrence]:
        """The events about a transactional id, oldest first."""
        return reading.about(await self.events(), transactional_id)

    async def between(self, first: reading.Moment, second: reading.Moment) -> list[Occurrence]:
        """The events after the end of `first` and before the beginning of `second`."""
        return reading.between(await self.events(), first, second)

    def order(self, first: reading.Moment, second: reading.Moment) -> int:
        """-1 if `first` was over before `second` began, 1 if it is the other way round, 0 if they overlap."""
        return reading.order(first, second)

    async def connections(self) -> list[LinkSeen]:
        """The connections of clients, open and closed ones."""
        return reading.links_in(await self.events())

    @property
    async def truncated(self) -> int:
        """The number of events that are no longer kept."""
        return (await self.span).truncated

    @property
    async def span(self) -> HistorySpan:
        """The part of the history that is kept."""
        return await self._broker.call(HistoryOperations.history_span)

    async def transcript(self, *, everything: bool = False) -> list[str]:
        """One line for each request and each decision; with `everything` those too that are rarely of interest."""
        return transcript(await self.events(), everything=everything)

    async def print(self, *, everything: bool = False) -> None:
        """Print the transcript."""
        print("\n".join(await self.transcript(everything=everything)))

    async def clear(self) -> None:
        """Forget the events until now."""
        await self._broker.call(HistoryOperations.clear_history)
