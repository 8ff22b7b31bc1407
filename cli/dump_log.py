"""`eosin dump-log`: show what is in log, index, snapshot and checkpoint files, of Eosin or of Apache Kafka.

Changes nothing and takes no lock, so the broker may be running. Exit code 0 when every file is sound, 1 when one is
damaged, 2 with one sentence on stderr when one cannot be read at all.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.output import json_line, until_broken_pipe
from eosin.cli.dump_lines import line
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.system import ReadOnlyDisk
from eosin.storage.inspection.dump import DumpOptions, dump_file
from eosin.storage.inspection.names import NamedFile, named
from eosin.storage.inspection.values import FileProblem

_KNOWN = ".log, .index, .timeindex, .txnindex, .snapshot, checkpoints, partition.metadata and meta.properties"


class NotReadable(Exception):
    """Something named on the command line cannot be dumped; the text says why."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    topic = None
    if options.transaction_log:
        topic = TRANSACTION_STATE_TOPIC
    elif options.offsets:
        topic = CONSUMER_OFFSETS_TOPIC
    elif options.share_group_state:
        topic = SHARE_GROUP_STATE_TOPIC
    wanted = DumpOptions(deep=options.deep or topic is not None, topic=topic)
    disk = ReadOnlyDisk()
    try:
        paths = [Path(path).as_posix() for path in options.files]
        files = [file for path in paths for file in _files(disk, path)]
        return until_broken_pipe(lambda: _dump(disk, files, wanted, given=frozenset(paths), as_json=options.json))
    except NotReadable as error:
        return fail("dump-log", str(error))
    except OSError as error:
        return fail("dump-log", f"cannot read {error.filename}: {error.strerror}" if error.filename else str(error))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin dump-log",
        description=f"Show what is in files: {_KNOWN}.",
        examples=[
            "eosin dump-log data/orders-0/00000000000000000000.log",
            "eosin dump-log --deep --json data/orders-0/00000000000000000000.log",
        ],
    )
    options.add_argument("files", nargs="+", metavar="FILE", help="a file, or a directory whose files are shown")
    options.add_argument("--deep", action="store_true", help="show the records of each batch, too")
    internal = options.add_mutually_exclusive_group()
    internal.add_argument(
        "--transaction-log", action="store_true", help="decode records as those of __transaction_state (implies --deep)"
    )
    internal.add_argument(
        "--offsets", action="store_true", help="decode records as those of __consumer_offsets (implies --deep)"
    )
    internal.add_argument(
        "--share-group-state",
        action="store_true",
        help="decode records as those of __share_group_state (implies --deep)",
    )
    options.add_argument("--json", action="store_true", help="one JSON object per line")
    return options


def _files(disk: Disk, path: str) -> list[NamedFile]:
    """The files that one argument stands for."""
    if disk.is_directory(path):
        found = [file for name in disk.list(path) if (file := named(f"{path}/{name}")) is not None]
        if not found:
            raise NotReadable(f"there is nothing to show in the directory {path}")
        return found
    if disk.size(path) is None:
        raise NotReadable(f"there is no file {path}")
    file = named(path)
    if file is None:
        raise NotReadable(f"the name of {path} does not tell what it is; known are {_KNOWN}")
    return [file]


def _dump(disk: Disk, files: Sequence[NamedFile], options: DumpOptions, *, given: frozenset[str], as_json: bool) -> int:
    """Print all; the exit code. A file that was not `given` itself may vanish: a running broker removes old ones."""
    damaged = problems = 0
    for file in files:
        before = problems
        try:
            for value in dump_file(disk, file, options):
                problems += isinstance(value, FileProblem)
                sys.stdout.write((json_line(value) if as_json else line(value)) + "\n")
        except FileNotFoundError:
            if file.path in given:
                raise
        damaged += problems > before
    if not problems:
        return 0
    sys.stdout.flush()
    return fail("dump-log", f"{damaged} of {len(files)} files are damaged, {problems} problems in all", code=1)
