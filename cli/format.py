"""`eosin format`: make an empty directory that of a broker of a quorum (cluster.md 1.3), or one of a broker that ran
alone (`--adopt`, cluster.md 1.9).

Exit code 0 when the directory is such a one, also when it was before; 2 with one sentence on stderr, and nothing
written, when it cannot be.
"""

import argparse
from collections.abc import Sequence

from eosin.cli.common.arguments import Parser, fail
from eosin.runtime.chance import Chance, SystemChance
from eosin.runtime.clock import SystemClock
from eosin.security.process import keep_files_private
from eosin.settings.quorum import check_cluster_id
from eosin.settings.settings import INT_MAX, SettingError
from eosin.storage.disk.data_directory import LOCK, format_for_quorum, refuse_for_quorum
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.system import SystemDisk


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        check_cluster_id(options.cluster_id, key="--cluster-id")
    except SettingError as refused:
        return fail("format", str(refused))
    path = options.data_dir
    keep_files_private()
    if options.adopt is not None:
        return _adopt(options)
    try:
        made = format_directory(
            SystemDisk(), path, node_id=options.node_id, cluster_id=options.cluster_id, chance=SystemChance()
        )
    except UnusableDirectory as refused:
        return fail("format", f"cannot format {path}: {refused}")
    except OSError as error:
        return fail("format", f"cannot format {path}: {error.strerror or error}")
    how = "is formatted" if made else "was formatted before"
    print(f"{path} {how} for broker {options.node_id} of cluster {options.cluster_id}")
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin format",
        description="Make an empty directory that of a broker of a quorum.",
        examples=["eosin format --cluster-id 4L6g3nShT-eMCtK--X86sw --node-id 1 --data-dir data"],
    )
    options.add_argument("--cluster-id", required=True, metavar="ID", help="the id that the controllers were given")
    options.add_argument("--node-id", required=True, type=_node_id, metavar="N", help="the id of this broker alone")
    options.add_argument("--data-dir", default="data", metavar="DIR", help="the directory (data)")
    options.add_argument(
        "--adopt",
        metavar="CONTROLLER_DIR",
        help="the directory is of a broker that ran alone, and its topics go to the quorum whose only controller has"
        " this directory, formatted and never started",
    )
    return options


def _adopt(options: argparse.Namespace) -> int:
    from eosin.cluster.metadata.adoption import adopt

    path, controller = options.data_dir, options.adopt
    try:
        adopted = adopt(
            SystemDisk(),
            path,
            controller,
            node_id=options.node_id,
            cluster_id=options.cluster_id,
            chance=SystemChance(),
            now_ms=SystemClock().now_ms(),
        )
    except UnusableDirectory as refused:
        return fail("format", f"cannot adopt {path}: {refused}")
    except OSError as error:
        return fail("format", f"cannot adopt {path}: {error.strerror or error}")
    print(
        f"{path} is adopted for broker {options.node_id} of cluster {options.cluster_id}: its controller begins with"
        f" {adopted.topics} topics of {adopted.partitions} partitions"
    )
    for kind, number in adopted.groups.items():
        print(f"{kind.name} groups that go on: {number}")
    for kind in adopted.unserved:
        print(f"the cluster begins with {kind.feature} 0: {kind.unserved}, until eosin features upgrade {kind.feature}")
    return 0


def format_directory(disk: Disk, path: str, *, node_id: int, cluster_id: str, chance: Chance) -> bool:
    """Format a directory, durably, while no broker has it; whether anything was written. Raises UnusableDirectory, then
    with nothing written, and OSError."""
    refuse_for_quorum(disk, path, node_id=node_id, cluster_id=cluster_id)
    disk.make_directory(path)
    lock = disk.lock(f"{path}/{LOCK}")
    try:
        before = _content(disk, path)
        format_for_quorum(disk, path, node_id=node_id, cluster_id=cluster_id, chance=chance)
        return _content(disk, path) != before
    finally:
        lock.release()


def _content(disk: Disk, path: str) -> bytes | None:
    file = f"{path}/{META_PROPERTIES}"
    return None if disk.size(file) is None else disk.read_whole(file)


def _node_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= INT_MAX):
        raise argparse.ArgumentTypeError(f"must be an integer from 0 to {INT_MAX}, not {text!r}")
    return int(text)
