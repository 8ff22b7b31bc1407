"""Tells a counterexample as a list of steps."""

from typing import Final

from model_checker.listing import listing
from model_checker.replication.search import Counterexample
from model_checker.replication.steps import Action
from model_checker.replication.values import Bounds

_WORDS: Final = {
    "append": "broker {node} appends a record",
    "sync": "what broker {node} has is durable",
    "learn": "broker {node} learns the newest metadata",
    "pause ends": "broker {node} may ask for a change again",
    "look for lag": "broker {node} looks whose replica lags",
    "fetch": "broker {node} fetches, and takes the answer",
    "fetch in vain": "broker {node} fetches, and the answer is lost",
    "late fetch": "broker {node} fetches, and loses the connection; the fetch is still on its way",
    "serve late": "the late fetch of broker {node} arrives",
    "ask offset": "broker {node} asks its leader where the log ends or starts",
    "retry": "broker {node} has waited, and will fetch again",
    "controller": "the controller gets what broker {node} asks for",
    "controller answer": "broker {node} gets the controller's answer",
    "lose controller answer": "the controller's answer to broker {node} is lost",
    "crash": "broker {node} stops, and {which} records of its log stay",
    "restart": "broker {node} starts and registers",
    "restart empty": "broker {node} starts with an empty disk, and registers",
    "unfence": "the controller unfences broker {node}",
    "session ends": "the session of broker {node} ends",
    "fence": "the controller fences broker {node}, which does not know it",
    "elect": "the controller elects broker {node}",
    "lag passes": "replica.lag.time.max.ms pass",
}


def tell(bounds: Bounds, found: Counterexample) -> str:
    """The rule, the bounds and each step."""
    return listing(bounds.name, bounds.about, found, _step)


def _step(action: Action) -> str:
    return _WORDS[action.kind].format(node=action.node, which=action.which)
