"""`eosin lab`: `run` takes an application through incidents, `certify` makes a scorecard of it, `scenarios` prints the
catalogue of them.

Exit codes of `run` and `certify`: 0 all pass, 1 a scenario failed, 2 it could not run, 3 some were not exercised.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from eosin.cli.common.arguments import Parser, fail
from eosin.lab.behaviours import BEHAVIOURS, EOSIN, KAFKA
from eosin.lab.common.errors import LabError, PortTakenError, unknown
from eosin.lab.run.feed import FEED, feed_in, made_feed
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.process import ended_by_signals
from eosin.lab.run.report import line_of, save, summary_of
from eosin.lab.run.results import PASS, Report, Result
from eosin.lab.run.run_file import alone_in
from eosin.lab.run.runner import RunOutcome, run_one
from eosin.lab.run.scorecard import page_of, scorecard_of, text_of
from eosin.lab.run.staged_app import RunPlan
from eosin.lab.scenarios.catalogue import SCENARIOS, chosen, scenarios_in
from eosin.lab.scenarios.scenario import Scenario
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.runtime.version import VERSION

COMMAND: Final = "lab"
RUN: Final = "run"
CERTIFY: Final = "certify"
CARD: Final = "scorecard"
"""The name of its files."""
ALL: Final = "all"
OF_READERS: Final = "tag:reading"
"""Instead of all, for a consumer alone."""
OK: Final = 0
PORT: Final = 9092
_PORT: Final = "--port"
_LARGEST_SEED: Final = 2**31


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    words = list(arguments)
    application: list[str] = []
    if "--" in words:
        split = words.index("--")
        words, application = words[:split], words[split + 1 :]
    asked = parser().parse_args(words)
    try:
        known = [*SCENARIOS, *(scenarios_in(Path(asked.scenario_file)) if asked.scenario_file else ())]
        if asked.action == "scenarios":
            print(catalogue_text(known, asked.name))
            return OK
        return _run(asked, known, application)
    except PortTakenError as taken:
        return fail(f"{COMMAND} {asked.action}", taken.with_option(_PORT))
    except LabError as refused:
        return fail(f"{COMMAND} {asked.action}", str(refused))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin lab",
        description="Take an application through incidents of production, and judge what it does.",
        examples=["eosin lab scenarios", "eosin lab run -- python my_app.py"],
    )
    actions = options.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser(
        "run",
        help="run an application through scenarios",
        description="Run an application through scenarios, each at a broker of its own, and judge what it has done."
        " {bootstrap} in its command, and KAFKA_BOOTSTRAP_SERVERS in its environment, are the address.",
        usage="eosin lab run [OPTION...] -- COMMAND...",
        examples=[
            "eosin lab run --input orders:3 --output invoices -- python my_app.py",
            "eosin lab run --scenario tag:fencing --out report -- java -jar app.jar {bootstrap}",
        ],
    )
    run.add_argument(
        "--scenario", metavar="all|NAME,...|tag:TAG", default=ALL, help="what to go through (all: the catalogue)"
    )
    run.add_argument("--input", metavar="TOPIC[:PARTITIONS]", default="input", help="the topic that it reads (input)")
    run.add_argument("--output", metavar="TOPIC,...", default="output", help="the topics that it writes (output)")
    run.add_argument("--group", metavar="GROUP", help="its group (the one that commits offsets of the input)")
    feed = run.add_mutually_exclusive_group()
    feed.add_argument("--feed", type=int, metavar="N", default=FEED, help=f"records of its input ({FEED})")
    feed.add_argument("--feed-file", metavar="FILE", help="its input, a JSON object a line: value, key, headers")
    run.add_argument(
        "--judge",
        metavar="multiset|ids|last-value|CMD",
        default="multiset",
        help="how its output is compared: with that of a run without faults (multiset), or by a command",
    )
    run.add_argument("--id", metavar="key|header:NAME|json:/PATH", default="key", help="the id of a record (key)")
    run.add_argument("--repeat", type=int, metavar="N", default=1, help="run each scenario N times (1)")
    run.add_argument("--seed", type=int, metavar="N", help="the first seed (any)")
    run.add_argument("--restarts", type=int, metavar="N", default=5, help="exits that are forgiven in a scenario (5)")
    run.add_argument("--timeout", type=float, metavar="SECONDS", default=60.0, help="time to heal (60)")
    run.add_argument("--out", metavar="DIR", help="write report.json, report.txt and what the application said here")
    run.add_argument("--jobs", type=int, metavar="N", default=1, help="scenarios at a time (1)")
    certify = _certify_parser(actions, run)
    _add_of_run(run)
    _add_catalogue(actions, run, certify)
    return options


def _certify_parser(actions: "argparse._SubParsersAction[Parser]", run: Parser) -> Parser:
    """The options of `certify`: those of `run`, and its own."""
    certify = actions.add_parser(
        CERTIFY,
        help="make a scorecard of a client or an application",
        description="Make a scorecard of a client or an application: all scenarios, at brokers that behave like Apache"
        " Kafka and like Eosin; what passed, failed or was not exercised, what that means, and what the application"
        " used of the protocol.",
        usage="eosin lab certify [OPTION...] -- COMMAND...",
        examples=[
            "eosin lab certify --input orders:3 --output invoices --out scorecard -- python my_app.py",
            "eosin lab certify --behaviour kafka-3.9 --scenario tag:commit -- java -jar app.jar {bootstrap}",
        ],
        parents=[run],
        add_help=False,
    )
    certify.add_argument(
        "--behaviour",
        metavar="NAME,...",
        default=f"{KAFKA},{EOSIN}",
        help=f"behave like these brokers: {', '.join(BEHAVIOURS)} ({KAFKA},{EOSIN})",
    )
    certify.add_argument(
        "--name", metavar="NAME", default="", help="the title of the card (what the client says it is)"
    )
    return certify


def _add_catalogue(actions: Any, *runs: Parser) -> None:
    """Add the action `scenarios`, and what it has in common with those that run them."""
    catalogue = actions.add_parser(
        "scenarios",
        help="print the catalogue, or one of it",
        description="Print the catalogue of scenarios, or all about one of them.",
        examples=["eosin lab scenarios", "eosin lab scenarios lost-commit-answer"],
    )
    catalogue.add_argument("name", nargs="?", metavar="NAME", help="print all about this one")
    for each in (*runs, catalogue):
        each.add_argument(
            "--scenario-file", metavar="FILE.py", help="add the functions of (eosin, app, seed) of a file"
        )


def _add_of_run(run: Parser) -> None:
    """Add the options that `certify` does not have."""
    run.add_argument(
        "--behaviour",
        choices=tuple(BEHAVIOURS),
        default=KAFKA,
        help=f"have brokers that behave like this one ({KAFKA})",
    )
    run.add_argument(
        "--also", metavar="NAME,...", default="", help=f"run each scenario again at brokers like these, as {EOSIN}"
    )
    run.add_argument(
        "--reader",
        action="store_true",
        help="the application is a consumer alone, which says the value of each record that it handles",
    )
    run.add_argument(
        "--attach", action="store_true", help="run no command: wait for Enter, and for an application of yours"
    )
    run.add_argument(_PORT, type=int, metavar="N", default=PORT, help=f"of the brokers, with --attach ({PORT})")


def catalogue_text(known: Sequence[Scenario], name: str | None = None) -> str:
    """The catalogue, or all about one scenario of it. Raises LabError."""
    if name is not None:
        return "\n\n".join(each.page() for each in chosen(name, known))
    width = max(len(each.name) for each in known)
    return "\n".join(f"{each.name:<{width}}  {each.summary}" for each in known)


def _run(asked: argparse.Namespace, known: Sequence[Scenario], application: Sequence[str]) -> int:
    """Run the application. Raises LabError."""
    is_reader = getattr(asked, "reader", False)
    scenarios = chosen(OF_READERS if is_reader and asked.scenario == ALL else asked.scenario, known)
    plan = _plan(asked, application)
    also = _behaviours(asked.also) if getattr(asked, "also", "") else []
    seed = SystemChance().below(_LARGEST_SEED) if asked.seed is None else asked.seed
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="eosin-lab-"))
        stack.enter_context(ended_by_signals(Path(scratch)))
        folder = Path(asked.out or scratch)
        stack.enter_context(alone_in(folder))
        logging.disable(logging.CRITICAL)  # the broker complains of what is done to it on purpose
        try:
            if asked.action == CERTIFY:
                return _certify(plan, scenarios, seed, asked, folder)
            report = _all_runs(plan, scenarios, seed, asked, folder, also)
            print(summary_of(report))
            if asked.out:
                save(report, folder)
                words = "" if plan.attach is not None else ", the words of the application are beside it"
                print(f"the report is {folder / 'report.json'}{words}")
        except OSError as error:
            raise LabError(f"cannot write to {folder}: {error.strerror}") from None
        finally:
            logging.disable(logging.NOTSET)
    return report.exit_code


def _certify(plan: RunPlan, scenarios: Sequence[Scenario], seed: int, asked: argparse.Namespace, folder: Path) -> int:
    """Take the application through the scenarios at each behaviour. Raises LabError, OSError."""
    reports: dict[str, Report] = {}
    for behaviour in _behaviours(asked.behaviour):
        print(f"with {behaviour}:", flush=True)
        of_one = msgspec.structs.replace(plan, behaviour=behaviour)
        reports[behaviour] = _all_runs(of_one, scenarios, seed, asked, folder / behaviour)
    date = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date().isoformat()
    card = scorecard_of(reports, scenarios, name=asked.name, date=date, eosin=VERSION, seed=seed)
    print(f"\n{text_of(card)}")
    if asked.out:
        for behaviour, report in reports.items():
            save(report, folder / behaviour)
        written = msgspec.json.format(msgspec.json.encode(card), indent=1)
        (folder / f"{CARD}.json").write_bytes(written + b"\n")
        (folder / f"{CARD}.md").write_text(page_of(card))
        print(f"the scorecard is {folder / CARD}.md, and {CARD}.json beside it")
    return card.exit_code


def _behaviours(text: str) -> list[str]:
    """The behaviours of `--behaviour`. Raises LabError."""
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for each in names:
        if each not in BEHAVIOURS:
            raise unknown("behaviour", each, BEHAVIOURS)
    if not names:
        raise LabError(f"--behaviour names brokers with commas between: {', '.join(BEHAVIOURS)}")
    return names


def _all_runs(
    plan: RunPlan,
    scenarios: Sequence[Scenario],
    seed: int,
    asked: argparse.Namespace,
    folder: Path,
    also: Sequence[str] = (),
) -> Report:
    """The reference run, and all scenarios; each once more at brokers that behave as `also` names. Raises LabError."""
    reference = run_one(plan, None, seed, folder / "reference")
    print(line_of(reference.result), flush=True)
    results: list[Result] = []
    if reference.result.verdict == PASS:
        plan = msgspec.structs.replace(plan, group=reference.group, transactional_ids=reference.transactional_ids)
        others = [each for each in also if each != plan.behaviour]
        work = [
            (each, seed + number, behaviour)
            for each in scenarios
            for number in range(asked.repeat)
            for behaviour in ("", *others)
        ]

        def one(item: tuple[Scenario, int, str]) -> RunOutcome:
            scenario, its_seed, other = item
            own = msgspec.structs.replace(plan, behaviour=other) if other else plan
            name = "-".join(filter(None, (scenario.name, str(its_seed), other)))
            found = run_one(own, scenario, its_seed, folder / name, reference.output)
            return found._replace(result=msgspec.structs.replace(found.result, behaviour=other))

        with ThreadPoolExecutor(asked.jobs, thread_name_prefix="eosin-lab-run") as pool:
            for outcome in pool.map(one, work):
                print(line_of(outcome.result), flush=True)
                results.append(outcome.result)
    return Report(plan.command, plan.input, plan.outputs, reference.group, reference.result, tuple(results))


def _plan(asked: argparse.Namespace, application: Sequence[str]) -> RunPlan:
    is_attached = getattr(asked, "attach", False)
    if is_attached and application:
        raise LabError("--attach runs no command: leave out what is behind --, or --attach")
    if is_attached and not 0 < asked.port < 65_536:
        raise LabError(f"--port is 1 to 65535, not {asked.port}")
    if is_attached and asked.jobs > 1:
        raise LabError("--attach has one application, and so one scenario at a time: leave out --jobs")
    if not is_attached and not application:
        raise LabError("name the application behind --: eosin lab run -- python my_app.py")
    is_reader = getattr(asked, "reader", False)
    if is_attached and is_reader:
        raise LabError("--reader judges what a command says: leave out --attach")
    topic, colon, partitions = asked.input.partition(":")
    if colon and (not partitions.isdecimal() or int(partitions) < 1):
        raise LabError(f"--input is TOPIC[:PARTITIONS], not {asked.input!r}")
    outputs = tuple(filter(None, asked.output.split(",")))
    if not outputs or topic in outputs:
        raise LabError("--output names the topics that the application writes, and not its input")
    for name in ("repeat", "jobs"):
        if getattr(asked, name) < 1:
            raise LabError(f"--{name} is 1 or more, not {getattr(asked, name)}")
    if asked.restarts < 0 or asked.timeout <= 0:
        raise LabError("--restarts is 0 or more, and --timeout above 0 seconds")
    count = int(partitions) if colon else 1
    feed = feed_in(Path(asked.feed_file)) if asked.feed_file else made_feed(asked.feed, count)
    return RunPlan(
        tuple(application),
        topic,
        count,
        outputs,
        tuple(feed),
        Judge(asked.judge, id_named(asked.id)),
        group=asked.group,
        restarts=asked.restarts,
        timeout_s=asked.timeout,
        behaviour=asked.behaviour if asked.action == RUN else KAFKA,
        id_text=asked.id,
        is_reader=is_reader,
        port=asked.port if is_attached else 0,
        attach=wait_for_enter if is_attached else None,
    )


def wait_for_enter(bootstrap: str, run: str) -> None:
    """Wait until somebody has started the application. Raises LabError at the end of standard input."""
    print(f"{run}: the broker is {bootstrap}; start the application, or start it again, and press Enter", flush=True)
    if not sys.stdin.readline():
        raise LabError("standard input has ended: --attach waits for Enter before each run")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
