"""Measures what hostile peers cost honest ones.

    python -m hostile [--seconds 60] [--cases S2,gzip-members] [--json FILE] [--state FILE]

For each case a fresh broker, honest clients (`honest.py`), and one attacker, each in a process of its own. First of all
the honest clients work in quiet, and beside a process that only computes; so they do once more at the end, and the
longer waits of both count. Exit code 1 when a case misses: waits of others beyond three times those, memory, the log,
an honest request that was not answered rightly. The state file has a line for each good case: a run that was stopped
goes on with the others, and measures the honest clients by themselves once more.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from descendants import end_with_me
from proof.books import enter, lines_of
from proof.reporting import report_failure, report_figures

from hostile.apart import BURN, Apart, apart, honest_kinds
from hostile.cases import chosen
from hostile.field import Case
from hostile.figures import MOST_MIB, Baseline, Samples, Seen, Waits, block, misses, of_book
from hostile.secured_broker import SecuredBroker, secured_broker

WARM_S: Final = 3.0
"""Honest clients have worked so long before anything is measured."""
SETTLE_S: Final = 30.0
"""Memory and log are what they are then, at the latest."""


def main() -> int:
    """All cases, and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long each case lasts")
    parser.add_argument("--cases", default="", help="names or rows, separated by commas; all by default")
    parser.add_argument("--json", type=Path, help="write all figures there as well")
    steps = "note how long steps of the event loop are, in processor time; waits are not judged then"
    parser.add_argument("--steps", action="store_true", help=steps)
    parser.add_argument("--state", type=Path, help="the file of cases that are done")
    options = parser.parse_args()
    try:
        cases = chosen(options.cases)
    except KeyError as unknown:
        parser.error(f"there is no case {unknown}: {', '.join(case.name for case in chosen(''))}")
    state = State(options.state, seconds=options.seconds, steps=options.steps)
    baseline = _Baselines(0 if options.steps else options.seconds, state)
    seen, broken = {name: each for name, each in state.seen.items() if name in {case.name for case in cases}}, {}
    left = [case for case in cases if case.name not in seen]
    if left or baseline.found() is None:
        baseline.measure()
    for case in left:
        try:
            seen[case.name] = _one(case, options.seconds, notes_steps=options.steps)
        except (AssertionError, OSError) as failure:  # the broker is gone, or a process that works beside it
            broken[case.name] = [str(failure)]
            print(f"{case.name} came to nothing: {failure}", flush=True)
        else:
            # Told once now, so that who looks on need not wait; the verdict is told again with the second baseline.
            print("\n".join(_told(case, seen[case.name], baseline.found())), flush=True)
            if not any(misses(case, seen[case.name], baseline.found())):
                state.add_case(case.name, seen[case.name])
    if left:
        baseline.measure()
    found = baseline.found()
    missed = {case.name: list(misses(case, seen[case.name], found)) for case in cases if case.name in seen} | broken
    print("\nThe verdict:")
    for case in cases:
        print(f"{case.name:24}{'; '.join(missed[case.name]) or 'good'}")
    figures = {name: of_book(each, missed[name]) for name, each in seen.items()}
    bad = sum(1 for each in missed.values() if each)
    words = {
        "cases": len(cases),
        "missed": bad,
        "broken": broken,
        "baseline": found and found.words(),
        "figures": figures,
    }
    if options.json:
        options.json.write_text(json.dumps(words))
    report_figures(**words)
    for name, why in missed.items():
        if why:
            report_failure(f"{name}: {'; '.join(why)}")
    print(f"{len(cases) - bad} of {len(cases)} cases are good")
    return 1 if bad else 0


def _told(case: Case, seen: Seen, baseline: Baseline | None) -> list[str]:
    return block(case, seen, baseline, list(misses(case, seen, baseline)))


class State:
    """What is done, in a file: good cases, and what honest clients waited without an attack."""

    def __init__(self, path: Path | None, **how: object) -> None:
        """Take what was measured in the same way."""
        self._path, self._how = path, how
        lines = [] if path is None else [each for each in lines_of(path) if each["how"] == how]
        self.seen = {each["case"]: Seen.of_words(each["seen"]) for each in lines if "case" in each}
        self.without = [tuple(Waits(**words) for words in each["without"]) for each in lines if "without" in each]

    def add_case(self, name: str, seen: Seen) -> None:
        """A case is over, and good."""
        self._enter(case=name, seen=seen.all_words())

    def add_without(self, quiet: Waits, busy: Waits) -> None:
        """The honest clients were measured by themselves."""
        self._enter(without=[asdict(quiet), asdict(busy)])

    def _enter(self, **line: object) -> None:
        if self._path is not None:
            enter(self._path, how=self._how, **line)


class _Baselines:
    """Waits without an attack."""

    def __init__(self, seconds: float, state: State) -> None:
        self._seconds = seconds
        self._state = state
        self._quiet: list[Waits] = [quiet for quiet, _ in state.without]
        self._busy: list[Waits] = [busy for _, busy in state.without]

    def measure(self) -> None:
        """Once in quiet, and once beside a process that computes."""
        if not self._seconds:
            return
        with _watched() as watched:
            quiet = _phase(self._seconds)
            with apart(BURN, watched.broker.place):
                busy = _phase(self._seconds)
            samples = watched.over()
        self._quiet.append(samples.between(*quiet))
        self._busy.append(samples.between(*busy))
        self._state.add_without(self._quiet[-1], self._busy[-1])
        for name, waits in (("quiet", self._quiet[-1]), ("busy", self._busy[-1])):
            print(f"{name}: {', '.join(f'{kind} {took} ms' for kind, took in waits.words().items())}", flush=True)

    def found(self) -> Baseline | None:
        """Of all that was measured, the longest; None if nothing was."""
        if not self._quiet:
            return None
        return Baseline(Waits.longest(self._quiet), Waits.longest(self._busy))


@dataclass
class _Watched:
    """A broker, and honest clients that work."""

    broker: SecuredBroker
    honest: list[Apart]

    def over(self) -> Samples:
        """Let the clients end; how long they have waited."""
        samples = Samples()
        for each in self.honest:
            each.over()
            samples.add(each.found)
        return samples


@contextmanager
def _watched(*, notes_steps: bool = False) -> Iterator[_Watched]:
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as folder,
        secured_broker(Path(folder), notes_steps=notes_steps) as broker,
        contextlib.ExitStack() as stack,
    ):
        honest = [stack.enter_context(apart(kind, broker.place)) for kind in honest_kinds()]
        _phase(WARM_S)
        yield _Watched(broker, honest)


def _phase(seconds: float) -> tuple[float, float]:
    """Let the others work; from when to when."""
    start = time.monotonic()
    time.sleep(seconds)
    return start, time.monotonic()


def _one(case: Case, seconds: float, *, notes_steps: bool) -> Seen:
    """One case on a fresh broker."""
    with _watched(notes_steps=notes_steps) as watched:
        broker = watched.broker
        steps = len(broker.steps)
        memory, log, cpu_s = broker.resident_mib, len(broker.log), broker.cpu_s
        with apart(case.name, broker.place) as attacker:
            phase = _phase(seconds)
            used_s = broker.cpu_s - cpu_s
            attacker.over()
        _settle(broker, memory + MOST_MIB + case.may_keep_mib)
        after, written = broker.resident_mib, broker.log[log:]
        samples = watched.over()
        return Seen(
            seconds=seconds,
            waits=samples.between(*phase),
            bouts=attacker.found["bouts"],
            turned_away=attacker.found["turned_away"],
            cpu_s=used_s,
            memory_before_mib=memory,
            memory_after_mib=after,
            log=written,
            steps=broker.steps[steps:],
            exit_code=broker.process.stop(),
            load=round(os.getloadavg()[0], 1),
        )


def _settle(broker: SecuredBroker, most_mib: float) -> None:
    """Give the broker time to let go of what it held for the attacker."""
    deadline = time.monotonic() + SETTLE_S
    while broker.resident_mib > most_mib and time.monotonic() < deadline:
        time.sleep(0.5)


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
