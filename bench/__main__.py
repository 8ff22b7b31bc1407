"""`python -m bench [--quick] [--json FILE] [NAME ...]`: run the benchmarks and print their table."""

import argparse
import compileall
import importlib
from pathlib import Path

from descendants import end_with_me
from sources import ROOMS, ROOT

from bench.report import Row, load, machine, table, write_json

NAMES = (
    "codec",
    "path",
    "rights",
    "small_requests",
    "wire",
    "cores",
    "tail",
    "tls",
    "logins",
    "commits",
    "throughput",
    "footprint",
    "testing",
    "growth",
    "groups",
    "many_groups",
    "large_groups",
    "recovery",
    "compaction",
    "state_log",
    "metadata",
    "scale",
    "steady",
    "recorder",
    "seeing",
    "page",
    "spark_format",  # first, since jars are for the first session of a process
    "pipeline",  # before the audit, for the same reason
    "realtime",
    "audit",
    "fetch",
    "peers",
    "cluster",
    "second_broker",
)


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which; all without a name")
    parser.add_argument("--quick", action="store_true", help="a short run, to see that they work")
    parser.add_argument("--json", type=Path, default=Path("bench-results/latest.json"), help="where the figures go")
    options = parser.parse_args()
    for room in ROOMS:
        # As pip installs them: else every start of an edited checkout would measure the compiler.
        compileall.compile_dir(ROOT / room, quiet=1)
    rows: list[Row] = []
    before = load()
    print(f"{'; '.join(f'{name} {value}' for name, value in machine().items())}; load before {before}", flush=True)
    for name in options.names or NAMES:
        print(f"... {name}", flush=True)
        found = importlib.import_module(f"bench.{name}").run(quick=options.quick)
        rows += found
        print(table(found), flush=True)
    print(f"load after {load()}", flush=True)
    write_json(rows, options.json, (before, load()))
    missed = [f"{row.group}: {row.name}" for row in rows if row.met is False]
    print(f"{len(rows)} figures in {options.json}; budgets missed: {'; '.join(missed) or 'none'}")


if __name__ == "__main__":
    end_with_me()
    main()
