"""`eosin lab replay`: takes an application through a recorded run once more, and finds the fewest rules that it needs;
or runs a test of pytest again whose failure was saved.

Exit codes: 0 it passes, 1 it fails, 2 it could not run, 3 it was not exercised.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from eosin.cli.common.arguments import Parser, fail
from eosin.lab.common.errors import LabError
from eosin.lab.common.failed_test import failed_test_in, run_again
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.process import ended_by_signals
from eosin.lab.run.recording import RecordedRun, run_in
from eosin.lab.run.replay import replayed, rules_of, shrunk
from eosin.lab.run.report import line_of
from eosin.lab.run.results import ALL_PASS, FAIL, PASS, SOME_FAILED, SOME_NOT_EXERCISED
from eosin.lab.run.run_file import FILE, alone_in, lines_in
from eosin.lab.run.runner import run_one
from eosin.lab.run.staged_app import RunPlan
from eosin.lab.scenarios.scenario import Scenario

COMMAND: Final = "lab replay"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    words = list(arguments[1:])
    application: list[str] = []
    if "--" in words:
        split = words.index("--")
        words, application = words[:split], words[split + 1 :]
    asked = parser().parse_args(words)
    try:
        if Path(asked.file).is_dir():
            raise LabError(f"{asked.file} is a folder: name the {FILE} of one of the scenarios in it")
        if asked.print:
            return _print(Path(asked.file))
        failed = failed_test_in(Path(asked.file))
        if failed is not None:
            return run_again(failed, application)
        if not application:
            raise LabError(f"name the application behind --: eosin lab replay {asked.file} -- python my_app.py")
        return _replay(run_in(Path(asked.file)), asked, tuple(application))
    except LabError as refused:
        return fail(COMMAND, str(refused))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin lab replay",
        description=f"Take an application through a recorded run again: the {FILE} of a scenario that `eosin lab run"
        " --out DIR` has written. Its rules fire at the same requests of each client, whatever the time. Of a file of"
        " `pytest --eosin-save DIR` the test runs again with its seed, by `python -m pytest` or the command behind --.",
        usage="eosin lab replay FILE [OPTION...] [-- COMMAND...]",
        examples=[
            f"eosin lab replay report/lost-commit-answer-7/{FILE} -- python my_app.py",
            f"eosin lab replay report/random-7/{FILE} --shrink -- python my_app.py",
            "eosin lab replay saved/eosin-tests-test_orders.py-test_invoice.json",
        ],
    )
    options.add_argument("file", metavar="FILE", help="the recorded run")
    options.add_argument(
        "--shrink", action="store_true", help="leave out one rule after the other as long as it still fails"
    )
    options.add_argument("--print", action="store_true", help="print the lines of the file, and run nothing")
    options.add_argument("--out", metavar="DIR", help="write what the application said here, and the replay's own file")
    options.add_argument("--timeout", type=float, metavar="SECONDS", help="time to heal (that of the record)")
    return options


def _print(path: Path) -> int:
    """Print the lines of a recorded run. Raises LabError."""
    for each in lines_in(path):
        print(each.decode(errors="replace"))
    return ALL_PASS


def plan_of(run: RecordedRun, application: tuple[str, ...], timeout_s: float | None = None) -> RunPlan:
    """The plan of a recorded run, with another application. Raises LabError."""
    header = run.header
    return RunPlan(
        application,
        header.input,
        header.partitions,
        header.outputs,
        header.feed,
        Judge(header.judge, id_named(header.id)),
        transactional_ids=header.transactional_ids,
        group=header.group,
        restarts=header.restarts,
        timeout_s=header.timeout_s if timeout_s is None else timeout_s,
        behaviour=header.behaviour,
        id_text=header.id,
        is_reader=header.is_reader,
    )


def _replay(run: RecordedRun, asked: argparse.Namespace, application: tuple[str, ...]) -> int:
    """Replay, and shrink if that is wanted. Raises LabError."""
    if asked.timeout is not None and asked.timeout <= 0:
        raise LabError("--timeout is above 0 seconds")
    plan = plan_of(run, application, asked.timeout)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="eosin-lab-"))
        stack.enter_context(ended_by_signals(Path(scratch)))
        folder = Path(asked.out or scratch)
        stack.enter_context(alone_in(folder))
        logging.disable(logging.CRITICAL)  # the broker complains of what is done to it on purpose
        try:
            return _runs(run, plan, folder, shrink=asked.shrink)
        except OSError as error:
            raise LabError(f"cannot write to {folder}: {error.strerror}") from None
        finally:
            logging.disable(logging.NOTSET)


def _runs(run: RecordedRun, plan: RunPlan, folder: Path, *, shrink: bool) -> int:
    """The replay, and those without some of its rules. Raises LabError, OSError."""

    def verdict_of(scenario: Scenario, name: str) -> str:
        seed = run.header.seed
        result = run_one(plan, scenario, seed, folder / name.replace(" ", "-"), run.header.reference).result
        print(line_of(result), flush=True)
        return result.verdict

    then = " ".join([run.judged.verdict, *run.judged.kinds])
    print(f"recorded: {then}", flush=True)
    verdict = verdict_of(replayed(run), "replay")
    if shrink and verdict == FAIL:

        def still_fails(scenario: Scenario, words: str) -> bool:
            print(f"{words}:", flush=True)
            return verdict_of(scenario, words.replace(",", "")) == FAIL

        left = shrunk(run, still_fails)
        print(f"it needs {len(left)} of {len(rules_of(run))} rules: {', '.join(left) or 'it fails without any'}")
    elif shrink:
        print("it does not fail, so that there is nothing to shrink")
    return {PASS: ALL_PASS, FAIL: SOME_FAILED}.get(verdict, SOME_NOT_EXERCISED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
