"""`Scenario`: an incident by name, and the values that its function deals in.

Always true: a function stages its incident, lets go of all that it holds, and returns; healing, stopping and judging
are the runner's. Its docstring is the documentation: a sentence, then `Origin:`, `Steps:`, `Healthy:` and `Cure:`.
"""

import inspect
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ReadRecord
from eosin.lab.scenarios.clients import EXPECTED

PARTS: Final = ("Origin", "Steps", "Healthy", "Cure")
"""The parts of a docstring, in their order."""
OWN: Final = "eosin-lab"
"""The beginning of transactional ids that scenarios use themselves."""


class NotExercised(Exception):
    """The fault never fired; the message says why, in words about the application."""


class NotPossible(Exception):
    """The client, or this lab, cannot do what the scenario needs; the message names it."""


class Expectation(msgspec.Struct, frozen=True):
    """The result that a scenario has for the judge. A healthy application breaks nothing, but for what is here."""

    forgiven: tuple[str, ...] = ()
    """Kinds of findings that the incident brings about whatever the application does."""
    notes: tuple[str, ...] = ()
    """Sentences for the report."""
    gone: tuple[ReadRecord, ...] = ()
    """Records of the output that the incident has deleted: nobody expects them any more."""


class App(Protocol):
    """The application, as a scenario has it in its hands."""

    @property
    def input(self) -> str:
        """Its input topic."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its output topics."""

    @property
    def group(self) -> str:
        """Its consumer group. Raises NotExercised if it has none."""

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional ids that it has used, in their order. Raises NotExercised for none."""

    @property
    def left(self) -> int:
        """Records of the feed that are not written yet."""

    @property
    def starts_s(self) -> float:
        """Longest wait for an instance to begin its work: by the time that the first one took, and 20 s at least."""

    def feed(self, count: int | None = None) -> int:
        """Write so many records to the input, or all that are left; returns how many there were."""

    def commits(self, more: int = 1, *, timeout: float = 10.0) -> bool:
        """Wait until so many more transactions are committed than at the last call; False if they are not."""

    def catches_up(self, *, timeout: float = 10.0) -> bool:
        """Wait until the input is consumed; False if it is not."""

    def goes_on(self, seconds: float) -> None:
        """Let it do what it does for so long, in real time."""

    def start_another(self) -> None:
        """Start a second instance, as a deployment does that has not ended the first."""

    def stop_first(self) -> None:
        """End the older of two instances with SIGTERM."""

    def stop_another(self) -> None:
        """End the younger of two instances with SIGTERM."""

    def restart(self) -> None:
        """Kill it, and start it again."""

    def pause(self) -> None:
        """Stop its process, as a long collection of garbage or a full swap does."""

    def resume(self) -> None:
        """Let it go on."""


Stage = Callable[[BrokerApi, App, int], Expectation | None]
"""A scenario's function; None expects of the application that it is exactly-once."""


class Scenario(msgspec.Struct, frozen=True):
    """One incident: `Scenario("slow-invoices", slow_invoices, tags=("time",))`. A file of `--scenario-file` may have
    such values beside functions."""

    name: str
    stage: Stage
    """A function of (eosin, app, seed); its docstring is the documentation."""
    tags: tuple[str, ...] = ()
    """For `--scenario tag:TAG`."""
    planted: str = ""
    """The bug of an application that the scenario is for: a name of `BUGS` in tests/support/lab_copier.py."""
    behaviour: str = ""
    """The behaviour that the broker has to have; empty for any."""
    is_aged: bool = False
    """True if the application's transactional ids begin at nearly the last epoch."""
    needs_its_process: bool = False
    """True if it starts, ends, kills or pauses instances of the application."""

    @property
    def summary(self) -> str:
        """The first sentence of its documentation."""
        return _documentation(self.stage).partition("\n\n")[0].replace("\n", " ")

    @property
    def parts(self) -> dict[str, str]:
        """Origin, steps, what a healthy application does, and the cure of one that does not, by `PARTS`."""
        found: dict[str, str] = {}
        for paragraph in _documentation(self.stage).split("\n\n")[1:]:
            head, colon, text = paragraph.partition(":")
            if colon and head in PARTS:
                found[head] = " ".join(text.split())
        return found

    def page(self) -> str:
        """Its documentation, for a terminal."""
        lines = [f"{self.name}: {self.summary}", *(f"\n{head}: {text}" for head, text in self.parts.items())]
        lines += [f"\nWith {client}: {words}." for client, words in EXPECTED.get(self.name, {}).items()]
        if self.behaviour:
            lines.append(f"\nBroker: behaviour {self.behaviour}, whatever is asked for.")
        lines.append(f"\nTags: {', '.join(self.tags)}" if self.tags else "")
        return "\n".join(lines).rstrip()


def scenario_of(
    stage: Stage,
    *tags: str,
    name: str = "",
    planted: str = "",
    behaviour: str = "",
    is_aged: bool = False,
    needs_its_process: bool = False,
) -> Scenario:
    """The scenario of a function, which has that name with dashes unless another is given."""
    given = name or stage.__name__.strip("_").replace("_", "-")
    return Scenario(given, stage, tags, planted, behaviour, is_aged, needs_its_process)


def check_stage(stage: object, where: str) -> None:
    """Raise LabError unless it can be the function of a scenario."""
    if not callable(stage) or len(inspect.signature(stage).parameters) != 3:
        raise LabError(f"{where} is no scenario: it is a function of (eosin, app, seed)")


def _documentation(stage: Stage) -> str:
    return inspect.getdoc(stage) or ""
