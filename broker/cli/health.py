"""`eosin health`: exit code 0 when a broker at the address answers, 1 when none does. For container health checks."""

import socket
import struct
from collections.abc import Sequence
from contextlib import closing

from eosin.broker.cli.arguments import Parser, fail
from eosin.broker.listeners import parse_listener
from eosin.broker.settings import SettingError

# ApiVersions version 0 with correlation id 1 and no client id: every broker ever released answers it.
_QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        listener = parse_listener(options.address, key="the address")
    except SettingError as refused:
        return fail("health", str(refused))
    try:
        with closing(socket.create_connection((listener.host or "127.0.0.1", listener.port), options.timeout)) as peer:
            peer.sendall(_QUESTION)
            answer = b""
            while len(answer) < 10:
                piece = peer.recv(4096)
                if not piece:
                    return fail("health", f"{options.address} closed the connection", code=1)
                answer += piece
    except OSError as error:
        return fail("health", f"no answer from {options.address}: {error.strerror or error}", code=1)
    _, correlation_id, error_code = struct.unpack_from(">iih", answer)
    if correlation_id != 1 or error_code not in (0, 35):
        return fail("health", f"{options.address} answers, but not as a broker", code=1)
    print(f"{options.address} answers")
    return 0


def parser() -> Parser:
    """The options of the command."""
    options = Parser(prog="eosin health", description="Tell by the exit code whether a broker answers.")
    options.add_argument("address", nargs="?", default="127.0.0.1:9092", metavar="HOST:PORT")
    options.add_argument("--timeout", type=float, default=3.0, metavar="SECONDS", help="how long to wait (3)")
    return options
