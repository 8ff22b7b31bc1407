"""Every incident of the lab with every client's copier: the right one passes, and one with the planted bug fails.

    make proof-lab                                     # all of it, some twenty minutes
    make proof-lab ARGS="--clients own --scenario idle-week"

Goes on where it stopped: the state file has a line for each run. It prints the table that docs/lab/incidents.md shows.
Exit code 1: a right copier does not pass, or a planted bug is not found, and `EXCUSES` does not have that end as a
limit or a defect of the client.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from proof.books import enter, lines_of
from proof.reporting import report_failure, report_figures
from proof.stages import ROOT

from eosin.lab.run.results import FAIL, PASS, SKIPPED
from eosin.lab.scenarios.catalogue import SCENARIOS, chosen
from eosin.lab.scenarios.scenario import Scenario

CLIENTS: Final[Mapping[str, str]] = {
    "confluent": "confluent-kafka",
    "kafka_python": "kafka-python",
    "aio": "aiokafka",
    "own": "eosin",
}
"""The packages, by the names of the copiers in tests/lab/copiers."""


class Excuse(NamedTuple):
    """An end that a run may have, instead of the one that it should."""

    ended: str
    why: str
    """The client's own limit or defect, in words."""


_NO_GROUP: Final = Excuse(SKIPPED, "Eosin's own client joins no group")
_NO_MEMBER: Final = Excuse(SKIPPED, "aiokafka does not say with offsets which member it is (KIP-447)")
EXCUSES: Final[Mapping[tuple[str, str, bool], Excuse]] = {
    ("aio", "zombie-member", False): _NO_MEMBER,
    ("aio", "zombie-member", True): _NO_MEMBER,
    ("aio", "unstable-offsets", False): Excuse(SKIPPED, "aiokafka does not ask for stable offsets (KIP-447)"),
    ("own", "zombie-member", False): _NO_GROUP,
    ("own", "zombie-member", True): _NO_GROUP,
    ("own", "rebalance-mid-transaction", False): _NO_GROUP,
    ("own", "rebalance-mid-transaction", True): _NO_GROUP,
}
"""The reason why a client's copier does not end as it should, by client, scenario, and True for a planted bug."""
PIECE: Final = 6
"""Scenarios of one command."""
_TRIES: Final = 5
"""Runs with a planted bug, of which one has to fail: whether a mistake meets an incident is chance as well."""


def main(words: list[str]) -> int:
    """Make the runs that are left of this commit; returns the exit code."""
    parser = argparse.ArgumentParser(description="Take the copiers of all clients through all incidents.")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names with commas between")
    parser.add_argument("--scenario", default="all", help="as of eosin lab run")
    parser.add_argument("--jobs", type=int, default=2, help="scenarios at a time")
    parser.add_argument("--state", type=Path, required=True, help="the file of runs that are done")
    options = parser.parse_args(words)
    clients, scenarios = options.clients.split(","), chosen(options.scenario)
    done = lines_of(options.state)
    for client, bug, piece in left(clients, scenarios, done):
        for first in _run(client, bug, piece, options.jobs):
            line = _tried_again(client, bug, first, chosen(first["scenario"]), options.jobs)
            enter(options.state, **line)
            done.append(line)
            print(f"{client:<13} {line['scenario']:<26} {bug or 'right':<16} {line['ended']}", flush=True)
    wanted = {(each.name, bug) for each in scenarios for bug in ("", each.planted)}
    line = summary([each for each in done if each["client"] in clients and (each["scenario"], each["bug"]) in wanted])
    report_figures(**line)
    print("\n".join(table(line)))
    print("\n".join([*(f"as {each}" for each in line["excused"]), *line["wrong"]]))
    for wrong in line["wrong"]:
        report_failure(wrong)
    print(f"{line['runs']} runs, {len(line['wrong'])} of them not as they should be")
    return 1 if line["wrong"] else 0


def summary(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All runs in one line of the book."""
    results: dict[str, dict[str, list[str]]] = {}
    for each in done:
        ends = results.setdefault(each["scenario"], {}).setdefault(CLIENTS[each["client"]], ["", ""])
        ends[bool(each["bug"])] = _said(each)
    return {
        "runs": len(done),
        "clients": {package: version(package) for package in CLIENTS.values() if package != "eosin"},
        "seconds_of_scenarios": round(sum(each["seconds"] for each in done)),
        "wrong": [
            f"{each['client']} {each['scenario']} {each['bug'] or 'right'}: {each['ended']}"
            for each in done
            if not is_as_it_should(each)
        ],
        "excused": [
            f"{CLIENTS[each['client']]} {each['scenario']} {each['bug'] or 'right'}: {each['ended']}, {excuse.why}"
            for each in done
            if (excuse := excuse_of(each)) is not None
        ],
        "results": results,
    }


def is_as_it_should(line: Mapping[str, Any]) -> bool:
    """True for a right copier that passes, a planted bug that is found, and what is excused."""
    ended: str = line["ended"]
    is_right = ended.startswith(FAIL) if line["bug"] else ended == PASS
    return is_right or excuse_of(line) is not None


def excuse_of(line: Mapping[str, Any]) -> Excuse | None:
    """The excuse of a run, if it ended as that has it."""
    excuse = EXCUSES.get((line["client"], line["scenario"], bool(line["bug"])))
    return excuse if excuse is not None and line["ended"] == excuse.ended else None


def _said(line: Mapping[str, Any]) -> str:
    """The end of a run, and what was forgiven in it."""
    forgiven = ", ".join(line.get("forgiven", ()))
    return f"{line['ended']} (forgiven: {forgiven})" if forgiven else line["ended"]


def table(line: Mapping[str, Any]) -> Iterator[str]:
    """The table of a line of the book, in Markdown: of each client the end of the right copier, and of the other."""
    packages = [each for each in CLIENTS.values() if any(each in row for row in line["results"].values())]
    yield "| incident | planted bug | " + " | ".join(packages) + " |"
    yield "|---" * (len(packages) + 2) + "|"
    for scenario in SCENARIOS:
        row = line["results"].get(scenario.name)
        if row is not None:
            ends = (" / ".join(_short(each) for each in row.get(package, ("", ""))) for package in packages)
            yield f"| `{scenario.name}` | `{scenario.planted}` | " + " | ".join(ends) + " |"


def _short(ended: str) -> str:
    return ended.replace(f"{FAIL} ", "").lower() or "-"


def left(
    clients: Sequence[str], scenarios: Sequence[Scenario], done: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, list[Scenario]]]:
    """The runs that are left: client, bug, and a few scenarios."""
    ended = {(each["client"], each["scenario"], each["bug"]) for each in done}
    for client in clients:
        for bug in ("", *dict.fromkeys(each.planted for each in scenarios)):
            left = iter(
                [
                    each
                    for each in scenarios
                    if (not bug or each.planted == bug) and (client, each.name, bug) not in ended
                ]
            )
            while piece := list(islice(left, PIECE)):
                yield client, bug, piece


def _tried_again(
    client: str, bug: str, line: dict[str, Any], scenarios: Sequence[Scenario], jobs: int
) -> dict[str, Any]:
    """The line, or that of another run if a planted bug was not found."""
    tries = 1
    while bug and tries < _TRIES and not is_as_it_should(line):
        tries += 1
        (again,) = _run(client, bug, scenarios, jobs, seed=tries)
        line = {**again, "seconds": again["seconds"] + line["seconds"]}
    return {**line, "tries": tries}


def _run(client: str, bug: str, scenarios: Sequence[Scenario], jobs: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The lines of a command's runs."""
    names = ",".join(each.name for each in scenarios)
    application = [sys.executable, str(ROOT / "tests" / "lab" / "copiers" / f"{client}.py"), *filter(None, (bug,))]
    with tempfile.TemporaryDirectory(prefix="eosin-lab-proof-") as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "eosin.lab.run.command", "run", "--scenario", names, "--seed", str(seed)),
                *("--feed", "60", "--timeout", "10" if bug else "45", "--jobs", str(jobs)),
                *("--out", folder, "--", *application),
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        report = json.loads((Path(folder) / "report.json").read_text())
    for scenario in scenarios:
        results = [each for each in report["results"] if each["scenario"] == scenario.name]
        found = results[0] if results else report["reference"]
        yield {
            "client": client,
            "scenario": scenario.name,
            "bug": bug,
            "ended": " ".join(filter(None, (found["verdict"], ", ".join(found["kinds"])))),
            "forgiven": found.get("forgiven", []),
            "why": "" if found["verdict"] == PASS else found["evidence"].splitlines()[0][:200],
            "seconds": sum(each["seconds"] for each in results),
        }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
