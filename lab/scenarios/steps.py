"""Steps that scenarios share: rules about the application's own requests, and the proof that they fired."""

from collections.abc import Container, Iterable
from typing import Any, Final

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.faults.faces import FaultDraft, Rule
from eosin.lab.history.occurrences import ANSWERED, SeenRequest
from eosin.lab.history.reading import links_in
from eosin.lab.scenarios.scenario import OWN, App, NotExercised

FIRES_S: Final = 5.0
"""Longest wait for a fault to fire."""
LASTS_S: Final = 1.5
"""A fault that an application may take for an outcome lasts so long, in real time."""
DOWN_S: Final = 1.2
"""A broker that has ended comes back after so long, in real time."""
_SLICE_S: Final = 0.1
WHY: Final = {
    "AddOffsetsToTxn": "offsets are not in its transactions, or its client speaks TV2",
    "AddPartitionsToTxn": "it writes in no transaction, or its client speaks TV2",
    "EndTxn": "it ends no transaction",
    "Fetch": "it reads nothing",
    "InitProducerId": "its producers are neither transactional nor idempotent",
    "Metadata": "its client asked for none",
    "Produce": "it wrote nothing",
    "TxnOffsetCommit": "offsets are not in its transactions",
}
"""Reasons of an application that never sends a request."""


def on_end(eosin: BrokerApi, *, committed: bool = True) -> FaultDraft:
    """A rule about the end of the application's transactions."""
    return eosin.faults.on("EndTxn", fields={"committed": committed}).optional()


def on_write(eosin: BrokerApi, app: App) -> FaultDraft:
    """A rule about the application's writes to its output."""
    if len(app.outputs) == 1:
        return eosin.faults.on("Produce", topic=app.outputs[0]).optional()
    return eosin.faults.on("Produce", fields={"acks": -1}).optional()


def on_api(eosin: BrokerApi, api: str | Iterable[str], **match: Any) -> FaultDraft:
    """A rule about any requests of these APIs."""
    return eosin.faults.on(api, **match).optional()


def fired(rule: Rule, api: str, *, times: int = 1, timeout: float = FIRES_S) -> None:
    """Wait until the rule has fired. Raises NotExercised, in words about the application."""
    try:
        rule.wait_fired(times, timeout=timeout)
    except LabError:
        seen = rule.fired
        if seen >= times:  # it has crashed the broker that was waiting for it
            return
        if seen:
            raise NotExercised(f"the fault fired {seen} times and not {times}: there was no more {api}") from None
        raise NotExercised(f"the application sent no {api}: {WHY.get(api, 'it had no need to')}") from None


def fires_for_a_while(rule: Rule, app: App, api: str) -> None:
    """Wait until the rule has fired, and let it fire for `LASTS_S` more. Raises NotExercised."""
    fired(rule, api)
    app.goes_on(LASTS_S)


def now(eosin: BrokerApi) -> int:
    """The present place in the history, for `requests_since`."""
    return eosin.history.span.last


def requests_since(eosin: BrokerApi, place: int, *apis: str, **match: Any) -> list[SeenRequest]:
    """The requests of the application that began after a place in the history."""
    return [
        each
        for each in eosin.history.requests(None, api=apis, **match)
        if each.number > place and (each.link is None or each.link.client_id != OWN)
    ]


def awaited_since(eosin: BrokerApi, app: App, place: int, *apis: str, **match: Any) -> list[SeenRequest]:
    """The same, as soon as there is one; none if there is none within `App.starts_s`."""
    waited_s = 0.0
    while not (found := requests_since(eosin, place, *apis, **match)) and waited_s < app.starts_s:
        app.goes_on(_SLICE_S)
        waited_s += _SLICE_S
    return found


def another_begins(eosin: BrokerApi, app: App, place: int) -> None:
    """Wait until an instance that has come since a place in the history has a producer, or is a member of the group:
    some clients get a producer with their first record only. Raises NotExercised."""
    known = {each.link for each in links_in(each for each in eosin.history.events() if each.number <= place)}
    waited_s = 0.0
    while not any(_is_at_work(each, known) for each in requests_since(eosin, place, "InitProducerId", "SyncGroup")):
        if waited_s >= app.starts_s:
            raise NotExercised("the second instance did not begin to work")
        app.goes_on(_SLICE_S)
        waited_s += _SLICE_S


def _is_at_work(request: SeenRequest, known: Container[int]) -> bool:
    """True for a producer, and for a member on a connection that is not one of those that were `known`."""
    if request.fate != ANSWERED or request.code != "NONE":
        return False
    return request.api == "InitProducerId" or (request.link is not None and request.link.link not in known)


def deadline_passes(eosin: BrokerApi, app: App) -> bool:
    """Let time pass until the open transactions of the application are timed out; False if there are none."""
    deadlines = [eosin.transactions(each).deadline for each in app.transactional_ids]
    opened = [each for each in deadlines if each is not None]
    if not opened:
        return False
    eosin.clock.advance_to(max(opened))
    eosin.clock.advance(seconds=11)  # what looks for late ones does so every ten seconds
    return True


def portions(app: App, number: int) -> Iterable[int]:
    """Feed the rest in so many portions; yields the number of each, from 0, once it is written."""
    size = max(1, app.left // number)
    for each in range(number):
        app.feed(size if each < number - 1 else None)
        yield each
