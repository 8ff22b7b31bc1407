"""`FaultOperations`: the operations about rules of one broker of the lab, in its event loop."""

from typing import Any

import msgspec

from eosin.lab.common.errors import LabError, NotToldError
from eosin.lab.faults.armed import ArmedRule, Function
from eosin.lab.faults.armed_rules import ArmedRules
from eosin.lab.faults.values import RuleSeen


class FaultOperations:
    """The part of `Operations` that has to do with faults."""

    rules: ArmedRules | None = None
    """None for a broker that is not of the lab."""

    @property
    def _rules(self) -> ArmedRules:
        if self.rules is None:
            raise NotToldError("only a broker of the lab has faults")
        return self.rules

    async def arm_fault(self, rule: dict[str, Any]) -> str:
        """Arm a rule, and return its id. Raises LabError for one that could not fire as it is written."""
        return self._rules.arm(rule).id

    async def arm_function(self, rule: dict[str, Any], function: Function) -> str:
        """The same for an action that runs a function of the test's."""
        return self._rules.arm(rule, function).id

    async def amend_fault(self, rule_id: str, rule: dict[str, Any]) -> None:
        """Change the conditions of a rule. Raises LabError."""
        self._rules.amend(rule_id, rule)

    async def fault(self, rule_id: str) -> RuleSeen:
        """A rule, and how often it matched and fired. Raises LabError."""
        return _state_of(self._rules.rule(rule_id))

    async def faults(self) -> list[RuleSeen]:
        """All rules, in the order in which they were armed."""
        return [] if self.rules is None else [_state_of(each) for each in self.rules.rules()]

    async def wait_fired(self, rule_id: str, count: int, wait_ms: float) -> int:
        """Wait until a rule has fired so often, at most so long; returns how often it has."""
        return await self._rules.rule(rule_id).wait_fired(count, wait_ms)

    async def release_fault(self, name: str) -> None:
        """Let go on what a rule holds, by its id or by the name under which it holds."""
        self._rules.rule(name).release()

    async def remove_fault(self, rule_id: str) -> None:
        """Take a rule away. Raises LabError if it should have fired, and has not."""
        complaint = self._rules.remove(rule_id)
        if complaint is not None:
            raise LabError(complaint)

    async def clear_faults(self) -> None:
        """Take all rules away. Raises LabError if some should have fired, and have not."""
        complaints = self._rules.complaints
        self._rules.dismiss()
        if complaints:
            raise LabError("; ".join(complaints))

    async def fault_complaints(self, dismiss: bool) -> list[str]:
        """The reasons for which a test fails whose rules these are; they are told once with `dismiss`."""
        if self.rules is None:
            return []
        complaints = self.rules.complaints
        if dismiss:
            self.rules.dismiss()
        return complaints

    async def fault_seed(self) -> int:
        """The seed of rules that fire by chance."""
        return self._rules.seed


def _state_of(rule: ArmedRule) -> RuleSeen:
    counting = rule.counting
    text = {name: value for name, value in msgspec.to_builtins(rule.text).items() if name != "id"}
    occurrences = {client_id: tuple(each) for client_id, each in counting.occurrences.items()}
    return RuleSeen(
        rule.id, str(rule), rule.point, counting.matched, counting.fired, rule.held, rule.complaint, text, occurrences
    )
