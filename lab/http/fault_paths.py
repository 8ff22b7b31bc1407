"""The paths about rules of scripted faults."""

from collections.abc import Awaitable
from typing import Any, Final

from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.common.limits import WaitLimit
from eosin.lab.faults.rules import RuleText
from eosin.lab.faults.values import RuleSeen
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import NOT_SO, WAIT_OVER, WaitOver
from eosin.lab.http.hosts import Lab
from eosin.lab.http.values import CarriedOut, FiredQuery
from eosin.lab.operations import Operations

_SLICE_MS: Final = 200


async def arm(lab: Lab, body: dict[str, Any]) -> RuleSeen:
    """Arm a rule; it with its id and counts."""
    return await lab.broker.call(Operations.fault, await lab.broker.call(Operations.arm_fault, body))


async def rules(lab: Lab) -> list[RuleSeen]:
    """The rules that are armed, in that order."""
    return await lab.broker.call(Operations.faults)


async def rule(lab: Lab, fault: str, query: FiredQuery) -> RuleSeen:
    """A rule; with `wait_fired` once it has fired so often."""
    await wait_fired(lab, fault, query.wait_fired, query.timeout_ms)
    return await lab.broker.call(Operations.fault, fault)


async def wait_fired(lab: Lab, fault: str, count: int, timeout_ms: int) -> None:
    """Wait until a rule has fired so often. Raises WaitOver."""
    limit = WaitLimit(timeout_ms / 1000)
    while count and await lab.broker.call(Operations.wait_fired, fault, count, limit.left_ms(_SLICE_MS)) < count:
        if not limit.left_ms():
            seen = await lab.broker.call(Operations.fault, fault)
            raise WaitOver(
                f"rule {seen.words} has not fired {count} times within {limit.seconds:g} s: it matched {seen.matched}"
                f" requests, and fired at {seen.fired}"
            )


async def remove(lab: Lab, fault: str) -> CarriedOut:
    """Take a rule away; an error if it has never fired, unless it is optional."""
    await lab.broker.call(Operations.fault, fault)  # that there is none is another error
    return await _removed(lab.broker.call(Operations.remove_fault, fault))


async def clear(lab: Lab) -> CarriedOut:
    """Take all rules away; an error if one has never fired, unless it is optional."""
    return await _removed(lab.broker.call(Operations.clear_faults))


async def _removed(removal: Awaitable[None]) -> CarriedOut:
    """Raises EosinAssertion for a rule that never fired."""
    try:
        await removal
    except LabError as complaint:
        raise EosinAssertion(str(complaint)) from None
    return CarriedOut()


async def release(lab: Lab, fault: str) -> CarriedOut:
    """Let go on what a rule holds, by its id or by the name under which it holds."""
    await lab.broker.call(Operations.release_fault, fault)
    return CarriedOut()


ENDPOINTS: Final = (
    ControlPath("POST", "/faults", arm, status=201, schema=RuleText),
    ControlPath("GET", "/faults", rules),
    ControlPath("DELETE", "/faults", clear, errors=(NOT_SO,)),
    ControlPath("GET", "/faults/{fault}", rule, errors=(WAIT_OVER,)),
    ControlPath("DELETE", "/faults/{fault}", remove, errors=(NOT_SO,)),
    ControlPath("POST", "/faults/{fault}/release", release),
)
