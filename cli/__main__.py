"""The `eosin` command: finds the subcommand and runs it.

Each command is a module `eosin.cli.<command>` with `main(arguments) -> exit code`, imported only when asked for,
because the time to import is time to start. `pipeline` and other distributions add commands by an entry point in the
group `eosin.commands` whose object is such a `main`.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.cli.common.standard_files import flush_errors, open_closed_ones, until_output_fails

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

IMPORTED_AT: Final = time.monotonic()

COMMANDS: Final = {
    "serve": "run a broker",
    "console": "show the console of a throwaway broker with traffic",
    "format": "make an empty directory that of a broker of a quorum",
    "certs": "make certificates to try TLS with",
    "health": "tell by the exit code whether a broker answers",
    "dump-log": "show what is in log, index, snapshot and checkpoint files",
    "check": "verify the data directory of a stopped broker",
    "compare": "compare the replicas in the data directories of two stopped brokers",
    "partition": "accept the loss of records that a partition's only copy had",
    "topics": "list, make, describe, change and delete topics, delete records",
    "produce": "write lines of standard input as records, in transactions if asked for",
    "consume": "write the records of topics to standard output",
    "groups": "list, describe, move and delete consumer groups",
    "configs": "describe and change settings of topics, brokers and groups",
    "quotas": "list, set and remove quotas of users, client ids and addresses",
    "cluster": "describe brokers, replicas and coordinators of a cluster",
    "acls": "show and change who may do what in a cluster, and explain a decision",
    "transactions": "list, describe and find transactions of a cluster, and abort those that hang",
    "producers": "show the producers that a partition knows",
    "explain": "say why a transactional id, a partition or a group is as it is",
    "completion": "print what a shell needs to complete these commands",
    "users": "add, list and delete the users of a cluster, and change their passwords",
    "pipeline": "run, follow and verify exactly-once pipelines on Spark (needs eosin[spark])",
}
ENTRY_POINTS: Final = "eosin.commands"

Command = Callable[[Sequence[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. 2 is for what the caller wrote, 1 for what went wrong.

    Without `arguments` it is the program: an interrupt then ends it at once and without a word, as long as the command
    does not see to it itself.
    """
    if arguments is not None:
        return _run(list(arguments))
    if sys.platform != "win32":  # there a server hears of Ctrl-C as KeyboardInterrupt only
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what TAB means
        from eosin.cli.completion import complete

        complete(tuple(COMMANDS))
    given = sys.argv[1:]
    open_closed_ones(needs_output=given[:1] != ["serve"])
    try:
        return until_output_fails(lambda: _run(given))
    finally:
        flush_errors()


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_usage())
        return 0 if given else 2
    name = given[0]
    if name in ("-V", "--version"):
        from eosin.runtime.version import VERSION, is_compiled

        print(f"eosin {VERSION}{', compiled' if is_compiled() else ''}")
        return 0
    command = _find(name)
    if command is None:
        print(f"eosin: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return command(given[1:])


def _find(name: str) -> Command | None:
    if name in COMMANDS and name != "pipeline":  # a room of its own, installed with it
        from importlib import import_module

        own: Command = import_module(f"eosin.cli.{name.replace('-', '_')}").main
        return own
    for point in _entry_points():
        if point.name == name:
            command: Command = point.load()
            return command
    return None


def _entry_points() -> "EntryPoints":
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def _usage() -> str:
    lines = ["usage: eosin COMMAND [OPTION...]", "       eosin --version", ""]
    names = {point.name: f"from {point.value.partition(':')[0]}" for point in _entry_points()}
    names = {**COMMANDS, **{name: what for name, what in names.items() if name not in COMMANDS}}
    lines += [f"  {name:<13} {what}" for name, what in names.items()]
    lines += ["", "eosin COMMAND --help tells more."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
