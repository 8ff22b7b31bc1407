"""The tail of a commit: p99, p99.9 and the longest, at a load that the broker can bear, for minutes.

Each broker is first asked for as many transactions as it gives (its capacity: 16 producers, each with one transaction
at a time), then for 70 % of that at fixed times, and for a rate that is the same for all: 70 % of the slowest one's.
Every transaction is timed from when it was due (`bench.open_loop`), so a stall counts for all that came due in it.
Brokers take turns, and each figure has a range over the turns. MINUTES in the environment is the time of each at its
own rate; at the equal rate it is a third of that. DURABILITY is `os` unless given.

The generator is a process of its own that shares the machine with the broker: on two cores it is a part of what is
measured, the same for all. Its CPU, and what it sent late by itself, are told.

Eosin runs under `bench.probed_broker`, which notes each time in which the event loop did not get to its timers; of
Apache Kafka the log of its garbage collector is read.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apache_kafka import PUBLISHED_JVM, ApacheKafka
from toolchains import NotHere

from bench.contenders import COMPILED, NO_GOALS, Contender, Goals, eosin, eosin_kinds, rows, settings_of_kafka
from bench.probed_broker import FILE_VARIABLE
from bench.raw_connection import RawConnection
from bench.report import Row, percentile, repeated
from bench.throughput import create_topic

GROUP: Final = "The tail of a commit"
PRODUCERS: Final = 16
SHARE: Final = 0.7
"""Of the capacity."""
TURNS: Final = 3
EQUAL_SHARE: Final = 1 / 3
"""Of the time at the own rate."""
MINUTES: Final = 10.0
STEP_BUDGET_MS: Final = 20
TOPIC: Final = "tail"
OWN, EQUAL = "own", "equal"
TOLD: Final = 5
"""Late beats, and longest commits, that are printed with what is known of their cause."""
BEFORE_S: Final = 0.1
"""Time before a commit was due, in which the queue that it stood in may have been made."""
_PAUSE: Final = re.compile(r"Pause .* ([0-9.]+)ms$")


@dataclass
class _Subject:
    """A broker, and what was measured of it."""

    contender: Contender
    probe: Path
    """The file of Eosin's probe, or the log of Apache Kafka's collector."""
    capacities: list[float] = field(default_factory=list)
    found: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {OWN: [], EQUAL: []})
    """The report of the generator, of each turn."""
    pauses_ms: list[float] = field(default_factory=list)
    """Apache Kafka's longest collection in each turn."""

    @property
    def capacity(self) -> float:
        """Transactions per second, the median."""
        return percentile(self.capacities, 0.5)

    def drive(self, seconds: float, rate: float = 0.0, warm_up: float = 0.0) -> dict[str, Any]:
        """Transactions for so long. Returns what the generator tells."""
        command = [sys.executable, "-m", "bench.open_loop", str(self.contender.broker.port), "--topic", TOPIC]
        command += ["--producers", str(PRODUCERS), "--seconds", str(seconds), "--rate", str(rate)]
        command += ["--warm-up", str(warm_up)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def take_turn(self, load: str, seconds: float, rate: float, warm_up: float) -> None:
        """So many transactions a second for so long."""
        before = len(self._collector_log())
        self.found[load].append(self.drive(seconds, rate, warm_up))
        if not self.contender.is_ours:
            lines = self._collector_log()[before:]
            pauses = [float(found[1]) for line in lines if (found := _PAUSE.search(line)) is not None]
            self.pauses_ms.append(max(pauses, default=0.0))

    def _collector_log(self) -> list[str]:
        is_there = not self.contender.is_ours and self.probe.exists()
        return self.probe.read_text().splitlines() if is_there else []


def _subjects(stack: ExitStack, folder: Path, durability: str) -> list[_Subject]:
    """All of them, started; Apache Kafka last, where it is there."""
    found = []
    for kind in eosin_kinds():
        broker = eosin(kind, folder / kind, durability)
        probe = folder / f"{kind}.json"
        broker.program = ("-m", "bench.probed_broker")
        broker.environment[FILE_VARIABLE] = str(probe)
        found.append(_Subject(Contender(kind, stack.enter_context(broker)), probe))
    log = folder / "collections.log"
    try:
        jvm = (*PUBLISHED_JVM, f"-Xlog:gc:file={log}:uptime")
        kafka = ApacheKafka(folder / "kafka", settings=settings_of_kafka(durability), heap_mb=1024, jvm=jvm)
    except NotHere as missing:
        print(f"without Apache Kafka: {missing}", flush=True)
    else:
        found.append(_Subject(Contender(f"Apache Kafka {kafka.version}", stack.enter_context(kafka)), log))
    return found


def _measure(subjects: Sequence[_Subject], seconds: float, warm_up_s: float, capacity_s: float) -> None:
    """`seconds` of each at its own rate, in turns."""
    for each in subjects:
        admin = RawConnection(each.contender.broker.port)
        create_topic(admin, TOPIC, PRODUCERS)
        admin.close()
    time.sleep(2)  # Apache Kafka answers before a new topic's leader knows that it is one
    for each in subjects:
        each.drive(warm_up_s)
    for _ in range(TURNS):
        for each in subjects:
            each.capacities.append(each.drive(capacity_s)["per_second"])
    slowest = min(subjects, key=lambda each: each.capacity)
    for each in subjects:
        rate = SHARE * each.capacity
        print(f"{each.contender.kind}: {each.capacity:,.0f} transactions/s, of which {rate:,.0f}", flush=True)
    for _ in range(TURNS):
        for each in subjects:
            each.take_turn(OWN, seconds / TURNS, SHARE * each.capacity, min(2.0, warm_up_s))
        for each in subjects:
            if each is slowest:  # its own is the equal rate
                each.found[EQUAL].append(each.found[OWN][-1])
            else:
                each.take_turn(EQUAL, seconds * EQUAL_SHARE / TURNS, SHARE * slowest.capacity, min(2.0, warm_up_s))


def _rows(subjects: Sequence[_Subject], durability: str) -> list[Row]:
    def of(
        name: str,
        values: Callable[[_Subject], list[float]],
        unit: str,
        goals: Goals = NO_GOALS,
        *,
        higher: bool = False,
    ) -> list[Row]:
        return rows(GROUP, name, [(each.contender, values(each)) for each in subjects], unit, goals, higher=higher)

    found = of(f"capacity, {PRODUCERS} producers, {durability}", lambda each: each.capacities, "/s", higher=True)
    equal = SHARE * min(each.capacity for each in subjects)
    loads = ((OWN, f"at 70 % of its capacity, {durability}"), (EQUAL, f"at {equal:,.0f} /s for all, {durability}"))
    for load, when in loads:
        for key, name in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p99.9"), ("max", "longest")):
            goals = Goals(1.0, 1.0) if load == EQUAL and key in ("p99", "p99.9") else NO_GOALS
            found += of(f"commit {name} {when}", _milliseconds(load, key), "ms", goals)
        found += of(f"until a producer was free, p99, {when}", _milliseconds(load, "waited_p99"), "ms")
        found += of(f"of that sent late by the generator, p99, {when}", _milliseconds(load, "late_p99"), "ms")
    found += of(f"CPU of the generator per transaction, {durability}", _generator_us, "us")
    for each in subjects:
        if each.contender.is_ours:
            found += _loop_rows(each, durability, next((k for k in subjects if not k.contender.is_ours), None))
    return found


def _milliseconds(load: str, key: str) -> Callable[[_Subject], list[float]]:
    return lambda each: [turn[key] * 1e3 for turn in each.found[load]]


def _generator_us(each: _Subject) -> list[float]:
    return [turn["cpu_us"] for turn in each.found[OWN]]


# --- the event loop of Eosin


def _loop_rows(ours: _Subject, durability: str, kafka: _Subject | None) -> list[Row]:
    """The steps of its loop while it was loaded; prints what is known of the longest."""
    seen = json.loads(ours.probe.read_text())
    kind = f"{durability}{f', {COMPILED}' if ours.contender.kind == COMPILED else ''}"
    late: list[list[dict[str, Any]]] = []
    collections: list[list[float]] = []
    rounds: list[tuple[float, str, float]] = [(at, name, took) for at, name, took in seen["rounds"]]
    for own, equal in zip(ours.found[OWN], ours.found[EQUAL], strict=True):
        late.append([each for each in seen["late"] if _is_within(each["at"], own, equal)])
        collections.append([took * 1e3 for at, _, took in seen["collections"] if _is_within(at, own, equal)])
    _print_causes(ours, [each for turn in late for each in turn], rounds)

    def row(name: str, values: list[float], unit: str, budget: float | None = None) -> Row:
        return repeated(GROUP, f"{name}, {kind}", values, unit, budget=budget)

    longest = [max(collection, default=0.0) for collection in collections]
    pauses = [] if kafka is None else [max(pair) for pair in _pairs(kafka.pauses_ms)]
    return [
        row("event loop, latest beat", [max((e["late_s"] for e in t), default=0.0) * 1e3 for t in late], "ms"),
        row("event loop, longest step, CPU", [max(map(_step_ms, t), default=0.0) for t in late], "ms", STEP_BUDGET_MS),
        row("event loop, beats late by more than 20 ms", [sum(e["late_s"] > 0.02 for e in t) for t in late], ""),
        repeated(
            GROUP,
            f"longest pause of the garbage collector, {kind}",
            longest,
            "ms",
            references=pauses,
            reference_name="" if kafka is None else kafka.contender.kind,
        ),
    ]


def _pairs(values: list[float]) -> list[list[float]]:
    """By turn: a turn of two loads has two values, that of the slowest one."""
    size = len(values) // TURNS
    return [values[index : index + size] for index in range(0, len(values), size)]


def _step_ms(late: dict[str, Any]) -> float:
    """At most so long the loop's thread worked without a look at its timers."""
    return float(min(late["late_s"], late["cpu_s"])) * 1e3


def _is_within(moment: float, *turns: dict[str, Any]) -> bool:
    return any(turn["began"] <= moment <= turn["ended"] for turn in turns)


def _print_causes(ours: _Subject, late: Sequence[dict[str, Any]], rounds: Sequence[tuple[float, str, float]]) -> None:
    print(
        f"{ours.contender.kind}: {len(late)} beats of the event loop were late; the longest steps by CPU:", flush=True
    )
    for each in sorted(late, key=_step_ms, reverse=True)[:TOLD]:
        print(f"  {_told(each)}")
    for load, turns in ours.found.items():
        worst = sorted((tuple(each) for turn in turns for each in turn["worst"]), reverse=True)[:TOLD]
        print(f"the longest commits at the {load} rate, the latest beat in their time, and background work:")
        for took, due, waited, produced in worst:
            beside = [each for each in late if due - BEFORE_S <= each["at"] <= due + took]
            cause = _told(max(beside, key=lambda each: float(each["late_s"]))) if beside else "none was late"
            ran = {name for at, name, lasted in rounds if at <= due + took and at + lasted >= due - BEFORE_S}
            parts = f"{waited * 1e3:.1f} until a producer was free, {produced * 1e3:.1f} for its Produce"
            print(
                f"  {took * 1e3:.1f} ms, of which {parts}: {cause}; {', '.join(sorted(ran)) or 'no round'}", flush=True
            )


def _told(late: dict[str, Any]) -> str:
    seen = " | ".join(dict.fromkeys(late["seen"])) or "nothing seen"
    ms, worked_ms, collected_ms = (float(late[key]) * 1e3 for key in ("late_s", "cpu_s", "collected_s"))
    return f"late by {ms:.1f} ms, CPU {worked_ms:.1f}, collections {collected_ms:.1f}: {seen}"


def run(quick: bool = False) -> list[Row]:
    """All of it, at one durability."""
    durability = os.environ.get("DURABILITY", "os")
    minutes = float(os.environ.get("MINUTES", 0.15 if quick else MINUTES))
    with tempfile.TemporaryDirectory() as name:
        with ExitStack() as stack:
            subjects = _subjects(stack, Path(name), durability)
            _measure(subjects, minutes * 60, *((1.0, 1.0) if quick else (15.0, 5.0)))
        return _rows(subjects, durability)
