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
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from apache_kafka import ApacheKafka
from toolchains import NotHere

from conformance.page import Unexplained, page, reason, table
from conformance.results import Results
from eosin.broker.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "conformance.md"
KEPT: Final = ROOT / "docs" / "conformance"
CASES: Final = ("tests/wire", "tests/clients", "tests/applications")
KAFKA_SETTINGS: Final = {
    "offsets.topic.num.partitions": "50",  # its default, unlike that of tests that want a quick start
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # 10 s would only make the run longer
}


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
        with _broker(given) as (name, bootstrap):
            return _ask(name, bootstrap, given)
    except NotHere as missing:
        print(f"conformance: {missing}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def _broker(given: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    """The broker's name, and its address unless every test process shall start a fresh Eosin."""
    if not given.apache_kafka:
        yield given.name or (given.bootstrap or f"Eosin {VERSION}"), given.bootstrap
        return
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder) / "kafka", settings=KAFKA_SETTINGS, heap_mb=768)
        with kafka:
            yield given.name or f"Apache Kafka {kafka.version}", kafka.address


def _ask(name: str, bootstrap: str | None, given: argparse.Namespace) -> int:
    results = given.results / f"{name.lower().replace(' ', '-').replace(':', '-')}.json"
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider"]
    command += ["-p", "conformance.recorder", "--conformance-results", str(results), "--conformance-broker", name]
    command += ["-n", given.workers, "--dist", "worksteal"]
    command += ["-k", given.expression] if given.expression else []
    command += [case for case in CASES if (ROOT / case).is_dir()]
    environment = dict(os.environ)
    environment.pop("EOSIN_TEST_BOOTSTRAP", None)
    if bootstrap:
        environment["EOSIN_TEST_BOOTSTRAP"] = bootstrap
    results.unlink(missing_ok=True)
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if not results.exists():
        print("conformance: pytest ended before it had asked anything", file=sys.stderr)
        return 2
    found = Results.load(results)
    print("\n".join([f"\n{name}", *table(found), f"\n{results}"]))
    return int(any(not reason(case) for case in found.failed) or not found.cases)


def _write_page() -> int:
    kept = sorted(KEPT.glob("*.json"))
    by_broker = {path.stem.partition("-")[0]: Results.load(path) for path in kept}
    if by_broker.keys() != {"eosin", "apache"}:
        print(f"conformance: {KEPT} must hold one result of Eosin and one of Apache Kafka", file=sys.stderr)
        return 2
    try:
        PAGE.write_text(page(by_broker["eosin"], by_broker["apache"]))
    except Unexplained as cases:
        print(f"conformance: Apache Kafka fails these cases, and nobody has said why:\n{cases}", file=sys.stderr)
        return 1
    print(f"wrote {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
