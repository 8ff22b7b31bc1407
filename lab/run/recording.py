"""`RecordedRun`: a run in a file of JSON lines, and `RecordedBroker` and `RecordedApp`, which write it while a scenario
is staged.

Always true: each step of a scenario that changes something is a line, in order; the rules' decisions are the matches
of each client id at which they fired.
"""

import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar

import msgspec

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.faults.operations import FaultOperations
from eosin.lab.operations import Operations
from eosin.lab.run.feed import FedRecord
from eosin.lab.run.late_commits import Pair
from eosin.lab.run.run_file import TAKEN, lines_in, write_lines
from eosin.lab.scenarios.scenario import App
from eosin.runtime.version import VERSION as EOSIN

P = ParamSpec("P")
T = TypeVar("T")

VERSION: Final = 1
BROKER: Final = "broker"
APP: Final = "app"
READS: Final = frozenset(
    {
        "aborted",
        "await_consumed",
        "await_requests",
        "batches",
        "clock_state",
        "committed_offset",
        "connection_lines",
        "connections",
        "disk_calls",
        "end_offset",
        "exactly_once_facts",
        "explain",
        "fault",
        "fault_complaints",
        "fault_seed",
        "faults",
        "fences",
        "fired_lines",
        "generation",
        "group_state",
        "history",
        "history_span",
        "kept_history",
        "lag",
        "last_lines",
        "members",
        "missing_requests",
        "next_deadlines",
        "next_event",
        "open_in",
        "open_transactions",
        "outcomes",
        "partition_count",
        "pending_offset",
        "read",
        "read_some",
        "rule_lines",
        "seed_text",
        "situation",
        "snapshot",
        "timeline",
        "topic_names",
        "transaction",
        "transactional_ids",
        "unconsumed",
        "why_not_committed",
        "why_not_fenced",
        "why_not_offsets",
        "why_not_quiet",
        "why_open",
        "why_visible",
    }
)
"""Operations that change nothing."""


class RunHeader(msgspec.Struct, frozen=True, tag_field="line", tag="run"):
    """The first line: all that a run begins with."""

    version: int
    scenario: str
    seed: int
    behaviour: str
    settings: dict[str, str]
    input: str
    partitions: int
    outputs: tuple[str, ...]
    group: str | None
    feed: tuple[FedRecord, ...]
    judge: str
    id: str
    restarts: int
    timeout_s: float
    transactional_ids: tuple[str, ...] = ()
    reference: list[Pair] | None = None
    """The output of the run without faults."""
    is_aged: bool = False
    is_reader: bool = False
    command: tuple[str, ...] = ()
    """For people: a replay takes the one that it is given."""


class RecordedStep(msgspec.Struct, frozen=True, tag_field="line", tag="step"):
    """Something that the scenario did."""

    to: str
    """`broker` or `app`."""
    does: str
    """An operation of the broker, or a method of the application."""
    args: list[Any] = []


class Decisions(msgspec.Struct, frozen=True, tag_field="line", tag="fired"):
    """The matches at which a rule fired."""

    rule: str
    occurrences: dict[str, tuple[int, ...]]


class Judged(msgspec.Struct, frozen=True, tag_field="line", tag="verdict"):
    """The last line."""

    verdict: str
    kinds: tuple[str, ...] = ()
    forgiven: tuple[str, ...] = ()
    """Kinds of findings that the incident brings about whatever the application does."""
    evidence: str = ""


Line = RunHeader | RecordedStep | Decisions | Judged


class RecordedRun(msgspec.Struct, frozen=True):
    """One run as a file has it."""

    header: RunHeader
    steps: tuple[RecordedStep, ...]
    decisions: dict[str, Decisions]
    """By rule."""
    judged: Judged

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        lines: list[Line] = [self.header, *self.steps, *self.decisions.values(), self.judged]
        write_lines(path, map(msgspec.json.encode, lines))


class _Format(msgspec.Struct, frozen=True):
    """The first line, as far as every version of the format has it."""

    line: Literal["run"]
    version: int


def run_in(path: Path) -> RecordedRun:
    """The run in a file. Raises LabError."""
    lines = lines_in(path)
    _check_format(path, lines[0])
    header: RunHeader | None = None
    judged: Judged | None = None
    steps: list[RecordedStep] = []
    decisions: dict[str, Decisions] = {}
    for number, text in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LabError(f"{path}:{number} is no line of a recorded run: {TAKEN}") from None
        match line:
            case RunHeader():
                header = line
            case RecordedStep():
                steps.append(line)
            case Decisions():
                decisions[line.rule] = line
            case Judged():
                judged = line
    if header is None or judged is None:
        raise LabError(f"{path} is no whole recorded run: its first line is that of the run, its last the verdict")
    return RecordedRun(header, tuple(steps), decisions, judged)


def _check_format(path: Path, first: bytes) -> None:
    """Raise LabError for a run of another version, whatever its lines are."""
    try:
        found = msgspec.json.decode(first, type=_Format)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LabError(f"{path}:1 is no line of a recorded run: {TAKEN}") from None
    if found.version != VERSION:
        raise LabError(
            f"{path} was recorded in format {found.version}, and this Eosin {EOSIN} replays format {VERSION}: replay it"
            " with the Eosin that has recorded it, or record the run again"
        )


class RecordedBroker(BrokerApi):
    """A broker whose changes are written down."""

    def __init__(self, broker: BrokerApi) -> None:
        self._broker: Final = broker
        self.steps: Final[list[RecordedStep]] = []
        self.decisions: Final[dict[str, Decisions]] = {}

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self._broker.bootstrap

    def call(
        self, operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the broker do something, and wait for it. Raises LabError."""
        name = operation.__name__
        if name in READS:
            return self._broker.call(operation, *args, **kwargs)
        given: list[Any] = list(inspect.signature(operation).bind(None, *args, **kwargs).args[1:])
        if name == "wait_fired":
            return self._waited(operation, given)
        if name == "arm_function":
            self.steps.append(RecordedStep(BROKER, name, given[:1]))
            return self._broker.call(operation, *args, **kwargs)
        if name in ("remove_fault", "clear_faults"):
            self.keep_decisions()
        if name == "advance_to":  # in a replay everything has another time
            name, given[0] = "advance", given[0] - self._broker.call(Operations.clock_state).now_ms
        self.steps.append(RecordedStep(BROKER, name, given))
        if name == "arm_fault":
            rule_id: Any = self._broker.call(operation, *args, **kwargs)
            given[0] = {**given[0], "id": rule_id}
            return rule_id  # type: ignore[no-any-return]
        return self._broker.call(operation, *args, **kwargs)

    def close(self) -> None:
        """Leave it to its owner."""

    def keep_decisions(self) -> None:
        """Keep what the rules that are armed have decided until now."""
        for each in self._broker.call(FaultOperations.faults):
            self.decisions[each.id] = Decisions(each.id, each.occurrences)

    def _waited(self, operation: Callable[..., Coroutine[Any, Any, T]], given: list[Any]) -> T:
        """A wait in slices; the one that was not in vain is a step."""
        fired: Any = self._broker.call(operation, *given)
        if fired >= given[1]:
            self.steps.append(RecordedStep(BROKER, "wait_fired", given))
        return fired  # type: ignore[no-any-return]


class RecordedApp:
    """An application whose steps are written down."""

    def __init__(self, app: App, steps: list[RecordedStep]) -> None:
        self._app: Final = app
        self._steps: Final = steps

    @property
    def input(self) -> str:
        """Its input topic."""
        return self._app.input

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its output topics."""
        return self._app.outputs

    @property
    def group(self) -> str:
        """Its consumer group. Raises NotExercised if it has none."""
        return self._app.group

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional ids that it has used, in their order. Raises NotExercised for none."""
        return self._app.transactional_ids

    @property
    def left(self) -> int:
        """Records of the feed that are not written yet."""
        return self._app.left

    @property
    def starts_s(self) -> float:
        """Longest wait for an instance to begin its work, in seconds."""
        return self._app.starts_s

    def feed(self, count: int | None = None) -> int:
        """Write so many records to the input, or all that are left; returns how many there were."""
        self._keep("feed", count)
        return self._app.feed(count)

    def commits(self, more: int = 1, *, timeout: float = 10.0) -> bool:
        """Wait until so many more transactions are committed than at the last call; False if they are not."""
        self._keep("commits", more, timeout)
        return self._app.commits(more, timeout=timeout)

    def catches_up(self, *, timeout: float = 10.0) -> bool:
        """Wait until the input is consumed; False if it is not."""
        self._keep("catches_up", timeout)
        return self._app.catches_up(timeout=timeout)

    def goes_on(self, seconds: float) -> None:
        """Let it do what it does for so long, in real time."""
        self._keep("goes_on", seconds)
        self._app.goes_on(seconds)

    def start_another(self) -> None:
        """Start a second instance, as a deployment does that has not ended the first."""
        self._keep("start_another")
        self._app.start_another()

    def stop_first(self) -> None:
        """End the older of two instances with SIGTERM."""
        self._keep("stop_first")
        self._app.stop_first()

    def stop_another(self) -> None:
        """End the younger of two instances with SIGTERM."""
        self._keep("stop_another")
        self._app.stop_another()

    def restart(self) -> None:
        """Kill it, and start it again."""
        self._keep("restart")
        self._app.restart()

    def pause(self) -> None:
        """Stop its process, as a long collection of garbage or a full swap does."""
        self._keep("pause")
        self._app.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._keep("resume")
        self._app.resume()

    def _keep(self, method: str, *args: Any) -> None:
        self._steps.append(RecordedStep(APP, method, list(args)))
