"""`python -m eosin.cli.kafka_programs NAME WORD...`: one of Kafka's programs, by its name with or without `.sh`.

Exit code 0 when it is done, 1 when it is not, with one sentence on stderr. Each program's module is loaded for itself,
because health checks run each second.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

_HERE: Final = "eosin.cli.kafka_programs"
_PROGRAMS: Final = {
    "kafka-topics": ("topics", "main"),
    "kafka-broker-api-versions": ("brokers", "api_versions"),
    "kafka-cluster": ("brokers", "cluster"),
    "kafka-console-producer": ("console", "produce"),
    "kafka-console-consumer": ("console", "consume"),
    "kafka-storage": ("storage", "main"),
    "kafka-configs": ("configs", "main"),
    "kafka-consumer-groups": ("groups", "main"),
    "zookeeper-server-start": ("zookeeper", "main"),
    "cub": ("brokers", "confluents_waiting"),
    "ub": ("brokers", "confluents_waiting"),
    "dub": ("brokers", "confluents_waiting"),
}
_INSTEAD: Final = {
    "kafka-acls": "eosin acls",
    "kafka-transactions": "eosin transactions",
    "kafka-delete-records": "eosin topics delete-records",
    "kafka-get-offsets": "eosin topics describe TOPIC",
    "kafka-log-dirs": "eosin topics describe TOPIC",
    "kafka-features": "eosin features",
    "kafka-metadata-quorum": "eosin cluster",
    "kafka-dump-log": "eosin dump-log",
    "kafka-leader-election": "",
    "kafka-reassign-partitions": "",
    "kafka-producer-perf-test": "",
    "kafka-consumer-perf-test": "",
    "kafka-verifiable-producer": "",
    "kafka-mirror-maker": "",
    "connect-distributed": "",
    "connect-standalone": "",
    "zookeeper-shell": "",
    "rpk": "",
}
"""Programs that are not there, and the command of Eosin that does the same."""
NAMES: Final = (*_PROGRAMS, *_INSTEAD, "zookeeper-server-stop", "kafka-server-stop")
"""All programs by their names without `.sh`; `docker/Dockerfile` links them."""


def main(arguments: Sequence[str]) -> int:
    """Run the program that is named first; returns its exit code."""
    name = os.path.basename(arguments[0]).removesuffix(".sh") if arguments else ""
    words = list(arguments[1:])
    if name == "kafka-server-stop":
        return _stop_server()
    if name == "zookeeper-server-stop":
        return 0
    if name not in _PROGRAMS:
        return _refuse(name)
    from eosin.cli.kafka_programs.queries import Unanswerable

    module, function = _PROGRAMS[name]
    program: Callable[[Sequence[str]], int] = getattr(import_module(f"{_HERE}.{module}"), function)
    try:
        return program(words)
    except Unanswerable as refused:
        print(f"{name}: {refused}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _refuse(name: str) -> int:
    if name not in _INSTEAD:
        print(f"there is no program {name!r} of Kafka in this image", file=sys.stderr)
    elif instead := _INSTEAD[name]:
        print(f"{name} is not in this image: {instead} does the same (eosin --help)", file=sys.stderr)
    else:
        print(f"{name} is not in this image, and Eosin has nothing in its place", file=sys.stderr)
    return 1


def _stop_server() -> int:
    """Ask the broker of this container to stop."""
    from eosin.cli.image.state import State

    pid = State(os.environ).pid
    if pid is None:
        print("No kafka server to stop", file=sys.stderr)
        return 1
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError as error:
        print(f"kafka-server-stop: cannot stop process {pid}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
