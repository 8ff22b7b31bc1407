"""Run a long proof, and enter it in its book.

    make proof-crash                           # python tests/support/prove_long.py crash
    make proof-crash ARGS="--rounds 10"        # a smaller one, which does not count for a release
    make release                               # python tests/support/prove_long.py --release: are all books good?

The book docs/testing/books/NAME.json gets one line: date, commit, arguments, exit code, seconds; of a run of pytest the
counts of tests and those that failed; figures of its own, if it has some; else its last line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proof.books import BOOKS, commit, commits_since, enter, lines_of, today
from proof.proofs import FIGURES, PROOFS, Proof, unfit
from proof.results import RESULTS
from proof.stages import PYTEST, ROOT


def main(words: list[str]) -> int:
    """Run one proof, or ask whether a release may be made; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run a long proof, and enter it in its book.")
    parser.add_argument("name", nargs="?", choices=PROOFS, metavar="NAME", help=", ".join(PROOFS))
    parser.add_argument("--release", action="store_true", help="say whether the books are good enough for a release")
    options, more = parser.parse_known_args(words)
    if options.release:
        return _releasable()
    if options.name is None:
        for name, proof in PROOFS.items():
            print(f"make proof-{name:20}{proof.proves}")
        return 0
    line = run(options.name, PROOFS[options.name], more)
    enter(BOOKS / f"{options.name}.json", **line)
    print(f"{options.name}: exit code {line['code']} after {line['seconds']} s; commit {BOOKS.relative_to(ROOT)}")
    return int(line["code"])


def run(name: str, proof: Proof, arguments: Sequence[str]) -> dict[str, Any]:
    """Carry out a proof; its line for the book."""
    tested = commit()
    began = time.monotonic()
    state = ROOT / "bench-results" / f"proof-{name}-{tested}.json"
    state.parent.mkdir(exist_ok=True)
    command = [word.replace("{state}", str(state)) for word in proof.command]
    with tempfile.TemporaryDirectory(prefix="eosin-proof-") as folder:
        told, figures = Path(folder) / "tests.json", Path(folder) / "figures.json"
        environment = {**os.environ, **proof.environment, FIGURES: str(figures)}
        if command[: len(PYTEST)] == list(PYTEST):
            environment[RESULTS] = str(told)
        last = ""
        with subprocess.Popen(
            [*command, *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for written in process.stdout:
                print(written, end="", flush=True)
                last = written.strip() or last
        line: dict[str, Any] = {
            "date": today(),
            "commit": tested,
            "arguments": " ".join(arguments),
            "code": process.returncode,
            "seconds": round(time.monotonic() - began),
        }
        if tests := lines_of(told):
            line |= Counter(each["outcome"] for each in tests)
            line["failures"] = [each["test"] for each in tests if each["outcome"] == "failed"]
        if figures.exists():
            line |= json.loads(figures.read_text())
        elif not tests:
            line["said"] = last
    return line


def _releasable() -> int:
    books = {name: lines_of(BOOKS / f"{name}.json") for name in PROOFS}
    commits = {line["commit"] for lines in books.values() for line in lines}
    why_not = list(
        unfit(books, today=datetime.now(UTC).date(), commits_since={each: commits_since(each) for each in commits})
    )
    for sentence in why_not:
        print(f"release: {sentence}", file=sys.stderr)
    return 1 if why_not else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
