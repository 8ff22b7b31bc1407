"""Run a long proof, and enter it in its book.

    make proof-crash                             # python tests/support/prove_long.py crash
    make proof-crash ARGS="--stop-after 10"      # stop after ten minutes; the same again goes on, at the same commit
    make proof-crash ARGS="--rounds 10"          # a smaller one, which does not count for a release
    make release                                 # python tests/support/prove_long.py --release: are all books good?

The book docs/testing/books/NAME.json gets one line: date, commit, arguments, exit code, seconds; of a run of pytest the
counts of tests and why each failed one did; figures of its own, if it has some; else its last line. `why` it failed
stands in it, too: what the program has printed behind "FAILED: ", else its last line. Ctrl-C and a SIGTERM stop it as
the time does: the line says so, and does not count for or against a release.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from descendants import end_with_me
from proof.books import BOOKS, commit, commits_since, enter, lines_of, today
from proof.going_on import DIRTY, Kept, UnderWay, alone
from proof.proofs import PROOFS, Proof, unfit
from proof.reporting import FAILED, FIGURES
from proof.results import GOES_ON, RESULTS
from proof.stages import PYTEST, ROOT
from waiting import HANG_S

_CAUSE: Final = re.compile(rf"{FAILED}(.*)|(?:FAILED|ERROR) (tests/.*)")
"""A line of a program that names a cause; or of the summary of pytest, where a program runs that."""
_MOST_CAUSES: Final = 10
_STOPPED: Final = 75
"""The exit code of a run that was stopped (EX_TEMPFAIL): nothing is wrong, and nothing is proved yet."""


def main(words: list[str]) -> int:
    """Run one proof, or ask whether a release may be made; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run a long proof, and enter it in its book.")
    parser.add_argument("name", nargs="?", choices=PROOFS, metavar="NAME", help=", ".join(PROOFS))
    parser.add_argument("--release", action="store_true", help="say whether the books are good enough for a release")
    parser.add_argument("--stop-after", type=float, metavar="MINUTES", help="stop then; the same again goes on")
    options, more = parser.parse_known_args(words)
    if options.release:
        return _releasable()
    if options.name is None:
        due = {sentence.partition(":")[0] for sentence in _why_not()}
        for name, proof in PROOFS.items():
            print(f"make proof-{name:20}{'due ' if name in due else 'good'}  {proof.proves}")
        return 0
    stop_after_s = None if options.stop_after is None else options.stop_after * 60
    try:
        line = run(options.name, PROOFS[options.name], more, stop_after_s=stop_after_s)
    except UnderWay as refused:
        print(refused, file=sys.stderr)
        return 2
    try:
        enter(BOOKS / f"{options.name}.json", **line)
    except OSError:  # a full disk: what took hours can be entered by hand
        print(json.dumps(line))
        raise
    ended = f"stopped after {line['seconds']} s; the same command goes on" if line.get("stopped") else ""
    ended = ended or f"exit code {line['code']} after {line['seconds']} s"
    print(f"{options.name}: {ended}; commit {BOOKS.relative_to(ROOT)}")
    return _STOPPED if line.get("stopped") else int(line["code"])


def run(
    name: str,
    proof: Proof,
    arguments: Sequence[str],
    *,
    stop_after_s: float | None = None,
    folder: Path = ROOT / "bench-results",
) -> dict[str, Any]:
    """Carry out a proof, or go on with it; its line for the book. `folder` keeps what is done when it is stopped."""
    with alone(folder, name):
        return _run(proof, arguments, commit(), stop_after_s, folder, name)


def _run(
    proof: Proof, arguments: Sequence[str], tested: str, stop_after_s: float | None, folder: Path, name: str
) -> dict[str, Any]:
    kept = Kept.of(folder, name, tested, arguments)
    command = [*(word.replace("{state}", str(kept.state)) for word in proof.command), *arguments]
    of_tests = command[: len(PYTEST)] == list(PYTEST)
    with tempfile.TemporaryDirectory(prefix="eosin-proof-") as temporary:
        # Of a program each run tells everything; a run of pytest adds to what the ones before it have told.
        figures = kept.figures if of_tests else Path(temporary) / "figures.json"
        environment = {**os.environ, **proof.environment, FIGURES: str(figures)}
        if of_tests:
            kept.keep_whole_outcomes()
            environment |= {RESULTS: str(kept.tests), GOES_ON: "1"}
        began = time.monotonic()
        output = _carry_out(command, environment, stop_after_s)
        seconds, pieces = kept.count_piece(round(time.monotonic() - began), stopped=output.stopped)
        if output.stopped:
            kept.keep_whole_outcomes()
        tests = kept.outcomes()
        is_same = commit() == tested  # else nobody knows which code was tested
        line: dict[str, Any] = {
            "date": today(),
            "commit": tested if is_same else f"{tested}{DIRTY}",
            "arguments": " ".join(arguments),
            "code": _code(output.code, tests),
            "seconds": seconds,
        }
        if output.stopped:
            line["stopped"] = True
        if pieces > 1:
            line["pieces"] = pieces
        if tests:
            line |= Counter(each["outcome"] for each in tests)
            line["failures"] = {each["test"]: each["message"] for each in tests if each["outcome"] == "failed"}
        if figures.exists():
            line |= json.loads(figures.read_text())
        elif not tests:
            line["said"] = output.last
        if why := output.why(told_already=bool(tests and line["failures"])):
            line["why"] = why
    if not is_same:
        kept.forget_all()
    elif not output.stopped:
        kept.forget()
    return line


@dataclass
class _Output:
    """What a command has said, and how it ended."""

    last: str = ""
    causes: list[str] = field(default_factory=list)
    code: int = 0
    asked_to_stop: bool = False

    @property
    def stopped(self) -> bool:
        """True if it was not done when it was asked to stop."""
        return self.asked_to_stop and self.code != 0

    def add(self, line: str) -> None:
        """Take in a line of its output."""
        self.last = line.strip() or self.last
        if told := _CAUSE.match(line):
            self.causes.append((told[1] or told[2]).strip())

    def why(self, *, told_already: bool) -> list[str]:
        """The causes; its last line for one that has named none."""
        if told_already:
            return []
        nameless = self.code and not self.stopped and not self.causes
        return [self.last] if nameless else self.causes[:_MOST_CAUSES]


def _carry_out(command: Sequence[str], environment: dict[str, str], stop_after_s: float | None) -> _Output:
    output = _Output()
    # A session of its own: Ctrl-C is for this process, which passes it on, once.
    with (
        _handled() as asked,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        over = threading.Event()

        def stop() -> None:
            asked.wait(stop_after_s)
            if over.is_set():
                return
            output.asked_to_stop = True
            process.send_signal(signal.SIGINT)
            if not over.wait(HANG_S):  # what it has begun may end, or be put away
                process.kill()

        stopper = threading.Thread(target=stop)
        stopper.start()
        assert process.stdout is not None
        for written in process.stdout:
            print(written, end="", flush=True)
            output.add(written)
        output.code = process.wait()
        over.set()
    stopper.join()
    return output


@contextmanager
def _handled() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM, and at the end.

    A process in the background may ignore Ctrl-C; with a handler here its child does not inherit that.
    """
    asked = threading.Event()
    before = {each: signal.signal(each, lambda *_: asked.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        asked.set()


def _code(code: int, tests: Sequence[dict[str, Any]]) -> int:
    """The exit code of all pieces: a test that failed in an earlier one is not run again, and none may be left."""
    if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and tests:
        return int(any(each["outcome"] == "failed" for each in tests))
    return code


def _releasable() -> int:
    why_not = _why_not()
    for sentence in why_not:
        print(f"release: {sentence}", file=sys.stderr)
    return 1 if why_not else 0


def _why_not() -> list[str]:
    """The proofs that a release has to wait for, a sentence for each."""
    books = {name: lines_of(BOOKS / f"{name}.json") for name in PROOFS}
    commits = {line["commit"] for lines in books.values() for line in lines}
    since = {each: commits_since(each) for each in commits}
    return list(unfit(books, today=datetime.now(UTC).date(), commits_since=since))


if __name__ == "__main__":
    end_with_me()
    sys.exit(main(sys.argv[1:]))
