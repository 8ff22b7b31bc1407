"""`python -m conformance`: asks one broker everything, prints the table, and writes the results.

    make conformance                        a fresh Eosin
    make conformance BOOTSTRAP=host:port    the broker there; RESTART='command' restarts it with its files
    make conformance-kafka                  Apache Kafka from its published jars; ARGS="--release 4.3.1" the one before
    make conformance-page                   docs/conformance.md from the results of both

Exit code 0: every case passed or is a known difference; 1: some failed otherwise; 2: it could not be asked.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from asked_broker import A_PROCESS, VARIABLES
from descendants import end_with_me
from kafka_releases import REFERENCE, SECOND
from proof.reporting import report_failure
from toolchains import NotHere

from conformance.brokers import Asked, NobodyThere, apache_kafka, at, file_stem, fresh_eosin
from conformance.outcomes import Results
from conformance.page import Unexplained, page, reason, table

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "conformance.md"
KEPT: Final = ROOT / "tests" / "conformance" / "results"
"""The results behind the page."""
CASES: Final = ("tests/wire", "tests/clients", "tests/applications")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(prog="conformance", description=(__doc__ or "").partition("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker to ask; without it a fresh Eosin")
    which.add_argument("--apache-kafka", action="store_true", help="start Apache Kafka from its published jars")
    which.add_argument("--page", action="store_true", help="write docs/conformance.md from the kept results")
    parser.add_argument(
        "--release", default=REFERENCE, help=f"of Apache Kafka ({REFERENCE}); {SECOND} is the one before"
    )
    parser.add_argument(
        "--restart", metavar="COMMAND", help="restarts the broker at --bootstrap, and returns when it runs"
    )
    parser.add_argument("--first", metavar="HOST:PORT", help="one of its kind that is at transaction.version=1")
    parser.add_argument("--restart-first", metavar="COMMAND", help="restarts that one")
    parser.add_argument("--name", help="what the table calls the broker")
    parser.add_argument("--results", type=Path, default=ROOT / "conformance-results", help="folder for the results")
    parser.add_argument(
        "cases", nargs="*", metavar="PATH", help=f"files or folders of cases ({' '.join(CASES)})", default=CASES
    )
    parser.add_argument("-k", dest="expression", help="only the cases that match, as pytest's -k")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--failed", action="store_true", help="only what failed in the last run, whose results change")
    how.add_argument("--merge", action="store_true", help="keep the last results of cases that -k leaves out")
    parser.add_argument("--workers", default="auto", help="processes that ask side by side (auto)")
    given = parser.parse_args(arguments)
    if not given.bootstrap and (given.restart or given.first or given.restart_first):
        parser.error("--restart and --first say more about the broker of --bootstrap")
    if given.page:
        return _write_page()
    try:
        with _broker(given) as broker:
            if given.name:
                broker = replace(broker, name=given.name, file_stem=file_stem(given.name))
            return _ask(broker, given)
    except (NotHere, NobodyThere) as problem:
        print(f"conformance: {problem}", file=sys.stderr)
        return 2


def _broker(given: argparse.Namespace) -> contextlib.AbstractContextManager[Asked]:
    if given.apache_kafka:
        return apache_kafka(given.release)
    if not given.bootstrap:
        return contextlib.nullcontext(fresh_eosin())
    more = {"restart": given.restart, "first": given.first, "restart_first": given.restart_first}
    return contextlib.nullcontext(at(given.bootstrap, **more))


def _ask(broker: Asked, given: argparse.Namespace) -> int:
    kept_as = given.results / f"{broker.file_stem}.jsonl"
    excused = (lambda case: bool(reason(case))) if broker.is_shared else (lambda case: False)  # a fresh Eosin never is
    before = Results.load(kept_as) if (given.failed or given.merge) and kept_as.exists() else None
    if before and given.failed:
        cases = [place for case in before.failed if not excused(case) for place in case.failed_places]
    else:
        cases = [path for path in given.cases if (ROOT / path).exists()]
    if cases:
        found = Results(broker.name, [])
        with tempfile.TemporaryDirectory() as folder:
            for number, (chosen, workers) in enumerate(_turns(broker, given.workers)):
                told = Path(folder) / f"{number}.jsonl"
                _run_pytest(told, broker, cases, [*chosen, "-n", workers], given.expression)
                if not told.exists():
                    print("conformance: pytest ended before it had asked anything", file=sys.stderr)
                    return 2
                found.add(Results.load(told))
        if before and given.failed:
            before.asked_again(found)
        elif before:
            before.replace(found)
        (before or found).save(kept_as)
    results = Results.load(kept_as)
    shown = kept_as.relative_to(ROOT) if kept_as.is_relative_to(ROOT) else kept_as
    print("\n".join([f"\n{broker.name}", *table(results), f"\n{shown}"]))
    wrong = [case for case in results.failed if not excused(case)]
    for case in wrong:
        report_failure(f"{case.name}: {next(iter(case.failed.values()))}")
    return int(not results.cases or bool(wrong))


def _turns(broker: Asked, workers: str) -> list[tuple[list[str], str]]:
    """Which cases each turn asks, and with how many workers. A shared broker is restarted by one worker while no other
    asks, and at first: a start takes the longer the more topics there are."""
    if broker.is_shared and broker.can_be_restarted:
        return [(["-m", "restarts"], "1"), (["-m", "not restarts"], workers)]
    return [([], workers)]


def _run_pytest(
    results: Path, broker: Asked, cases: Sequence[str], options: Sequence[str], expression: str | None
) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider"]
    command += ["-p", "conformance.recorder"]
    command += ["--conformance-results", str(results), "--conformance-broker", broker.name]
    command += [*options, "--dist", "worksteal"]
    command += ["-k", expression] if expression else []
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    subprocess.run([*command, *cases], cwd=ROOT, env={**environment, **A_PROCESS, **broker.variables}, check=False)


def kept() -> tuple[Results, Results]:
    """The results that the page is made of: Eosin's, and Apache Kafka's. Raises FileNotFoundError."""
    return Results.load(KEPT / "eosin.jsonl"), Results.load(KEPT / "apache-kafka.jsonl")


def _write_page() -> int:
    try:
        PAGE.write_text(page(*kept()))
    except FileNotFoundError as missing:
        print(
            f"conformance: {missing.filename} is not there: a page needs the results of both brokers", file=sys.stderr
        )
        return 2
    except Unexplained as cases:
        print(f"conformance: these cases fail without a reason on record:\n{cases}", file=sys.stderr)
        return 1
    print(f"wrote {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
