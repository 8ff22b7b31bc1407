"""Ask the cluster that a Kafka program names: its address, its settings of a client, and exit codes as Kafka's."""

import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from eosin.cli.common.remote_commands import attempt
from eosin.cli.image.state import State
from eosin.cli.kafka_programs.words import Words
from eosin.client.client import Client

TIMEOUT_S: Final = 10.0


class Unanswerable(Exception):
    """The words cannot be carried out; the message is one sentence."""


def server(words: Words) -> str:
    """The brokers to ask. For `--zookeeper` that is the broker of this container. Raises Unanswerable."""
    named = words.one("bootstrap-server", "broker-list", "b", "bootstrap-controller")
    if named:
        return named
    if words.has("zookeeper", "z"):
        found = State(os.environ).listeners
        if found:
            return found[0].address
        raise Unanswerable("there is no ZooKeeper here; give the broker with --bootstrap-server HOST:PORT")
    raise Unanswerable("give the broker with --bootstrap-server HOST:PORT")


def options_of(words: Words, *, timeout_s: float = TIMEOUT_S) -> Namespace:
    """The connection that the words describe. Raises Unanswerable."""
    config = words.one("command-config", "consumer.config", "producer.config", "c") or None
    return Namespace(bootstrap_server=server(words), timeout=timeout_s, command_config=config)


def query(
    program: str,
    words: Words,
    question: Callable[[Client], Awaitable[Sequence[str]]],
    *,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Print the lines that the question comes back with; the exit code, 1 for whatever went wrong."""
    lines: Sequence[str] = ()

    async def work(client: Client) -> int:
        nonlocal lines
        lines = await question(client)
        return 0

    if attempt(program, work, options_of(words, timeout_s=timeout_s)):
        return 1
    for line in lines:
        print(line)
    sys.stdout.flush()
    return 0
