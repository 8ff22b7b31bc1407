"""The client suite against three Eosin brokers with three replicas of everything: `make cluster-clients`.

    python cluster_clients.py [options and files of pytest]

Where a scenario restarts its broker, the three are restarted here, one after the other. Those scenarios come first and
alone; the others may run side by side. Exits as the worse of the two runs of pytest.
"""

import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from asked_broker import ANOTHER, HOW, RESTART, STOPPED
from descendants import end_with_me
from three_brokers import ThreeBrokers
from toolchains import NotHere

ROOT: Final = Path(__file__).resolve().parents[2]
_NO_TESTS: Final = 5
"""pytest's exit code where nothing was chosen."""


class _Restarts(socketserver.TCPServer):
    """Restarts the brokers for each connection that says how; answers with nothing, or with what went wrong."""

    allow_reuse_address = True

    def __init__(self, cluster: ThreeBrokers) -> None:
        super().__init__(("127.0.0.1", 0), _Restart)
        self.cluster = cluster

    @property
    def command(self) -> str:
        """The command that a test process runs (`EOSIN_TEST_RESTART`)."""
        return f"{sys.executable} {__file__} --restart {self.server_address[1]}"


class _Restart(socketserver.StreamRequestHandler):
    server: _Restarts

    def handle(self) -> None:
        how = self.rfile.readline().decode().strip()
        try:
            self.server.cluster.roll(how)
        except AssertionError as failed:
            self.wfile.write(str(failed).encode())


def _restart(port: int) -> int:
    """As a test process: have the brokers restarted; 0 when they run again."""
    with socket.create_connection(("127.0.0.1", port)) as asked, asked.makefile("rw") as lines:
        lines.write(f"{os.environ.get(HOW, STOPPED)}\n")
        lines.flush()
        if wrong := lines.read():
            print(wrong, file=sys.stderr)
            return 1
    return 0


def _run(arguments: list[str], marks: str, environment: dict[str, str], workers: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal", "-m", marks, *arguments]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return 0 if code == _NO_TESTS else code


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments[:1] == ["--restart"]:
        return _restart(int(arguments[1]))
    end_with_me()
    with tempfile.TemporaryDirectory(prefix="eosin-cluster-clients-") as folder:
        try:
            made = ThreeBrokers(Path(folder))
        except NotHere as missing:
            print(missing, file=sys.stderr)
            return 2
        with made as cluster, _Restarts(cluster) as restarts:
            threading.Thread(target=restarts.serve_forever, daemon=True).start()
            environment = {
                **os.environ,
                ANOTHER: cluster.address,
                RESTART: restarts.command,
            }
            files = arguments if any(each.startswith("tests") for each in arguments) else [*arguments, "tests/clients"]
            workers = os.environ.get("CLIENT_WORKERS", "2")
            codes = [
                _run(files, "restarts and not full", environment, "1"),
                _run(files, "not restarts and not full", environment, workers),
            ]
            restarts.shutdown()
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
