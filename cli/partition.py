"""`eosin partition accept-loss TOPIC-N`: let a broker of a cluster go on with its copy of a partition, though records
may be missing from it (cluster.md 4.18).

For the partition whose only complete copy is gone for good: nobody leads it, since every copy that is left could lack
what was acknowledged. The broker whose copy is to count has left a marker in its data directory, and says so in its
log. Works while that broker runs, and before it starts; not while other brokers run that have a copy. Exit code 0 when
the loss is accepted, 2 with one sentence on stderr otherwise.
"""

from collections.abc import Sequence
from pathlib import Path

from eosin.cli.common.arguments import Parser, fail
from eosin.storage.disk.lost_copies import HeldElsewhere, LostCopies, NotWaiting
from eosin.storage.disk.system import SystemDisk


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    path = Path(options.data_dir).as_posix()
    copies = LostCopies(SystemDisk(), path)
    try:
        copies.accept(options.partition)
    except NotWaiting:
        return fail("partition", f"{options.partition} waits for no decision in {path}; {_those(copies)}")
    except HeldElsewhere as held:
        topic, _, number = options.partition.rpartition("-")
        return fail(
            "partition",
            f"{options.partition} has copies on other brokers that run ({held}), and they may be complete:"
            f" eosin cluster describe --partitions --topic {topic} shows how far each copy reaches, and an unclean"
            " election lets the first of these brokers lead (kafka-leader-election.sh --election-type unclean"
            f" --topic {topic} --partition {number}); stop those whose copies are not to count",
        )
    except OSError as error:
        return fail("partition", f"cannot write to {path}: {error.strerror}")
    print(
        f"accepted: the broker of {path} goes on with the copy of {options.partition} that it has, as soon as it runs"
        " and nobody else leads it; records that only lost copies had are gone"
    )
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin partition",
        description="Decide about a partition of a cluster.",
        examples=["eosin partition accept-loss orders-0 --data-dir /var/lib/eosin"],
    )
    commands = options.add_subparsers(dest="command", required=True, metavar="COMMAND")
    accept = commands.add_parser(
        "accept-loss",
        help="let a broker go on with its copy of a partition, though records may be missing from it",
        description="Let a broker go on with its copy of a partition that has no leader, because its complete copies"
        " are gone for good.",
        examples=["eosin partition accept-loss orders-0 --data-dir /var/lib/eosin"],
    )
    accept.add_argument("partition", metavar="TOPIC-N", help="the partition, as the broker's log names it")
    accept.add_argument("--data-dir", metavar="DIR", required=True, help="the broker's data directory")
    return options


def _those(copies: LostCopies) -> str:
    try:
        waiting = copies.waiting()
    except OSError:
        return "there is no such directory"
    return f"these do: {', '.join(waiting)}" if waiting else "no partition does: its broker's log says which one would"
