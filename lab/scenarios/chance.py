"""`random`: faults in an order that the seed chooses."""

from typing import Final

from eosin.lab.broker_api import BrokerApi
from eosin.lab.faults.faces import Rule
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import LASTS_S, on_api, on_end, on_write
from eosin.runtime.chance import SeededChance

FAULTS: Final = 5
_TRIES: Final = ("answer", "request", "coordinator")
"""Kinds that last for a while."""
_KINDS: Final = ("answer", "request", "write", "coordinator", "offsets", "restart", "power", "time")


def random_(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Five faults that the seed chooses, one after the other.

    Origin: simulation.

    Steps: Five times a portion of the feed and one of these, each once at most: a lost commit, its lost answer, a lost
    answer to a write, a coordinator that moves, lost offsets, a restart, a loss of power, a day that passes.

    Healthy: As in the scenarios of each; the seed is in the report, and `--seed` brings the same faults again.

    Cure: That of the scenario that it turns out to be.
    """
    chance = SeededChance(seed)
    done = []
    kinds = list(_KINDS)
    for _ in range(FAULTS):
        kind = kinds.pop(chance.below(len(kinds)))
        rule = _armed(eosin, app, kind)
        app.feed(max(1, app.left // FAULTS))
        if kind == "restart":
            eosin.restart(clean=bool(chance.below(2)))
        elif kind == "power":
            eosin.crash(power=True)
        elif kind == "time":
            app.catches_up(timeout=5)
            eosin.clock.advance(hours=25)
        if kind in _TRIES:
            app.goes_on(LASTS_S)
        else:
            app.commits(timeout=3)
        if rule is None or rule.fired:
            done.append(kind)
        if rule is not None:
            rule.remove()
    app.feed()
    if not done:
        raise NotExercised("none of its faults fired: the application sent none of the requests")
    return Expectation(notes=(f"faults: {', '.join(done)}",))


def _armed(eosin: BrokerApi, app: App, kind: str) -> Rule | None:
    match kind:
        case "answer":
            return on_end(eosin).always().lose("answer")
        case "request":
            return on_end(eosin).always().lose("request")
        case "write":
            return on_write(eosin, app).lose("answer")
        case "coordinator":
            return on_end(eosin).always().error("NOT_COORDINATOR")
        case "offsets":
            return on_api(eosin, "TxnOffsetCommit").lose("request")
        case _:
            return None
