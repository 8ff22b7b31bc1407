"""Questions about a history: which requests there were, what became of them, and what came before what. Pure."""

from collections.abc import Iterable, Sequence

from eosin.lab.common.errors import LabError
from eosin.lab.history.matching import RequestMatch
from eosin.lab.history.occurrences import ASKED, ENDS, FIRED, HistorySpan, LinkSeen, Occurrence, SeenRequest

Moment = Occurrence | SeenRequest


def requests_in(events: Iterable[Occurrence]) -> list[SeenRequest]:
    """The requests of which `events` tell the beginning, in that order."""
    begun: dict[int, Occurrence] = {}
    later: dict[int, list[Occurrence]] = {}
    for each in events:
        if each.what == ASKED:
            begun[each.number] = each
        elif each.request in begun:
            later.setdefault(each.request, []).append(each)
    return [_request(each, later.get(number, [])) for number, each in begun.items()]


def _request(began: Occurrence, later: Sequence[Occurrence]) -> SeenRequest:
    end = next((each for each in reversed(later) if each.what in ENDS), None)
    return SeenRequest(
        began.number,
        began.at_ns,
        began.link,
        began.api,
        began.version,
        began.transactional_id,
        began.group,
        began.partitions,
        began.detail,
        0 if end is None else end.number,
        0 if end is None else end.at_ns,
        "" if end is None else end.what,
        next((each.code for each in reversed(later) if each.code), ""),
        " ".join(dict.fromkeys(each.rule for each in later if each.rule)),
        tuple(each.what for each in later if each is not end and each.what != FIRED),
    )


class RequestSearch:
    """Finds the requests that fit and are over, event by event, in the order of their ends."""

    def __init__(self, match: RequestMatch) -> None:
        self._match = match
        self._events: dict[int, list[Occurrence]] = {}
        """Of each request that is under way."""
        self.ended: list[SeenRequest] = []

    def read(self, events: Iterable[Occurrence]) -> None:
        """Read the events that follow."""
        for each in events:
            if each.what == ASKED:
                self._events[each.number] = [each]
            elif each.request in self._events:
                self._events[each.request].append(each)
                if each.what in ENDS:
                    began, *later = self._events.pop(each.request)
                    request = _request(began, later)
                    if self._match.fits(request):
                        self.ended.append(request)


def matching(events: Iterable[Occurrence], match: RequestMatch) -> list[SeenRequest]:
    """The requests that fit, in the order in which they began."""
    return [each for each in requests_in(events) if match.fits(each)]


def about(events: Sequence[Occurrence], transactional_id: str) -> list[Occurrence]:
    """The events about a transactional id: its requests from beginning to end, and the coordinator's decisions."""
    own = {each.number for each in events if each.transactional_id == transactional_id}
    return [each for each in events if each.number in own or each.request in own]


def between(events: Iterable[Occurrence], first: Moment, second: Moment) -> list[Occurrence]:
    """The events after the end of `first` and before the beginning of `second`."""
    return [each for each in events if _end(first) < each.number < second.number]


def order(first: Moment, second: Moment) -> int:
    """-1 if `first` was over before `second` began, 1 if it is the other way round, 0 if they overlap."""
    if _end(first) < second.number:
        return -1
    return 1 if _end(second) < first.number else 0


def _end(moment: Moment) -> float:
    if isinstance(moment, Occurrence):
        return moment.number
    return moment.ended or float("inf")


def links_in(events: Iterable[Occurrence]) -> list[LinkSeen]:
    """The connections that events are about, each once."""
    found: dict[int, LinkSeen] = {}
    for each in events:
        if each.link is not None:
            found[each.link.link] = each.link
    return [found[number] for number in sorted(found)]


def first_missing(events: Iterable[Occurrence], wanted: Sequence[RequestMatch]) -> int | None:
    """The index of the first match of `wanted` that no request fits after those before it; None if all do."""
    index = 0
    for request in requests_in(events):
        if index < len(wanted) and wanted[index].fits(request):
            index += 1
    return None if index == len(wanted) else index


def check_whole(span: HistorySpan) -> None:
    """Raise LabError if a history does not tell everything."""
    if span.level == "off":
        raise LabError('this broker keeps no history: start it with record="protocol"')
    if span.truncated:
        raise LabError(
            f"the history has lost its first {span.truncated} events: call history.clear() before what is asserted"
        )
