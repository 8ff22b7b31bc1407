"""The `eosin` command: finds the subcommand and runs it.

Each command is a module `eosin.cli.<command>` with `main(arguments) -> exit code`, imported only when asked for,
because the time to import is time to start. `pipeline` and other distributions add commands by an entry point in the
group `eosin.commands` whose object is such a `main`.
"""

import gc
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

_GROUPS: Final = {
    "run": {
        "serve": "run a broker",
        "testing": "run a throwaway broker for tests in any language",
        "lab": "break a broker on purpose: by HTTP, or under an application (run, replay, certify, scenarios)",
        "console": "show any cluster in a browser; --demo: a throwaway broker",
        "health": "tell by the exit code whether a broker answers",
        "format": "make an empty directory that of a broker of a quorum",
        "certs": "make certificates to try TLS with",
    },
    "data": {
        "topics": "list, make, describe, change and delete topics, delete records",
        "produce": "write lines of standard input as records, in transactions if asked for",
        "consume": "write the records of topics to standard output",
        "groups": "list, describe, move and delete consumer groups",
    },
    "look into it": {
        "explain": "say why a transactional id, a partition or a group is as it is",
        "transactions": "list, describe and find transactions of a cluster, and abort those that hang",
        "producers": "show the producers that a partition knows",
        "cluster": "describe brokers, replicas and coordinators of a cluster",
        "configs": "describe and change settings of topics, brokers and groups",
        "features": "describe, upgrade and downgrade the features that a cluster has agreed on",
    },
    "rights": {
        "users": "add, list and delete the users of a cluster, and change their passwords",
        "acls": "show and change who may do what in a cluster, and explain a decision",
        "quotas": "list, set and remove quotas of users, client ids and addresses",
    },
    "files of a stopped broker": {
        "check": "verify the data directory of a stopped broker",
        "dump-log": "show what is in log, index, snapshot and checkpoint files",
        "compare": "compare the replicas in the data directories of two stopped brokers",
        "partition": "accept the loss of records that a partition's only copy had",
    },
    "more": {
        "completion": "print what a shell needs to complete these commands",
        "pipeline": "run, follow and verify exactly-once pipelines on Spark (needs eosin[spark])",
    },
}
"""Commands with what they do, by the headings of `eosin --help`."""
COMMANDS: Final = {name: what for group in _GROUPS.values() for name, what in group.items()}
_ROOMS: Final = ("testing", "lab", "pipeline")
"""Commands of rooms of their own, installed with them."""
_MEANT: Final = {
    "topic": "topics",
    "kafka-topics": "topics",
    "group": "groups",
    "kafka-consumer-groups": "groups",
    "kafka-get-offsets": "topics describe",
    "kafka-delete-records": "topics delete-records",
    "producer": "produce",
    "kafka-console-producer": "produce",
    "write": "produce",
    "consumer": "consume",
    "kafka-console-consumer": "consume",
    "read": "consume",
    "tail": "consume --follow",
    "config": "configs",
    "kafka-configs": "configs",
    "feature": "features",
    "kafka-features": "features",
    "acl": "acls",
    "kafka-acls": "acls",
    "user": "users",
    "quota": "quotas",
    "transaction": "transactions",
    "kafka-transactions": "transactions",
    "txn": "transactions",
    "info": "cluster describe",
    "metadata": "cluster describe",
    "brokers": "cluster describe",
    "broker": "serve",
    "start": "serve",
    "run": "serve",
    "server": "serve",
    "kafka-server-start": "serve",
    "kafka-storage": "format",
    "kafka-dump-log": "dump-log",
    "kafka-broker-api-versions": "health",
    "ping": "health",
    "why": "explain",
    "lag": "groups describe",
    "offsets": "groups describe",
    "certify": "lab certify",
    "-c": "consume",
    "-p": "produce",
    "-l": "cluster describe",
}
"""Commands by the names that other tools have for them; `kcat -C` is one, in small letters."""
COMMANDS_WITH_ACTIONS: Final = frozenset(
    ("topics", "groups", "configs", "features", "quotas", "cluster", "acls", "transactions", "users", "partition")
)
"""Commands of which `eosin topics help` means `eosin topics --help`."""
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
    is_broker = given[:1] == ["serve"]
    open_closed_ones(needs_output=not is_broker)
    if is_broker:
        gc.disable()  # all that is imported stays: `serve` enables it when that is done
    try:
        return until_output_fails(lambda: _run(given))
    finally:
        flush_errors()


def _run(given: list[str]) -> int:
    if not given or given in (["-h"], ["--help"], ["help"]):
        print(_usage())
        return 0 if given else 2
    if given[0] in ("-h", "--help", "help"):
        given = [*given[1:], "--help"]
    elif given[1:2] == ["help"] and given[0] in COMMANDS_WITH_ACTIONS:
        given = [given[0], *given[2:], "--help"]
    name = given[0]
    if name in ("-V", "--version"):
        from eosin.runtime.version import VERSION, is_compiled

        print(f"eosin {VERSION}{', compiled' if is_compiled() else ''}")
        return 0
    command = _find(name)
    if command is None:
        print(_unknown(name, given[1:]), file=sys.stderr)
        return 2
    arguments = given[1:]
    if name != "serve" and any(word.startswith("-") for word in arguments):  # a broker starts without loading it
        from eosin.cli.translation.tools import DIALECTS
        from eosin.cli.translation.translation import Untranslatable, translated

        try:
            arguments = translated(arguments, DIALECTS[name]) if name in DIALECTS else arguments
        except Untranslatable as error:
            print(f"eosin {name}: {error} (eosin {name} --help)", file=sys.stderr)
            return 2
    return command(arguments)


def _find(name: str) -> Command | None:
    if name in COMMANDS and name not in _ROOMS:
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
    others = {point.name: f"from {point.value.partition(':')[0]}" for point in _entry_points()}
    others = {name: what for name, what in others.items() if name not in COMMANDS}
    groups = {**_GROUPS, "of other packages": others}
    for heading, group in groups.items():
        if group:
            lines += [f"{heading}:", *(f"  {name:<13} {what}" for name, what in group.items()), ""]
    lines += ["eosin COMMAND --help tells more."]
    return "\n".join(lines)


def _unknown(name: str, arguments: Sequence[str]) -> str:
    """The complaint about a command that there is not."""
    import shlex

    from eosin.cli.common.suggestions import did_you_mean, nearest

    meant = nearest(name.removesuffix(".sh"), COMMANDS, synonyms=_MEANT)
    line = meant and " ".join(["eosin", meant, *map(shlex.quote, arguments)])
    return f"eosin: no command {name!r}{did_you_mean(line)} (eosin --help lists all)"


if __name__ == "__main__":
    sys.exit(main())
