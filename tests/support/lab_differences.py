"""The cases of the wire suite that Apache Kafka may fail, asked of a broker of the lab that behaves like Apache Kafka.

    make lab-differences        # all of them, some minutes: tests/lab/results/differences.json, which `make docs` reads

A case that fails there has not got Eosin's own response. `restart URL` restarts the lab with this control API.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from asked_broker import ANOTHER, HOW, KILLED, RESTART
from waiting import HANG_S, wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "tests" / "lab" / "results" / "differences.json"
STRICT, EOSINS, BOTH, NOT_ASKED = "kafka", "eosin", "both", "not asked"
"""A case has failed, has passed, did either by its parameters, or was left out."""
_ALL_PASSED, _NONE_FOUND = 0, 5
"""Exit codes of pytest."""
_SETTINGS: Final = ("group.initial.rebalance.delay.ms=0", "eosin.connection.refused.delay.ms=0")


def stored() -> dict[str, str]:
    """What became of each case (`wire/test_x.py::test_y`) when it was run last."""
    found: dict[str, str] = json.loads(RESULTS.read_text())
    return found


def asked(cases: Collection[str] = ()) -> dict[str, str]:
    """Run these cases, or all that differ, against a broker with the behaviour `kafka`; what became of each."""
    with tempfile.TemporaryDirectory() as folder, _lab(Path(folder)) as (bootstrap, control):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            ANOTHER: bootstrap,
            RESTART: f"{sys.executable} {__file__} restart {control}",
        }
        found: dict[str, str] = {}
        for marks, *options in (("differs and not restarts", "-n", "2"), ("differs and restarts", "-p", "no:xdist")):
            report = Path(folder, "report.xml")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *options]
            command += [
                f"--junitxml={report}",
                f"--basetemp={Path(folder, 'cases')}",
                *([f"tests/{each}" for each in cases] or ["tests/wire"]),
            ]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            if done.returncode not in (_ALL_PASSED, _NONE_FOUND):
                raise RuntimeError(f"the cases could not be run:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
            found |= _of_report(report.read_text())
        return dict(sorted(found.items()))


def _of_report(xml: str) -> dict[str, str]:
    """The outcome of each case in a report of pytest in the form of JUnit."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for case in ET.fromstring(xml).iter("testcase"):
        module = case.attrib["classname"].removeprefix("tests.").replace(".", "/")
        found[f"{module}.py::{case.attrib['name'].partition('[')[0]}"].add(_outcome(case))
    return {name: outcomes.pop() if len(outcomes) == 1 else BOTH for name, outcomes in sorted(found.items())}


def _outcome(case: ET.Element) -> str:
    left_out = case.find("skipped")
    if left_out is None:
        return EOSINS
    is_failure = left_out.attrib["type"] == "pytest.xfail" and "[NOTRUN]" not in left_out.attrib["message"]
    return STRICT if is_failure else NOT_ASKED


@contextmanager
def _lab(folder: Path) -> Iterator[tuple[str, str]]:
    """A broker of the lab; its address, and that of its control API."""
    ready = folder / "ready"
    command = [sys.executable, "-m", "eosin.lab.serve.command", "--control", "0", "--ready-file", str(ready)]
    settings = [word for each in _SETTINGS for word in ("--set", each)]
    with subprocess.Popen([*command, *settings], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: ready.exists() and len(ready.read_text().split()) == 2)
            bootstrap, control = ready.read_text().split()
            yield bootstrap, control
        finally:
            process.send_signal(signal.SIGTERM)


def _restart(control: str, environment: Mapping[str, str]) -> None:
    """Restart the lab at a control API, as `asked_broker.HOW` says."""
    path = "crash" if environment.get(HOW) == KILLED else "restart"
    request = urllib.request.Request(f"{control}/broker/{path}", b"{}", {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=HANG_S).close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["restart"]:
        _restart(sys.argv[2], os.environ)
    else:
        RESULTS.write_text(json.dumps(asked(), indent=1) + "\n")
