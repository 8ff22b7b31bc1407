"""`StagedApp`: the application in one run, as scenarios have it in their hands."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count as numbers
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from eosin.lab.behaviours import KAFKA
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.common.limits import WAIT_S, WaitLimit
from eosin.lab.run.feed import FedRecord, write
from eosin.lab.run.judge import Judge
from eosin.lab.run.process import MOST_SAID, Exit, Supervised
from eosin.lab.scenarios.scenario import OWN, NotExercised, NotPossible
from eosin.runtime.clock import Clock, SystemClock

T = TypeVar("T")
_PAUSE_S: Final = 0.05
_SLICE_S: Final = 0.5
_LOGS: Final = "instance-*.log"
STARTS_S: Final = 20.0
"""Least of the longest wait for an instance: a virtual machine starts slowly beside others."""
_NOT_OURS: Final = "which the lab cannot do to one that somebody else has started"
NEEDS_ITS_PROCESS: Final = f"it starts, ends, kills or pauses instances of the application, {_NOT_OURS}"


class RunPlan(msgspec.Struct, frozen=True):
    """All that the runs have in common."""

    command: tuple[str, ...]
    input: str
    partitions: int
    outputs: tuple[str, ...]
    feed: tuple[FedRecord, ...]
    judge: Judge
    transactional_ids: tuple[str, ...] = ()
    """The ones of the reference run."""
    group: str | None = None
    """None until the reference run has shown it."""
    behaviour: str = KAFKA
    """The behaviour of the brokers."""
    restarts: int = 5
    timeout_s: float = 60.0
    id_text: str = "key"
    """The way to a record's id, as `--id` has it."""
    is_reader: bool = False
    """True for a consumer alone: it writes to no topic, and says what it has read."""
    port: int = 0
    """Of the brokers; 0 is a free one."""
    attach: Callable[[str, str], None] | None = None
    """Without a command: waits until somebody has started the application, given an address and a run's name."""


class StagedApp:
    """The instances of an application at one broker, and the rest of their feed."""

    def __init__(self, eosin: BrokerApi, plan: RunPlan, folder: Path, clock: Clock | None = None) -> None:
        self._eosin: Final = eosin
        self._plan: Final = plan
        self._folder: Final = folder
        self._left: list[FedRecord] = list(plan.feed)
        self._numbers: Final = numbers(1)
        self._running: list[Supervised] = []
        self._ended: Final[list[Supervised]] = []
        self._committed_before = 0
        self._clock: Final = clock or SystemClock()
        self._started_ms = 0
        """The time of the first start."""
        self._first_s = 0.0
        """Seconds that the first instance took for its start and the first half of the feed."""
        self._buried = 0
        """Exits of which the group has been told."""
        self._pausing: Final = threading.Event()
        for each in folder.glob(_LOGS):  # of an earlier run, whose words are none of this one
            each.unlink()

    # What a scenario has (`App`)

    @property
    def input(self) -> str:
        """Its input topic."""
        return self._plan.input

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its output topics. Raises NotPossible for a consumer alone."""
        if self._plan.is_reader:
            raise NotPossible("a consumer alone writes to no topic")
        return self._plan.outputs

    @property
    def group(self) -> str:
        """Its consumer group. Raises NotExercised if it has none."""
        found = self._plan.group or self.committing_group
        if found is None:
            raise NotExercised("the application has committed no offsets of its input: it has no group")
        return found

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional ids that it has used, in their order. Raises NotExercised for none."""
        found = dict.fromkeys(
            each.transactional_id
            for each in self._eosin.history.requests("InitProducerId")
            if each.transactional_id and not each.transactional_id.startswith(OWN)
        )
        if not found and self._plan.is_reader:
            raise NotPossible("a consumer alone has no transactions")
        if not found:
            raise NotExercised("the application has no transactional id: its producers are not transactional")
        return tuple(found)

    @property
    def left(self) -> int:
        """Records of the feed that are not written yet."""
        return len(self._left)

    @property
    def starts_s(self) -> float:
        """Longest wait for an instance to begin its work: another one may take twice as long as the first."""
        return max(STARTS_S, 2 * self._first_s)

    def feed(self, count: int | None = None) -> int:
        """Write so many records to the input, or all that are left; returns how many there were."""
        self._committed_before = self._commits()
        now = self._left[: len(self._left) if count is None else count]
        for each in now:
            self._write(each)
        del self._left[: len(now)]
        return len(now)

    def commits(self, more: int = 1, *, timeout: float = WAIT_S) -> bool:
        """Wait until so many more transactions are committed than at the last call, or the last feed; False if they
        are not."""
        wanted = self._committed_before + more
        is_done = self._waited(lambda: self._commits() >= wanted, timeout)
        self._committed_before = self._commits()
        return is_done

    def catches_up(self, *, timeout: float = WAIT_S) -> bool:
        """Wait until the input is consumed; False if it is not."""
        limit = WaitLimit(timeout)
        while not self.is_dead:
            if len(self.exits) > self._buried:
                self._bury()
            left_s = limit.left_ms() / 1000
            group = self._plan.group or self.committing_group
            if group is None:
                self._pausing.wait(_PAUSE_S)
            else:
                try:
                    self._eosin.wait_until_consumed(group, self.input, timeout=min(left_s, _SLICE_S))
                except (EosinAssertion, LabError):  # a broker that restarts has no answer
                    self._pausing.wait(_PAUSE_S)
                else:
                    self._first_s = self._first_s or (self._clock.elapsed_ms() - self._started_ms) / 1000
                    return True
            if not left_s:
                return False
        return False

    def goes_on(self, seconds: float) -> None:
        """Let it do what it does for so long, in real time."""
        self._pausing.wait(seconds)

    def start_another(self) -> None:
        """Start a second instance, as a deployment does that has not ended the first."""
        self.start()

    def stop_first(self) -> None:
        """End the older of two instances with SIGTERM."""
        self._stop(self._running[0])

    def stop_another(self) -> None:
        """End the younger of two instances with SIGTERM."""
        self._stop(self._running[-1])

    def restart(self) -> None:
        """Kill it, and start it again; its group is told at once that the old one is gone."""
        self._running[-1].kill()
        self._bury()

    def pause(self) -> None:
        """Stop its process, as a long collection of garbage or a full swap does."""
        self._running[0].pause()

    def resume(self) -> None:
        """Let it go on."""
        self._running[0].resume()

    # What the runner has

    def start(self) -> None:
        """Start an instance. Raises LabError if its command cannot be run."""
        self._started_ms = self._started_ms or self._clock.elapsed_ms()
        log = self._folder / f"instance-{next(self._numbers)}.log"
        instance = Supervised(self._plan.command, self._eosin.bootstrap, log, restarts=self._plan.restarts)
        instance.start()
        self._running.append(instance)

    def stop(self) -> None:
        """End all instances."""
        for each in list(self._running):
            self._stop(each)

    @property
    def is_dead(self) -> bool:
        """True if an instance has exited more often than it may."""
        return any(each.is_dead for each in (*self._running, *self._ended))

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits that nobody has asked for."""
        return tuple(one for each in (*self._ended, *self._running) for one in each.exits)

    @property
    def starts(self) -> int:
        """The number of starts of all instances, by whomever."""
        return sum(each.starts for each in (*self._ended, *self._running))

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of all instances."""
        return tuple(line for each in (*self._ended, *self._running) for line in each.last_lines())

    @property
    def said(self) -> list[str]:
        """All lines that its instances have said. Raises LabError if some are not kept."""
        if any(each.left_out for each in (*self._ended, *self._running)):
            raise LabError(
                f"the application has said more than {MOST_SAID >> 20} MiB, so that the first lines are gone: a"
                " consumer alone says the value of each record that it handles, and nothing else, on standard output"
            )
        logs = sorted(self._folder.glob(_LOGS))
        return [line for each in logs for line in each.read_text(errors="replace").splitlines()]

    @property
    def committing_group(self) -> str | None:
        """The group that has committed offsets of the input."""
        for api in ("TxnOffsetCommit", "OffsetCommit"):
            for each in self._eosin.history.requests(api):
                if any(one.topic == self.input for one in each.partitions):
                    return each.group
        return None

    def _bury(self) -> None:
        """Remove the members of a group, of which some are dead: who is alive joins again. It would take the length of
        a session otherwise."""
        self._buried = len(self.exits)
        group = self._plan.group or self.committing_group
        if group is not None:
            with suppress(LabError):
                self._eosin.group(group).kick()

    def _stop(self, instance: Supervised) -> None:
        self._running.remove(instance)
        self._ended.append(instance)
        instance.stop()

    def _commits(self) -> int:
        """Transactions that are committed; of a consumer alone, its commits of offsets."""
        api, detail = ("OffsetCommit", None) if self._plan.is_reader else ("EndTxn", "commit*")
        match = {"code": "NONE", **({} if detail is None else {"detail": detail})}
        return self._retried(lambda: len(self._eosin.history.requests(api, **match)), WaitLimit(WAIT_S))

    def _waited(self, condition: Callable[[], bool], timeout: float) -> bool:
        limit = WaitLimit(timeout)
        while not condition():
            if not limit.left_ms() or self.is_dead:
                return False
            self._pausing.wait(_PAUSE_S)
        return True

    def _write(self, record: FedRecord) -> None:
        """Write one record once, whatever the broker goes through meanwhile. Raises LabError."""
        limit = WaitLimit(WAIT_S)
        while True:
            try:
                return write(self._eosin, self.input, [record])
            except LabError:
                if not limit.left_ms():
                    raise
            self._pausing.wait(_PAUSE_S)
            if self._retried(lambda: self._is_written(record), limit):
                return None

    def _is_written(self, record: FedRecord) -> bool:
        pair = (_bytes(record.key), _bytes(record.value))
        wanted = sum((_bytes(each.key), _bytes(each.value)) == pair for each in self._fed)
        found = self._eosin.topic(self.input).records()
        return sum((each.key, each.value) == pair for each in found) > wanted

    @property
    def _fed(self) -> Sequence[FedRecord]:
        """The records that are written, but for those of the feed that is going on."""
        return self._plan.feed[: len(self._plan.feed) - len(self._left)]

    def _retried(self, call: Callable[[], T], limit: WaitLimit) -> T:
        while True:
            try:
                return call()
            except LabError:
                if not limit.left_ms():
                    raise
                self._pausing.wait(_PAUSE_S)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class AttachedApp(StagedApp):
    """An application that somebody else starts and ends: in an IDE, in a container."""

    def start(self) -> None:
        """Wait until it was started."""
        if self._plan.attach is not None:
            self._plan.attach(self._eosin.bootstrap, self._folder.name)
        self._started_ms = self._started_ms or self._clock.elapsed_ms()

    def stop(self) -> None:
        """Leave it to whoever has started it."""

    def start_another(self) -> None:
        """Raises NotPossible."""
        raise NotPossible(f"it starts a second instance, {_NOT_OURS}")

    def stop_first(self) -> None:
        """Raises NotPossible."""
        raise NotPossible(f"it ends an instance, {_NOT_OURS}")

    def stop_another(self) -> None:
        """Raises NotPossible."""
        raise NotPossible(f"it ends an instance, {_NOT_OURS}")

    def restart(self) -> None:
        """Raises NotPossible."""
        raise NotPossible(f"it kills the application, {_NOT_OURS}")

    def pause(self) -> None:
        """Raises NotPossible."""
        raise NotPossible(f"it stops the process of the application, {_NOT_OURS}")

    def resume(self) -> None:
        """Harmless."""
