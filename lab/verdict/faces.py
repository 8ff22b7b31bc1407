"""`Verdicts` and `AsyncVerdicts`: the waits and the assertions of a broker, as a test has them.

Always true: a wait is checked again after each event of the broker's history, and at the latest every `RECHECK_MS`,
since a condition may be about the application too; one that is in vain says what is open and what has happened last.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import msgspec

from eosin.lab.common.callers import AsyncCaller, Caller
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.common.limits import WAIT_S, WaitLimit
from eosin.lab.history.matching import MatchText, match_in, match_of
from eosin.lab.history.occurrences import SeenRequest
from eosin.lab.history.operations import HistoryOperations
from eosin.lab.verdict.exactly_once import IDS, Criteria, IdOf, Model, check_criteria, exactly_once
from eosin.lab.verdict.facts import ExactlyOnceFacts
from eosin.lab.verdict.findings import Verdict
from eosin.lab.verdict.operations import VerdictOperations
from eosin.lab.verdict.records import RecordText

RECHECK_MS: Final = 50
SLICE_MS: Final = 200
"""A wait is made of calls of so long: other threads make theirs in between."""
LINES: Final = 10
Topics = str | Iterable[str]
Value = str | bytes | None
Expected = Callable[[list[Any]], Iterable[Any]] | Iterable[Any]


class Verdicts:
    """Waits and assertions; each raises EosinAssertion with its evidence."""

    def wait_for(self: Caller, api: str, /, *, n: int = 1, timeout: float = WAIT_S, **match: Any) -> list[SeenRequest]:
        """Wait until `n` requests of an API are over, counted from the beginning of the history; those that fit.
        `match` has their fields: `wait_for("EndTxn", transactional_id="t", code="NONE")`."""
        wanted, limit = match_of(api, **match), WaitLimit(timeout)
        while True:
            left_ms = limit.left_ms(SLICE_MS)
            found = self.call(HistoryOperations.await_requests, msgspec.to_builtins(wanted), n, left_ms)
            if len(found) >= n:
                return found
            if not limit.left_ms():
                said = f"{wanted} has been there {len(found)} times and not {n} within {limit.seconds:g} s"
                raise EosinAssertion(_in_vain(said, self.call(VerdictOperations.situation, LINES)))

    def wait_until(self: Caller, condition: Callable[[], object], *, timeout: float = WAIT_S, what: str = "") -> None:
        """Wait until `condition` is true; it is checked again after each event. `what` names it in the failure."""
        limit = WaitLimit(timeout)
        while True:
            since = self.call(HistoryOperations.history_span).last
            if condition():
                return
            left_ms = limit.left_ms(RECHECK_MS)
            if not left_ms:
                raise EosinAssertion(
                    _in_vain(_has_not_happened(what, limit), self.call(VerdictOperations.situation, LINES))
                )
            self.call(HistoryOperations.next_event, since, left_ms)

    def wait_until_consumed(self: Caller, group: str, topic: str, *, timeout: float = WAIT_S) -> None:
        """Wait until a group has committed all committed records of a topic as read, and nothing of it is undecided.
        Markers and aborted records do not count."""
        limit = WaitLimit(timeout)
        while left := self.call(VerdictOperations.await_consumed, group, topic, limit.left_ms(SLICE_MS)):
            if not limit.left_ms():
                said = _not_consumed(group, topic, limit, left)
                raise EosinAssertion(_in_vain(said, self.call(VerdictOperations.situation, LINES)))

    def assert_exactly_once(
        self: Caller,
        input: Topics,
        output: Topics,
        group: str | None = None,
        *,
        by: str | Model = IDS,
        expected: Expected | None = None,
        reference: Iterable[RecordText] | None = None,
        ordered: bool | None = None,
        id_of: IdOf | None = None,
    ) -> Verdict:
        """Judge an application by its input topics, the offsets of its group and its output topics. Without a group all
        of the input counts as read. `by` is the way in which they are compared:

        - `ids`: each id of the input is in the output once. The id of a record is its key, or its value if it has none,
          unless `id_of` finds another; `expected` are the ids of the output, or makes them of those of the input.
        - `multiset`: the output is that of a run without faults (`reference`: records, values, or pairs of key and
          value). `last-value`: the last value of each key is.
        - a function makes the output of the records of the input.

        Raises EosinAssertion with all findings."""
        criteria = _criteria(by, expected, reference, ordered, id_of)
        facts = self.call(VerdictOperations.exactly_once_facts, _names(input), _names(output), group)
        verdict = _judged(facts, criteria)
        if not verdict.is_exactly_once:
            raise _wrong(verdict, self.call(HistoryOperations.fired_lines))
        return verdict

    def assert_no_open_transactions(self: Caller) -> None:
        """Raise EosinAssertion with the explanation of each transaction that is open."""
        _check(self.call(VerdictOperations.why_open))

    def assert_quiet(self: Caller) -> None:
        """Raise EosinAssertion if a transaction is open, or a request waits for more than records or members."""
        _check(self.call(VerdictOperations.why_not_quiet))

    def assert_committed(self: Caller, topic: str, values: Iterable[Value], *, ordered: bool = True) -> None:
        """Raise EosinAssertion unless readers of committed records get these values from the topic, and no others; by
        partition and offset, if `ordered`. The message tells where a missing one was written, and what became of it."""
        _check(self.call(VerdictOperations.why_not_committed, topic, _bytes_of(values), ordered))

    def assert_never_visible(self: Caller, values: Iterable[Value], *, topics: Topics | None = None) -> None:
        """Raise EosinAssertion if readers of committed records get any of these values, from any topic or from
        `topics`."""
        names = None if topics is None else _names(topics)
        _check(self.call(VerdictOperations.why_visible, _bytes_of(values), names))

    def assert_fenced(self: Caller, transactional_id: str, *, by: str | None = None) -> None:
        """Raise EosinAssertion unless a producer of the id was fenced, by a `successor`, a `timeout` or an `operator`
        if that is named."""
        _check(self.call(VerdictOperations.why_not_fenced, transactional_id, by))

    def assert_offsets(self: Caller, group: str, offsets: Mapping[Any, int | None]) -> None:
        """Raise EosinAssertion unless the group has committed these offsets: of `(topic, partition)`, or of a topic
        with one partition; None for nothing."""
        _check(self.call(VerdictOperations.why_not_offsets, group, _places(offsets)))

    def assert_requests(self: Caller, requests: Iterable[MatchText]) -> None:
        """Raise EosinAssertion unless there were these requests, in this order; others may lie between. Each is the
        name of an API, or has the fields of a request: `{"api": "EndTxn", "code": "NONE"}`. Raises LabError for a
        history that has lost its beginning."""
        _check(self.call(HistoryOperations.missing_requests, _matches(requests)))

    def assert_no_warnings(self: Caller) -> None:
        """Raise EosinAssertion with the warnings in the broker's log."""
        _check(_warned(self))


class AsyncVerdicts:
    """The same, awaited."""

    async def wait_for(
        self: AsyncCaller, api: str, /, *, n: int = 1, timeout: float = WAIT_S, **match: Any
    ) -> list[SeenRequest]:
        """Wait until `n` requests of an API are over, counted from the beginning of the history; those that fit.
        `match` has their fields: `wait_for("EndTxn", transactional_id="t", code="NONE")`."""
        wanted, limit = match_of(api, **match), WaitLimit(timeout)
        while True:
            left_ms = limit.left_ms(SLICE_MS)
            found = await self.call(HistoryOperations.await_requests, msgspec.to_builtins(wanted), n, left_ms)
            if len(found) >= n:
                return found
            if not limit.left_ms():
                said = f"{wanted} has been there {len(found)} times and not {n} within {limit.seconds:g} s"
                raise EosinAssertion(_in_vain(said, await self.call(VerdictOperations.situation, LINES)))

    async def wait_until(
        self: AsyncCaller,
        condition: Callable[[], Coroutine[Any, Any, object]],
        *,
        timeout: float = WAIT_S,
        what: str = "",
    ) -> None:
        """Wait until what `condition` returns, once awaited, is true; it is checked again after each event. `what`
        names it in the failure."""
        limit = WaitLimit(timeout)
        while True:
            since = (await self.call(HistoryOperations.history_span)).last
            if await condition():
                return
            left_ms = limit.left_ms(RECHECK_MS)
            if not left_ms:
                said = _has_not_happened(what, limit)
                raise EosinAssertion(_in_vain(said, await self.call(VerdictOperations.situation, LINES)))
            await self.call(HistoryOperations.next_event, since, left_ms)

    async def wait_until_consumed(self: AsyncCaller, group: str, topic: str, *, timeout: float = WAIT_S) -> None:
        """Wait until a group has committed all committed records of a topic as read, and nothing of it is undecided.
        Markers and aborted records do not count."""
        limit = WaitLimit(timeout)
        while left := await self.call(VerdictOperations.await_consumed, group, topic, limit.left_ms(SLICE_MS)):
            if not limit.left_ms():
                said = _not_consumed(group, topic, limit, left)
                raise EosinAssertion(_in_vain(said, await self.call(VerdictOperations.situation, LINES)))

    async def assert_exactly_once(
        self: AsyncCaller,
        input: Topics,
        output: Topics,
        group: str | None = None,
        *,
        by: str | Model = IDS,
        expected: Expected | None = None,
        reference: Iterable[RecordText] | None = None,
        ordered: bool | None = None,
        id_of: IdOf | None = None,
    ) -> Verdict:
        """Judge an application, as `Verdicts.assert_exactly_once` does."""
        criteria = _criteria(by, expected, reference, ordered, id_of)
        facts = await self.call(VerdictOperations.exactly_once_facts, _names(input), _names(output), group)
        verdict = _judged(facts, criteria)
        if not verdict.is_exactly_once:
            raise _wrong(verdict, await self.call(HistoryOperations.fired_lines))
        return verdict

    async def assert_no_open_transactions(self: AsyncCaller) -> None:
        """Raise EosinAssertion with the explanation of each transaction that is open."""
        _check(await self.call(VerdictOperations.why_open))

    async def assert_quiet(self: AsyncCaller) -> None:
        """Raise EosinAssertion if a transaction is open, or a request waits for more than records or members."""
        _check(await self.call(VerdictOperations.why_not_quiet))

    async def assert_committed(self: AsyncCaller, topic: str, values: Iterable[Value], *, ordered: bool = True) -> None:
        """Raise EosinAssertion unless readers of committed records get these values from the topic, and no others; by
        partition and offset, if `ordered`. The message tells where a missing one was written, and what became of it."""
        _check(await self.call(VerdictOperations.why_not_committed, topic, _bytes_of(values), ordered))

    async def assert_never_visible(self: AsyncCaller, values: Iterable[Value], *, topics: Topics | None = None) -> None:
        """Raise EosinAssertion if readers of committed records get any of these values, from any topic or from
        `topics`."""
        names = None if topics is None else _names(topics)
        _check(await self.call(VerdictOperations.why_visible, _bytes_of(values), names))

    async def assert_fenced(self: AsyncCaller, transactional_id: str, *, by: str | None = None) -> None:
        """Raise EosinAssertion unless a producer of the id was fenced, by a `successor`, a `timeout` or an `operator`
        if that is named."""
        _check(await self.call(VerdictOperations.why_not_fenced, transactional_id, by))

    async def assert_offsets(self: AsyncCaller, group: str, offsets: Mapping[Any, int | None]) -> None:
        """Raise EosinAssertion unless the group has committed these offsets: of `(topic, partition)`, or of a topic
        with one partition; None for nothing."""
        _check(await self.call(VerdictOperations.why_not_offsets, group, _places(offsets)))

    async def assert_requests(self: AsyncCaller, requests: Iterable[MatchText]) -> None:
        """Raise EosinAssertion unless there were these requests, in this order, as `Verdicts.assert_requests` does."""
        _check(await self.call(HistoryOperations.missing_requests, _matches(requests)))

    async def assert_no_warnings(self: AsyncCaller) -> None:
        """Raise EosinAssertion with the warnings in the broker's log."""
        _check(_warned(self))


# What both have in common ---------------------------------------------------------------------------------------------


def _check(complaint: str) -> None:
    if complaint:
        raise EosinAssertion(complaint)


def _in_vain(said: str, situation: str) -> str:
    return f"{said}\n{situation}" if situation else said


def _has_not_happened(what: str, limit: WaitLimit) -> str:
    return f"{what or 'what was waited for'} has not happened within {limit.seconds:g} s"


def _not_consumed(group: str, topic: str, limit: WaitLimit, left: list[str]) -> str:
    said = f"group {group} has not consumed {topic} within {limit.seconds:g} s"
    return "\n".join([said, *(f"  {each}" for each in left)])


def _criteria(
    by: str | Model,
    expected: Expected | None,
    reference: Iterable[RecordText] | None,
    ordered: bool | None,
    id_of: IdOf | None,
) -> Criteria:
    criteria = Criteria(by, id_of, expected, reference, ordered)
    try:
        check_criteria(criteria)
    except ValueError as wrong:
        raise LabError(str(wrong)) from None
    return criteria


def _judged(facts: ExactlyOnceFacts, criteria: Criteria) -> Verdict:
    try:
        return exactly_once(facts, criteria)
    except ValueError as wrong:
        raise LabError(str(wrong)) from None


def _wrong(verdict: Verdict, fired: list[str]) -> EosinAssertion:
    """The failure of a verdict; `fired` are the requests at which faults have fired."""
    lines = ["the faults that fired:", *(f"  {each}" for each in fired)] if fired else []
    return EosinAssertion("\n".join([str(verdict), *lines]), verdict.findings)


def _names(topics: Topics) -> list[str]:
    return [topics] if isinstance(topics, str) else list(topics)


def _bytes_of(values: Iterable[Value]) -> list[bytes | None]:
    if isinstance(values, (str, bytes)):
        raise LabError(f"values are a list, not the one value {values!r}")
    return [each.encode() if isinstance(each, str) else each for each in values]


def _places(offsets: Mapping[Any, int | None]) -> list[tuple[str, int, int | None]]:
    found = []
    for place, offset in offsets.items():
        topic, partition = (place, 0) if isinstance(place, str) else tuple(place)
        found.append((str(topic), int(partition), offset))
    return found


def _matches(requests: Iterable[MatchText]) -> list[dict[str, Any]]:
    if isinstance(requests, (str, Mapping)):
        raise LabError("requests are a list: of names of APIs, or of fields of a request")
    return [msgspec.to_builtins(match_in(each)) for each in requests]


def _warned(broker: object) -> str:
    warnings: list[str] | None = getattr(broker, "warnings", None)
    if warnings is None:
        raise LabError("only a broker in a thread of this process keeps its warnings: use Broker or AsyncBroker")
    return "" if not warnings else "\n".join(["the broker has warned:", *(f"  {each}" for each in warnings)])
