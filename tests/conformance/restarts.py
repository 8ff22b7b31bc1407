"""Restarts of brokers that another process has started: it listens on a socket of this machine, and test processes ask
it with a command, `python -m conformance.restarts SOCKET NAME`; EOSIN_RESTART_HOW says how the broker is to end.
"""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Final, Protocol

from asked_broker import HOW, KILLED, STOPPED
from waiting import HANG_S

_DONE: Final = ""


class Node(Protocol):
    """A broker process: what ends it, and what starts it again with its files and ports."""

    def stop(self) -> None:
        """Cleanly."""

    def kill(self) -> None:
        """Without notice."""

    def start(self) -> object:
        """Again, until it serves."""


@contextmanager
def listening(socket: Path, nodes: Mapping[str, Node]) -> Iterator[Mapping[str, str]]:
    """The command that restarts each of the nodes, as long as this lasts."""
    with Listener(str(socket), "AF_UNIX") as listener:
        thread = threading.Thread(target=_serve, args=(listener, nodes), daemon=True)
        thread.start()
        command = [sys.executable, "-m", "conformance.restarts", str(socket)]
        yield {name: shlex.join([*command, name]) for name in nodes}
        with suppress(OSError), Client(str(socket), "AF_UNIX") as last:
            last.send(None)
        thread.join(HANG_S)


def _serve(listener: Listener, nodes: Mapping[str, Node]) -> None:
    while True:
        with listener.accept() as connection:
            asked = connection.recv()
            if asked is None:
                return
            connection.send(_restarted(nodes[asked[0]], asked[1]))


def _restarted(node: Node, how: str) -> str:
    try:
        if how == KILLED:
            node.kill()
        else:
            node.stop()
        node.start()
    except (AssertionError, OSError, subprocess.SubprocessError) as failure:
        return f"{failure!r}"
    return _DONE


def main(socket: str, name: str) -> int:
    """Have one restarted."""
    with Client(socket, "AF_UNIX") as connection:
        connection.send((name, os.environ.get(HOW, STOPPED)))
        told = str(connection.recv())
    print(told, file=sys.stderr)
    return int(told != _DONE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
