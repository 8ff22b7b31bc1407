"""The long proofs, which somebody runs on purpose: each has a command of full size, and a book.

A push does not pay for them; a release does (`unfit`).
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from asked_broker import A_PROCESS

from proof.stages import CORES, PYTEST, on

_PYTHON: Final = sys.executable
_SUPPORT: Final = "tests/support"
DAYS: Final = 14
COMMITS: Final = 200
"""A release refuses books whose last good run is older."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A command in the checkout. `{state}` in it is a file that is kept per commit, so that a run goes on."""

    proves: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def _tests(proves: str, *words: str) -> Proof:
    return Proof(proves, (*PYTEST, *words))


def _package(proves: str, *words: str) -> Proof:
    """A program that is a package of `tests/`."""
    return Proof(proves, (_PYTHON, "-m", *words), {"PYTHONPATH": f"{_SUPPORT}{os.pathsep}tests"})


def _program(proves: str, name: str, *words: str) -> Proof:
    """A program of `tests/support` that stands on the simulator's clock."""
    return Proof(proves, (_PYTHON, f"{_SUPPORT}/{name}.py", *words), {"PYTHONPATH": "tests"})


PROOFS: Final[Mapping[str, Proof]] = {
    "applications": _tests("Streams, Connect, MirrorMaker 2, Flink and Apache Kafka's programs", "tests/applications"),
    "clients": _tests("every client through every scenario and error", *on(3), "tests/clients"),
    "cluster": _tests("brokers that join controllers of Apache Kafka, minutes of kills too", "tests/clusters"),
    "cluster-clients": _program("the clients against three brokers with three replicas", "cluster_clients"),
    "cluster-crash": _program(
        "copies through kills and cuts of brokers and controllers of a cluster",
        *("cluster_crash", "--rounds", "20", "--state", "{state}"),
    ),
    "codecs": Proof(
        "many random messages through every codec",
        (*PYTEST, *on(CORES), "--timeout", "0", "tests/protocol"),
        {"HYPOTHESIS_PROFILE": "many"},
    ),
    "commands": _tests("every command on every kind of broker", "tests/cli"),
    "computations": _tests(
        "rights by very many random sets, a recorder by a million events",
        *(*on(CORES), "tests/security", "tests/observe/recorder"),
    ),
    "conformance": _package("all that clients rely on", "conformance", "--workers", "auto"),
    "crash": _program("copies through kill -9 of one broker", *("crash_loop", "--rounds", "200", "--state", "{state}")),
    "flakes": Proof("how often real tests fail beside load", (_PYTHON, f"{_SUPPORT}/flakes.py", "--state", "{state}")),
    "fuzz": _program("mutated frames", "fuzz_campaign", "--frames", "1000000", "--state", "{state}"),
    "hostile": _package("what hostile peers cost honest ones", "hostile", "--state", "{state}"),
    "kafka-tools": _tests("Apache Kafka's tools on directories that Eosin wrote", "tests/kafka_tools"),
    "lab": Proof(
        "every incident of the lab with four clients: right copiers pass, planted bugs are found",
        (_PYTHON, f"{_SUPPORT}/lab_proof.py", "--state", "{state}"),
    ),
    "lab-clients": _tests("copiers of every client through incidents of the lab", "tests/lab/run"),
    "misfortunes": _tests("kills, full disks, lost files, pauses and few descriptors at length", "tests/crash"),
    "model": _package(
        "every order of two producers' requests, crashes and delays", "model_checker", "--state", "{state}"
    ),
    "model-groups": _package(
        "every order of what happens to a small consumer group", "model_checker.groups", "--state", "{state}"
    ),
    "model-streams": _package(
        "every order of what happens to a small streams group", "model_checker.streams", "--state", "{state}"
    ),
    "model-replication": _package(
        "every order of what happens to replicas", "model_checker.replication", "--state", "{state}"
    ),
    "moves": _program(
        "a group's coordinator moves under librdkafka",
        *("coordinator_moves", "--from", "eosin", "--to", "eosin", "--repeats", "50", "--state", "{state}"),
    ),
    "pipeline": _program(
        'a query of format("eosin") through kills of driver, workers, executors and broker',
        *("pipeline_kills", "--kills", "100"),
    ),
    "properties": _tests(
        "tests by property with fifty times as many examples, drawn at random",
        *(*on(CORES), "--timeout", "0", "--times", "50", "tests"),
    ),
    "realtime": _program(
        "rows of Real-time Mode, once each, through kills of drivers, executors and brokers",
        *("realtime_kills", "--kills", "100"),
    ),
    "simulate": _package(
        "a simulated broker under faults", "simulation", "--runs", "20000", "--state", "{state}", "--workers", "auto"
    ),
    "simulate-cluster": _package(
        "three simulated brokers under faults",
        *("simulation", "--cluster", "--runs", "5000", "--state", "{state}", "--workers", "auto"),
    ),
    "simulate-shares": _package(
        "share groups of three simulated brokers under faults",
        *("simulation", "--cluster", "--only", "share members", "--runs", "1000", "--state", "{state}"),
        *("--workers", "auto"),
    ),
    "soak": _program("an hour of all that happens to a broker", "soak", "--minutes", "60"),
    "spark": _tests("pipelines on Spark", "-m", "spark", "tests/pipeline"),
    "wire": Proof(
        "every test at the wire over sockets, of a plain broker and of a compiled one",
        (*PYTEST, *on(CORES), "tests/wire", "tests/test_compiled.py"),
        A_PROCESS,
    ),
}


def unfit(
    books: Mapping[str, Sequence[Mapping[str, Any]]], *, today: date, commits_since: Mapping[str, int | None]
) -> Iterator[str]:
    """The reasons why a release has to wait: a sentence for each proof whose last good run is missing or too old.

    `commits_since`: by commit of a line, how many commits have come since; None for one that is not an ancestor.
    """
    for name in PROOFS:
        of_full_size = [each for each in books.get(name, ()) if not each["arguments"] and not _merely_stopped(each)]
        line = next((each for each in reversed(of_full_size) if each["code"] == 0), None)
        if line is None:
            yield f"{name}: no good run is in its book; make proof-{name}"
            continue
        if line is not of_full_size[-1]:
            yield f"{name}: its last run failed; make proof-{name}"
            continue
        since = commits_since.get(line["commit"])
        if since is None:
            yield f"{name}: its last good run was at {line['commit']}, which is no ancestor; make proof-{name}"
        elif since > COMMITS:
            yield f"{name}: {since} commits have come since its last good run, at most {COMMITS}; make proof-{name}"
        elif today - date.fromisoformat(line["date"]) > timedelta(days=DAYS):
            yield f"{name}: its last good run was on {line['date']}, more than {DAYS} days ago; make proof-{name}"


def _merely_stopped(line: Mapping[str, Any]) -> bool:
    """True for a run that was stopped and had found nothing until then: another one goes on with it, or begins anew."""
    return bool(line.get("stopped")) and not line.get("failures") and not line.get("why")
