"""One run of the proof: its stages one after the other, whatever fails, then the second tries.

A stage that waits for disks and timers leaves the machine idle a third of its time. Stages that only compute have that
time, at the lowest priority, and so slow down nobody (`Stage.idle`).
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from waiting import HANG_S

from proof.books import lines_of
from proof.quarantine import entries, in_quarantine
from proof.results import RESULTS
from proof.second_tries import try_again
from proof.stages import ROOT, Stage
from proof.verdict import ALL_PASSED, Outcome, StageResult, Verdict, deserve_another_try

_EACH_S: Final = 0.1
"""Between looks for a stage that has ended."""
_LOWEST: Final = 19
"""The priority of an idle stage and of all that it starts, as `nice` counts."""


class Run:
    """Runs stages in the checkout. When it is interrupted it knows what was found until then."""

    def __init__(self, *, root: Path = ROOT, tier: str = "") -> None:
        self._root, self._tier = root, tier
        self._running: list[Running] = []
        self._stages: list[StageResult] = []
        self._tries: dict[str, list[bool]] = {}
        self._quarantine = in_quarantine(entries(), datetime.now(UTC).date())

    @property
    def verdict(self) -> Verdict:
        """The verdict so far."""
        return Verdict(self._stages, self._tries, self._quarantine, self._tier)

    def carry_out(self, stages: Sequence[Stage]) -> None:
        """Run all stages, those that say so beside the one before them, then each failed real test alone."""
        for index, stage in enumerate(stages):
            self._running.append(Running(stage, self._root, quiet=stage.beside or stage.idle))
            following = stages[index + 1] if index + 1 < len(stages) else None
            if following is None or not (following.beside or following.idle):
                self._wait(for_idle=following is None)
        try_again(deserve_another_try(self._stages), self._passes, self._tries)

    def interrupt(self) -> None:
        """Pass on what the terminal has sent to this process alone, and raise KeyboardInterrupt."""
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    def end(self) -> None:
        """Wait for stages that were interrupted, whose workers stop their brokers, and kill what hangs."""
        deadline = time.monotonic() + HANG_S
        for running in self._running:
            try:
                running.process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
        self._wait()

    def _wait(self, *, for_idle: bool = True) -> None:
        while any(for_idle or not each.is_idle for each in self._running):
            for running in [each for each in self._running if each.process.poll() is not None]:
                self._running.remove(running)
                self._stages.append(running.result())
            time.sleep(_EACH_S)

    def _passes(self, command: tuple[str, ...]) -> bool:
        self._running.append(Running(Stage(f"once more {command[-1]}", (), command), self._root, quiet=False))
        before = len(self._stages)
        self._wait()
        return self._stages.pop(before).code == ALL_PASSED


class Running:
    """A stage that was started. A `quiet` one writes to the terminal when it has ended."""

    def __init__(self, stage: Stage, root: Path, *, quiet: bool) -> None:
        self._stage = stage
        self._began = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="eosin-proof-")
        self._told = Path(self._folder.name) / "tests.json"
        self._written = Path(self._folder.name) / "written" if quiet else None
        environment = {**os.environ, RESULTS: str(self._told)}
        # .ci/tools puts there what the machine lacks.
        environment["PATH"] += f"{os.pathsep}{root / 'build' / 'ci-tools' / 'bin'}"
        print(f"== {stage.name}: {' '.join(stage.command)}", flush=True)
        output = self._written.open("wb") if self._written else None
        self.process = subprocess.Popen(
            stage.command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        if output is not None:
            output.close()
        if stage.idle:
            os.setpriority(os.PRIO_PROCESS, self.process.pid, _LOWEST)

    @property
    def is_idle(self) -> bool:
        """True if the stages that follow do not wait for this one."""
        return self._stage.idle

    def result(self) -> StageResult:
        """The result of the stage; after this nothing of it is left in the temporary folder."""
        seconds = time.monotonic() - self._began
        if self._written is not None:
            print(f"== {self._stage.name}, which ran beside:\n{self._written.read_text(errors='replace')}", flush=True)
        tests = tuple(Outcome(**line) for line in lines_of(self._told))
        self._folder.cleanup()
        return StageResult(self._stage.name, seconds, self.process.returncode, tests, of_tests=self._stage.of_tests)
