"""`python -m model_checker`: look at everything that the configurations allow, and say what was found.

Each configuration is looked at in a process of its own, which stops with a clear line when it needs more memory or
states than it may have: it has proved nothing then. The exit status is 0 only if every configuration was looked at in
full and every rule holds.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

from descendants import end_with_me
from proof.reporting import report_failure

from model_checker.bounds import Bounds
from model_checker.command_line import Held
from model_checker.large import LARGE
from model_checker.planted import PLANTED
from model_checker.search import Result, Search, search
from model_checker.small import SMALL
from model_checker.violation import RULES
from model_checker.words import tell

_HEAD = f"{'configuration':24} {'states':>10} {'steps':>11} {'depth':>6} {'seconds':>8} {'MiB':>6}"


def main() -> int:
    """Parse the command line, and run."""
    configurations = {bounds.name: bounds for bounds in (*SMALL, *LARGE)}
    parser = argparse.ArgumentParser(prog="model", description=__doc__)
    parser.add_argument("names", nargs="*", help="configurations (all)", metavar="CONFIGURATION")
    parser.add_argument("--list", action="store_true", help="say which configurations there are, and the rules")
    parser.add_argument("--workers", default="auto", help="processes; auto: one for each processor")
    parser.add_argument("--max-memory-mib", type=int, default=6144, help="of each process")
    parser.add_argument("--max-states", type=int, help="of each configuration")
    parser.add_argument("--state", type=Path, help="the file of configurations that hold; a run goes on with others")
    parser.add_argument("--bug", choices=PLANTED, help="plant a bug, and show how it is found")
    options = parser.parse_args()
    if options.list:
        return _list(configurations.values())
    if options.bug:
        return _plant(options.bug)
    unknown = [name for name in options.names if name not in configurations]
    if unknown:
        parser.error(f"there is no configuration {', '.join(unknown)}: --list says which there are")
    held = Held(options.state)
    chosen = [configurations[name] for name in held.left(options.names or configurations)]
    workers = (os.cpu_count() or 1) if options.workers == "auto" else int(options.workers)
    return _run(chosen, held, workers, options.max_memory_mib, options.max_states)


def _list(configurations: Iterable[Bounds]) -> int:
    for bounds in configurations:
        print(f"{bounds.name:24} {bounds.about}")
    for rule, what in RULES.items():
        print(f"\n{rule}:\n  {what}")
    return 0


def _plant(name: str) -> int:
    planted = PLANTED[name]
    with ExitStack() as bugs:
        bugs.enter_context(planted.plant())
        result = Search(planted.bounds).run()
    return _report(result)


def _run(chosen: list[Bounds], held: Held, workers: int, max_memory_mib: int, max_states: int | None) -> int:
    print(_HEAD, flush=True)
    failed = 0
    with ProcessPoolExecutor(workers, max_tasks_per_child=1) as pool:
        futures = [pool.submit(search, bounds, max_memory_mib, max_states) for bounds in chosen]
        for future in as_completed(futures):
            result = future.result()
            failed += _report(result)
            held.add(result)
    print(f"{len(held.found)} configurations hold, looked at in full; {failed} do not")
    return 1 if failed else 0


def _report(result: Result) -> int:
    """Print one line, and all about a rule that does not hold; whether anything is wrong."""
    figures = f"{result.states:10} {result.steps:11} {result.depth:6} {result.seconds:8.1f} {result.memory_mib:6}"
    print(f"{result.bounds.name:24} {figures}", flush=True)
    if result.counterexample is not None:
        print(tell(result.bounds, result.counterexample), flush=True)
        report_failure(f"{result.bounds.name}: {result.counterexample.rule}: {result.counterexample.what}")
    elif result.stopped is not None:
        report_failure(f"{result.bounds.name}: not looked at in full: {result.stopped}")
    return int(result.counterexample is not None or result.stopped is not None)


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
