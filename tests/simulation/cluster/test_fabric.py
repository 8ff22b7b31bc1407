"""The simulated network between machines holds, backs off and forgets as TCP does."""

from collections.abc import Callable
from typing import Any

import pytest

from simulation.cluster.fabric import Fabric, Flow, Route
from simulation.loop import Scheduler

CUT_S = 3.0


class Sender:
    """Connections from one machine to another."""

    def __init__(self, seed: str = "fabric") -> None:
        self.scheduler = Scheduler(report=self._report)
        self._fabric = Fabric(self.scheduler, seed, delay_ms=1.0)
        self.route: Route = self._fabric.route("one", "other")
        self.came: list[tuple[str, float]] = []

    def _report(self, process: Any, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def connection(self) -> Flow:
        return Flow(self._fabric, self.route)

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.came.append((what, self.scheduler.now))

    def wait(self, seconds: float) -> None:
        over: Any = self._fabric.process.create_future()
        self._fabric.process.call_later(seconds, over.set_result, None)
        self.scheduler.run(over)

    @property
    def order(self) -> list[str]:
        return [what for what, _ in self.came]


def test_what_a_cut_holds_arrives_in_the_order_of_its_connection() -> None:
    sender = Sender()
    sender.route.is_cut = True
    connection = sender.connection()
    for what in "abc":
        connection.send(sender.note(what))
    sender.wait(CUT_S)
    assert not sender.came
    sender.route.heal()
    connection.send(sender.note("d"))
    sender.wait(CUT_S)
    assert sender.order == ["a", "b", "c", "d"]


def test_a_connection_that_was_dialled_late_may_be_there_before_the_one_that_it_replaces() -> None:
    orders = set()
    for seed in range(20):
        sender = Sender(str(seed))
        sender.route.is_cut = True
        sender.connection().send(sender.note("older"))
        sender.wait(CUT_S / 2)
        sender.connection().send(sender.note("newer"))
        sender.wait(CUT_S / 2)
        sender.route.heal()
        sender.wait(CUT_S)
        assert sender.came[-1][1] <= 2 * CUT_S + 0.01, "it goes on after as long as it was held, at the latest"
        orders.add(tuple(sender.order))
    assert orders == {("newer", "older"), ("older", "newer")}


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_was_on_its_way_before_a_reset_never_arrives(is_cut: bool) -> None:
    sender = Sender()
    sender.route.is_cut = is_cut
    connection = sender.connection()
    connection.send(sender.note("given up"))
    connection.reset(sender.note("the reset"))
    sender.wait(CUT_S)
    sender.route.heal()
    sender.wait(CUT_S)
    assert sender.order == ["the reset"]


def test_a_second_cut_holds_what_still_backs_off() -> None:
    sender = Sender()
    sender.route.is_cut = True
    sender.connection().send(sender.note("a"))
    sender.wait(CUT_S)
    sender.route.heal()
    sender.route.is_cut = True
    sender.wait(2 * CUT_S)
    assert not sender.came
    sender.route.heal()
    sender.wait(4 * CUT_S)
    assert sender.order == ["a"]
