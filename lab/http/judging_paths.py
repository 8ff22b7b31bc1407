"""The paths that tell what has happened, wait for what comes, and judge."""

from typing import Any, Final

import msgspec

from eosin.lab.common.errors import EosinAssertion, LabError, NotIdleError
from eosin.lab.common.patterns import fit_patterns
from eosin.lab.history.matching import match_in
from eosin.lab.history.occurrences import Occurrence, SeenRequest
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import BROKER_DOWN, NOT_SO, NOT_TOLD, WAIT_OVER, WaitOver
from eosin.lab.http.fault_paths import wait_fired
from eosin.lab.http.hosts import Lab
from eosin.lab.http.values import Bytes, CarriedOut, bytes_in
from eosin.lab.operations import Operations
from eosin.lab.verdict.exactly_once import IDS

_RECHECK_MS: Final = 50


# History --------------------------------------------------------------------------------------------------------------


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The events that are wanted. Texts are patterns."""

    since: int = 0
    """The number of the last event that is known already."""
    what: str | None = None
    api: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    code: str | None = None
    rule: str | None = None

    def fits(self, event: Occurrence) -> bool:
        """True for an event that is wanted."""
        pairs = (
            (self.what, event.what),
            (self.api, event.api),
            (self.transactional_id, event.transactional_id),
            (self.group, event.group),
            (self.code, event.code),
            (self.rule, event.rule),
        )
        return fit_patterns(pairs)


class RequestQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The requests that are wanted. Texts are patterns."""

    api: str | None = None
    client_id: str | None = None
    software: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    link: int | None = None
    code: str | None = None
    fate: str | None = None
    rule: str | None = None
    detail: str | None = None


async def history(lab: Lab, query: HistoryQuery) -> list[Occurrence]:
    """The events that are kept, oldest first. As `text/event-stream` each event as it comes."""
    return [each for each in await lab.broker.call(Operations.history, query.since) if query.fits(each)]


async def forget(lab: Lab) -> CarriedOut:
    """Forget the events until now."""
    await lab.broker.history.clear()
    return CarriedOut()


async def requests(lab: Lab, query: RequestQuery) -> list[SeenRequest]:
    """The requests of clients and what became of them, in the order in which they began."""
    return await lab.broker.history.requests(**msgspec.to_builtins(query))


async def transcript(lab: Lab) -> list[str]:
    """The history in lines that a person reads."""
    return await lab.broker.history.transcript()


# Waits ----------------------------------------------------------------------------------------------------------------


class Consumed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="until", tag="consumed"):
    """Until a group has committed all of a topic as read."""

    group: str
    topic: str
    timeout_ms: int = 10_000


class Fired(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="until", tag="fired"):
    """Until a rule has fired so often."""

    fault: str
    count: int = 1
    timeout_ms: int = 10_000


class QuietWait(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="until", tag="quiet"):
    """Until the broker has nothing to do, and no client has sent anything for `quiet_ms`."""

    quiet_ms: float = 0
    timeout_ms: int = 10_000


class Requested(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="until", tag="request"):
    """Until so many requests that fit are over."""

    match: dict[str, Any]
    count: int = 1
    timeout_ms: int = 10_000


class InState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="until", tag="state"):
    """Until a transactional id, or a group, is in a state."""

    state: str
    transactional_id: str | None = None
    group: str | None = None
    timeout_ms: int = 10_000


Wait = Consumed | Fired | QuietWait | Requested | InState


async def wait(lab: Lab, body: Wait) -> CarriedOut:
    """Wait until something is so."""
    timeout = body.timeout_ms / 1000
    try:
        match body:
            case Consumed():
                await lab.broker.wait_until_consumed(body.group, body.topic, timeout=timeout)
            case Fired():
                await wait_fired(lab, body.fault, body.count, body.timeout_ms)
            case QuietWait():
                await _wait_quiet(lab, body)
            case Requested():
                wanted = dict(body.match)
                api = wanted.pop("api", None)
                if api is None:
                    raise LabError('match names an API, as {"api": "EndTxn"}')
                match_in(body.match)
                await lab.broker.wait_for(api, n=body.count, timeout=timeout, **wanted)
            case InState():
                await _wait_state(lab, body)
    except EosinAssertion as late:
        raise WaitOver(str(late)) from None
    return CarriedOut()


async def _wait_quiet(lab: Lab, wanted: QuietWait) -> None:
    try:
        await lab.broker.settle(quiet_ms=wanted.quiet_ms, timeout=wanted.timeout_ms / 1000)
    except NotIdleError as late:
        raise WaitOver(str(late)) from None


async def _wait_state(lab: Lab, wanted: InState) -> None:
    if (wanted.transactional_id is None) is (wanted.group is None):
        raise LabError("name a transactional_id or a group whose state is waited for")

    async def is_so() -> bool:
        if wanted.group is not None:
            return await lab.broker.call(Operations.group_state, wanted.group) == wanted.state
        seen = await lab.broker.call(Operations.transaction, wanted.transactional_id or "")
        return seen is not None and seen.state == wanted.state

    what = f"{wanted.transactional_id or wanted.group} in state {wanted.state}"
    await lab.broker.wait_until(is_so, timeout=wanted.timeout_ms / 1000, what=what)


# Assertions -----------------------------------------------------------------------------------------------------------


class ExactlyOnce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each record of the input is in the output once."""

    input: str | list[str]
    output: str | list[str]
    group: str | None = None
    by: str = IDS
    expected: list[Bytes] | None = None
    reference: list[Bytes] | None = None
    ordered: bool | None = None


class Outcomes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The transactions of an id ended so."""

    transactional_id: str
    outcomes: list[str]


class Committed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic has these committed values, and no others."""

    topic: str
    values: list[Bytes]
    ordered: bool = True


class NeverVisible(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Readers of committed records get none of these values."""

    values: list[Bytes]
    topics: list[str] | None = None


class Fenced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A producer of the id was fenced."""

    transactional_id: str
    by: str | None = None


class OffsetWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A committed offset."""

    topic: str
    offset: int | None
    partition: int = 0


class OffsetsWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group has committed these offsets."""

    group: str
    offsets: list[OffsetWanted]


class Assertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One or more assertions, which are checked in this order."""

    exactly_once: ExactlyOnce | None = None
    outcomes: Outcomes | None = None
    committed: Committed | None = None
    never_visible: NeverVisible | None = None
    fenced: Fenced | None = None
    offsets: OffsetsWanted | None = None
    requests: list[dict[str, Any]] | None = None
    no_open_transactions: bool = False
    quiet: bool = False
    no_warnings: bool = False


async def judge(lab: Lab, body: Assertion) -> CarriedOut:
    """Check assertions; the first that does not hold is the error, with its findings."""
    broker = lab.broker
    if body == Assertion():
        raise LabError(f"name an assertion: {', '.join(Assertion.__struct_fields__)}")
    if (wanted := body.exactly_once) is not None:
        await broker.assert_exactly_once(
            wanted.input,
            wanted.output,
            wanted.group,
            by=wanted.by,
            expected=None if wanted.expected is None else [bytes_in(each) for each in wanted.expected],
            reference=None if wanted.reference is None else [bytes_in(each) for each in wanted.reference],
            ordered=wanted.ordered,
        )
    if (ends := body.outcomes) is not None:
        found = await broker.call(Operations.outcomes, ends.transactional_id)
        if found != ends.outcomes:
            why = await broker.explain(ends.transactional_id) if found else "nobody has used it"
            raise EosinAssertion(
                f"the transactions of {ends.transactional_id} ended in {found}, not in {ends.outcomes}: {why}"
            )
    if (values := body.committed) is not None:
        await broker.assert_committed(values.topic, map(bytes_in, values.values), ordered=values.ordered)
    if (hidden := body.never_visible) is not None:
        await broker.assert_never_visible(map(bytes_in, hidden.values), topics=hidden.topics)
    if (fenced := body.fenced) is not None:
        await broker.assert_fenced(fenced.transactional_id, by=fenced.by)
    if (places := body.offsets) is not None:
        await broker.assert_offsets(
            places.group, {(each.topic, each.partition): each.offset for each in places.offsets}
        )
    if body.requests is not None:
        await broker.assert_requests(body.requests)
    if body.no_open_transactions:
        await broker.assert_no_open_transactions()
    if body.quiet:
        await broker.assert_quiet()
    if body.no_warnings:
        await broker.assert_no_warnings()
    return CarriedOut()


ENDPOINTS: Final = (
    ControlPath("GET", "/history", history, errors=(NOT_TOLD,)),
    ControlPath("DELETE", "/history", forget, errors=(NOT_TOLD,)),
    ControlPath("GET", "/requests", requests, errors=(NOT_TOLD,)),
    ControlPath("GET", "/transcript", transcript, errors=(NOT_TOLD,)),
    ControlPath("POST", "/wait", wait, in_batch=False, errors=(WAIT_OVER, BROKER_DOWN)),
    ControlPath("POST", "/assert", judge, errors=(NOT_SO, BROKER_DOWN)),
)
