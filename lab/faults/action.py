"""`Action`: what a rule does when it fires. Each kind has its own meaning at each point that it may stand at.

Always true: an action is a value: what changes is in the armed rule.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from eosin.lab.faults.rules import REQUEST
from eosin.network.request_hooks import RequestVerdict

if TYPE_CHECKING:
    from eosin.lab.faults.armed import ArmedRule, Firing
    from eosin.lab.faults.armed_rules import ArmedRules
    from eosin.lab.faults.matching import Arrival


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One action. `POINTS` are those at which it may stand, the one that it implies first."""

    POINTS: ClassVar[tuple[str, ...]] = (REQUEST,)

    @property
    def default_point(self) -> str:
        """The point that it implies."""
        return self.POINTS[0]

    @property
    def default_times(self) -> int:
        """Firings, where a rule says nothing of them."""
        return 1

    @property
    def needs_function(self) -> bool:
        """True if it runs a function of the test's."""
        return False

    def check(self) -> None:
        """Raise LabError for what cannot be."""

    def wants(self, rule: "ArmedRule") -> bool:
        """False once it would do nothing any more."""
        return True

    async def at_request(self, firing: "Firing") -> RequestVerdict | None:
        """Before the request is executed. Raises CloseConnection if it never is."""
        raise NotImplementedError

    async def at_handled(self, firing: "Firing", response: Any) -> Any:
        """After it is executed; returns the answer. Raises CloseConnection if there is none."""
        raise NotImplementedError

    def at_response(self, firing: "Firing") -> None:
        """Before the answer leaves."""
        raise NotImplementedError

    def inside(self, rules: "ArmedRules", rule: "ArmedRule", arrival: "Arrival") -> Awaitable[None] | None:
        """At a point inside the broker: go on at once (None), or when this is done."""
        raise NotImplementedError
