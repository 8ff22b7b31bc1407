"""The command of a model that is searched breadth-first: its configurations, one line each, and its planted bugs."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
    rule holds."""
    by_name = {bounds.name: bounds for bounds in configurations}
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("names", nargs="*", help="configurations (all)", metavar="CONFIGURATION")
    parser.add_argument("--list", action="store_true", help="say which configurations there are, and the rules")
    parser.add_argument("--bug", choices=planted, help="plant a bug, and show how it is found")
    options = parser.parse_args()
    if options.list:
        for bounds in configurations:
            print(f"{bounds.name:24} {bounds.about}")
        for rule, what in rules.items():
            print(f"\n{rule}:\n  {what}")
        return 0
    if options.bug:
        with planted[options.bug].plant():
            return _report(search(planted[options.bug].bounds).run(), tell)
    unknown = [each for each in options.names if each not in by_name]
    if unknown:
        parser.error(f"there is no configuration {', '.join(unknown)}: --list says which there are")
    print(f"{'configuration':24} {'states':>10} {'steps':>11} {'depth':>6} {'seconds':>8}", flush=True)
    return max(_report(search(by_name[each]).run(), tell) for each in options.names or by_name)


def _report(result: Result[Any, Any], tell: Callable[[Any, Any], str]) -> int:
    """Print one line, and all about a rule that does not hold; returns 1 if anything is wrong."""
    figures = f"{result.states:10} {result.steps:11} {result.depth:6} {result.seconds:8.1f}"
    print(f"{result.bounds.name:24} {figures}", flush=True)
    if result.counterexample is not None:
        print(tell(result.bounds, result.counterexample), flush=True)
    elif result.stopped is not None:
        print(f"  not looked at in full: {result.stopped}", flush=True)
    return int(result.counterexample is not None or result.stopped is not None)
