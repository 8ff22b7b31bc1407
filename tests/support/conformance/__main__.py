"""`python -m conformance`: asks one broker everything, prints the table, and keeps the outcomes as JSON.

    make conformance                        a fresh Eosin
    make conformance BOOTSTRAP=host:port    the broker there
    make conformance-kafka                  Apache Kafka from its published jars
    make conformance-page                   docs/conformance.md from the results of both

Exit code 0: every case passed or is a known difference; 1: some failed otherwise; 2: it could not be asked.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toolchains import NotHere

from conformance.brokers import VARIABLES, Asked, NobodyThere, apache_kafka, at, fresh_eosin
from conformance.page import Unexplained, page, reason, table
from conformance.results import Results

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "conformance.md"
KEPT: Final = ROOT / "docs" / "conformance"
CASES: Final = ("tests/wire", "tests/clients", "tests/applications")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(prog="conformance", description=(__doc__ or "").partition("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker to ask; without it a fresh Eosin")
    which.add_argument("--apache-kafka", action="store_true", help="start Apache Kafka from its published jars")
    which.add_argument("--page", action="store_true", help="write docs/conformance.md from the kept results")
    parser.add_argument("--name", help="what the table calls the broker")
    parser.add_argument("--results", type=Path, default=ROOT / "conformance-results", help="folder for the JSON")
    parser.add_argument("-k", dest="expression", help="only the cases that match, as pytest's -k")
    parser.add_argument("--workers", default="auto", help="processes that ask side by side (auto)")
    given = parser.parse_args(arguments)
    if given.page:
        return _write_page()
    try:
        with _broker(given) as broker:
            return _ask(broker, given.name or broker.name, given)
    except (NotHere, NobodyThere) as problem:
        print(f"conformance: {problem}", file=sys.stderr)
        return 2


def _broker(given: argparse.Namespace) -> contextlib.AbstractContextManager[Asked]:
    if given.apache_kafka:
        return apache_kafka()
    return contextlib.nullcontext(at(given.bootstrap) if given.bootstrap else fresh_eosin())


def _ask(broker: Asked, name: str, given: argparse.Namespace) -> int:
    results = given.results / f"{name.lower().replace(' ', '-').replace(':', '-')}.json"
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider"]
    command += ["-p", "conformance.recorder", "--conformance-results", str(results), "--conformance-broker", name]
    command += ["-n", given.workers, "--dist", "worksteal"]
    command += ["-k", given.expression] if given.expression else []
    command += [case for case in CASES if (ROOT / case).is_dir()]
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES} | broker.variables
    results.unlink(missing_ok=True)
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if not results.exists():
        print("conformance: pytest ended before it had asked anything", file=sys.stderr)
        return 2
    found = Results.load(results)
    print("\n".join([f"\n{name}", *table(found), f"\n{results}"]))
    known = [case for case in found.failed if broker.variables and reason(case)]  # a fresh Eosin has no excuse
    return int(len(known) < len(found.failed) or not found.cases)


def kept() -> tuple[Results, Results]:
    """The results that the page is made of: Eosin's, and Apache Kafka's. Raises FileNotFoundError."""
    return Results.load(KEPT / "eosin.json"), Results.load(KEPT / "apache-kafka.json")


def _write_page() -> int:
    try:
        PAGE.write_text(page(*kept()))
    except FileNotFoundError as missing:
        print(
            f"conformance: {missing.filename} is not there: a page needs the results of both brokers", file=sys.stderr
        )
        return 2
    except Unexplained as cases:
        print(f"conformance: these cases fail, and nobody has said why:\n{cases}", file=sys.stderr)
        return 1
    print(f"wrote {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
