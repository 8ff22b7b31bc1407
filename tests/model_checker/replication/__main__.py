"""`python -m model_checker.replication`: look at everything that the configurations allow, and say what was found.

The exit status is 0 only if every configuration was looked at in full and every rule holds."""

import argparse
import sys

from model_checker.replication.configurations import LARGE, SMALL
from model_checker.replication.planted import PLANTED
from model_checker.replication.rules import RULES
from model_checker.replication.search import Result, Search
from model_checker.replication.words import tell


def main() -> int:
    """Parse the command line, and run."""
    configurations = {bounds.name: bounds for bounds in (*SMALL, *LARGE)}
    parser = argparse.ArgumentParser(prog="model.replication", description=__doc__)
    parser.add_argument("names", nargs="*", help="configurations (all)", metavar="CONFIGURATION")
    parser.add_argument("--list", action="store_true", help="say which configurations there are, and the rules")
    parser.add_argument("--bug", choices=PLANTED, help="plant a bug, and show how it is found")
    options = parser.parse_args()
    if options.list:
        for bounds in configurations.values():
            print(f"{bounds.name:24} {bounds.about}")
        for rule, what in RULES.items():
            print(f"\n{rule}:\n  {what}")
        return 0
    if options.bug:
        with PLANTED[options.bug].plant():
            return _report(Search(PLANTED[options.bug].bounds).run())
    unknown = [name for name in options.names if name not in configurations]
    if unknown:
        parser.error(f"there is no configuration {', '.join(unknown)}: --list says which there are")
    print(f"{'configuration':24} {'states':>10} {'steps':>11} {'depth':>6} {'seconds':>8}", flush=True)
    return max(_report(Search(configurations[name]).run()) for name in options.names or configurations)


def _report(result: Result) -> int:
    """Print one line, and all about a rule that does not hold; whether anything is wrong."""
    figures = f"{result.states:10} {result.steps:11} {result.depth:6} {result.seconds:8.1f}"
    print(f"{result.bounds.name:24} {figures}", flush=True)
    if result.counterexample is not None:
        print(tell(result.bounds, result.counterexample), flush=True)
    elif result.stopped is not None:
        print(f"  not looked at in full: {result.stopped}", flush=True)
    return int(result.counterexample is not None or result.stopped is not None)


if __name__ == "__main__":
    sys.exit(main())
