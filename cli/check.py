"""`eosin check`: verify a stopped data directory, every file against every other, and transactions across partitions.

Changes nothing, but holds the lock, so that no broker starts meanwhile. Exit code 0 when nothing is lost or wrong, 1
when something is, 2 with one sentence on stderr when there is nothing to check or a broker is at work.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.output import json_line, until_broken_pipe
from eosin.cli.directory_check import CheckSummary, DirectoryCheck, TransactionsFound
from eosin.storage.disk.interfaces import DirectoryInUse, Disk, UnusableDirectory
from eosin.storage.disk.system import ReadOnlyDisk
from eosin.storage.inspection.directory import DirectoryFound, NoDataDirectory, lock
from eosin.storage.inspection.partition_check import PartitionFound
from eosin.storage.inspection.values import ERROR, FileProblem, Value

_HEADER = (
    f"{'partition':<32} {'segments':>8} {'batches':>9} {'records':>10} {'bytes':>14}"
    f"  {'offsets':<20} {'stable to':>10} {'producers':>9} {'open':>5}"
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    disk = ReadOnlyDisk()
    path = Path(options.data_dir or options.directory).as_posix()
    try:
        held = lock(disk, path)
        try:
            return until_broken_pipe(lambda: _check(disk, path, as_json=options.json))
        finally:
            held.release()
    except DirectoryInUse:
        return fail("check", f"a broker is at work in {path}; stop it first")
    except NoDataDirectory as error:
        return fail("check", str(error))
    except UnusableDirectory as error:
        return fail("check", f"cannot check {path}: {error}")
    except OSError as error:
        return fail("check", f"cannot read {error.filename}: {error.strerror}" if error.filename else str(error))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin check",
        description="Verify a stopped data directory without changing it.",
        examples=["eosin check data"],
    )
    directory = options.add_mutually_exclusive_group(required=True)
    directory.add_argument("directory", nargs="?", metavar="DIR", help="of a broker that is not running")
    directory.add_argument("--data-dir", metavar="DIR", help="the same, as other commands take it")
    options.add_argument("--json", action="store_true", help="one JSON object per line")
    return options


def _check(disk: Disk, path: str, *, as_json: bool) -> int:
    code = 1
    for value in DirectoryCheck(disk, path).run():
        sys.stdout.write((json_line(value) if as_json else _line(value)) + "\n")
        if isinstance(value, CheckSummary):
            code = 1 if value.errors else 0
    return code


def _line(value: Value) -> str:
    match value:
        case DirectoryFound():
            how = "cleanly" if value.is_clean else "without saying so: the next start recovers"
            return f"{value.file}: cluster {value.cluster_id}, node {value.node_id}, stopped {how}\n\n{_HEADER}"
        case PartitionFound():
            return _partition(value)
        case FileProblem():
            where = f" {value.place}" if value.place else ""
            mark = "!!" if value.severity == ERROR else " !"
            return f"{mark} {value.severity}: {value.file}{where}: {value.reason}"
        case TransactionsFound():
            states = ", ".join(f"{count} {name}" for name, count in value.states.items())
            return f"\n{sum(value.states.values())} transactional ids{': ' if states else ''}{states}"
        case CheckSummary():
            return f"{_counted(value.errors, 'error')}, {_counted(value.warnings, 'warning')}"
        case _:
            raise AssertionError(f"no line for {value}")


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _partition(value: PartitionFound) -> str:
    offsets = f"{value.log_start_offset}..{value.log_end_offset - 1}"
    if value.log_end_offset <= value.log_start_offset:
        offsets = f"none ({value.log_end_offset})"
    return (
        f"{value.file:<32} {value.segments:>8} {value.batches:>9,} {value.records:>10,} {value.size:>14,}"
        f"  {offsets:<20} {value.last_stable_offset:>10} {value.producers:>9} {value.open_transactions:>5}"
    )
