"""Every incident of the lab with every client's copier: the right one passes, and one with the planted bug fails.

    make proof-lab                                     # all of it, some twenty minutes
    make proof-lab ARGS="--clients own --scenario idle-week"

Goes on where it stopped: the state file has a line for each run. It prints the table that docs/lab/incidents.md shows.
Exit code 1: a right copier does not pass, or a planted bug is not found, where `EXCUSES` does not name it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Final

from proof.books import enter, lines_of
from proof.proofs import FIGURES
from proof.stages import ROOT

from eosin.lab.run.results import FAIL, PASS
from eosin.lab.scenarios.catalogue import SCENARIOS, chosen
from eosin.lab.scenarios.scenario import Scenario

CLIENTS: Final[Mapping[str, str]] = {
    "confluent": "confluent-kafka",
    "kafka_python": "kafka-python",
    "aio": "aiokafka",
    "own": "eosin",
}
"""The packages, by the names of the copiers in tests/lab/copiers."""
_NO_GROUP: Final = "Eosin's own client joins no group"
EXCUSES: Final[Mapping[tuple[str, str, bool], str]] = {}
"""The reason why a client's copier does not end as it should, by client, scenario, and True for a planted bug."""
PIECE: Final = 6
"""Scenarios of one command."""
_REPEATS: Final = 3
"""Runs of `random` with a planted bug, of which one has to fail."""


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
    for client, bug, piece in _pieces(clients, scenarios, done):
        for line in _run(client, bug, piece, options.jobs):
            enter(options.state, **line)
            done.append(line)
            print(f"{client:<13} {line['scenario']:<26} {bug or 'right':<16} {line['ended']}", flush=True)
    wanted = {each.name for each in scenarios}
    line = summary([each for each in done if each["client"] in clients and each["scenario"] in wanted])
    if FIGURES in os.environ:
        Path(os.environ[FIGURES]).write_text(json.dumps(line))
    print("\n".join(table(line)))
    print("\n".join(line["wrong"]))
    print(f"{line['runs']} runs, {len(line['wrong'])} of them not as they should be")
    return 1 if line["wrong"] else 0


def summary(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All runs in one line of the book."""
    results: dict[str, dict[str, list[str]]] = {}
    for each in done:
        ends = results.setdefault(each["scenario"], {}).setdefault(CLIENTS[each["client"]], ["", ""])
        ends[bool(each["bug"])] = each["ended"]
    return {
        "runs": len(done),
        "clients": {package: version(package) for package in CLIENTS.values() if package != "eosin"},
        "seconds_of_scenarios": round(sum(each["seconds"] for each in done)),
        "wrong": [
            f"{each['client']} {each['scenario']} {each['bug'] or 'right'}: {each['ended']}"
            for each in done
            if not is_as_it_should(each)
        ],
        "results": results,
    }


def is_as_it_should(line: Mapping[str, Any]) -> bool:
    """True for a right copier that passes, a planted bug that is found, and what is excused."""
    has_bug = bool(line["bug"])
    if (line["client"], line["scenario"], has_bug) in EXCUSES:
        return True
    ended: str = line["ended"]
    return ended.startswith(FAIL) if has_bug else ended == PASS


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


def _pieces(
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


def _run(client: str, bug: str, scenarios: Sequence[Scenario], jobs: int) -> Iterator[dict[str, Any]]:
    """The lines of a command's runs."""
    names = ",".join(each.name for each in scenarios)
    repeats = _REPEATS if bug and names == "random" else 1
    application = [sys.executable, str(ROOT / "tests" / "lab" / "copiers" / f"{client}.py"), *filter(None, (bug,))]
    with tempfile.TemporaryDirectory(prefix="eosin-lab-proof-") as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "eosin.lab.run.command", "run", "--scenario", names, "--seed", "1"),
                *("--feed", "60", "--timeout", "10" if bug else "45", "--jobs", str(jobs)),
                *("--repeat", str(repeats), "--out", folder, "--", *application),
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        report = json.loads((Path(folder) / "report.json").read_text())
    for scenario in scenarios:
        results = [each for each in report["results"] if each["scenario"] == scenario.name]
        worst = min(results, key=lambda each: each["verdict"] != FAIL, default=report["reference"])
        yield {
            "client": client,
            "scenario": scenario.name,
            "bug": bug,
            "ended": " ".join(filter(None, (worst["verdict"], ", ".join(worst["kinds"])))),
            "why": "" if worst["verdict"] == PASS else worst["evidence"].splitlines()[0][:200],
            "seconds": sum(each["seconds"] for each in results),
        }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
