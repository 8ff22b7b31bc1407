"""The command of a model that is searched breadth-first: its configurations, one line each, and its planted bugs."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proof.books import enter, lines_of
from proof.reporting import report_failure, report_figures

from model_checker.breadth_first import BreadthFirst, Result


def run(
    name: str,
    about: str | None,
    configurations: Sequence[Any],
    planted: Mapping[str, Any],
    rules: Mapping[str, str],
    search: Callable[[Any], BreadthFirst[Any, Any, Any]],
    tell: Callable[[Any, Any], str],
) -> int:
    """Parse the command line, and run; the exit status is 0 only if every configuration was looked at in full and every
    rule holds. A configuration that holds is in the state file, and is not looked at again."""
    by_name = {bounds.name: bounds for bounds in configurations}
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("names", nargs="*", help="configurations (all)", metavar="CONFIGURATION")
    parser.add_argument("--list", action="store_true", help="say which configurations there are, and the rules")
    parser.add_argument("--bug", choices=planted, help="plant a bug, and show how it is found")
    parser.add_argument("--state", type=Path, help="the file of configurations that hold; a run goes on with others")
    options = parser.parse_args()
    if options.list:
        for bounds in configurations:
            print(f"{bounds.name:24} {bounds.about}")
        for rule, what in rules.items():
            print(f"\n{rule}:\n  {what}")
        return 0
    if options.bug:
        with planted[options.bug].plant():
            return report(search(planted[options.bug].bounds).run(), tell)
    unknown = [each for each in options.names if each not in by_name]
    if unknown:
        parser.error(f"there is no configuration {', '.join(unknown)}: --list says which there are")
    print(f"{'configuration':24} {'states':>10} {'steps':>11} {'depth':>6} {'seconds':>8}", flush=True)
    held = Held(options.state)
    wrong = 0
    for each in held.left(options.names or by_name):
        result = search(by_name[each]).run()
        wrong += report(result, tell)
        held.add(result)
    print(f"{len(held.found)} configurations hold, looked at in full; {wrong} do not")
    return int(wrong > 0)


class Held:
    """The configurations of which every state was looked at, and every rule holds; in a file, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.found: dict[str, list[float]] = {}
        """By name: states, steps and seconds."""
        self._path = path
        if path is not None:
            self.found = {each["name"]: each["figures"] for each in lines_of(path)}

    def left(self, names: Iterable[str]) -> list[str]:
        """Those that are left to look at."""
        names = [*names]
        for each in names:
            if each in self.found:
                print(f"{each:24} holds, as was found before", flush=True)
        return [each for each in names if each not in self.found]

    def add(self, result: Any) -> None:
        """Enter a result, if it holds."""
        if result.counterexample is None and result.stopped is None:
            name, figures = result.bounds.name, [result.states, result.steps, round(result.seconds, 1)]
            self.found[name] = figures
            if self._path is not None:
                enter(self._path, name=name, figures=figures)
        report_figures(configurations=self.found)


def report(result: Result[Any, Any], tell: Callable[[Any, Any], str]) -> int:
    """Print one line, and all about a rule that does not hold; returns 1 if anything is wrong."""
    figures = f"{result.states:10} {result.steps:11} {result.depth:6} {result.seconds:8.1f}"
    print(f"{result.bounds.name:24} {figures}", flush=True)
    if result.counterexample is not None:
        print(tell(result.bounds, result.counterexample), flush=True)
        report_failure(f"{result.bounds.name}: {result.counterexample.rule}: {result.counterexample.what}")
    elif result.stopped is not None:
        report_failure(f"{result.bounds.name}: not looked at in full: {result.stopped}")
    return int(result.counterexample is not None or result.stopped is not None)
