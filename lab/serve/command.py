"""`eosin lab`: a broker of the lab with its control API, until SIGTERM, Ctrl-C or the end of standard input.

Always true: it keeps nothing but what `--disk DIR` names; exit code 0 after a stop, 2 with one sentence when it cannot
start as asked. A first word may be the name of another command of the lab.
"""

import argparse
import asyncio
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.suggestions import did_you_mean, nearest
from eosin.cli.start_time import seconds_since_start
from eosin.lab.broker import ThreadedBroker
from eosin.lab.command import LISTEN, add_broker_options, options_in
from eosin.lab.common.errors import LabError, PortTakenError
from eosin.lab.history.recording import LEVELS, PROTOCOL
from eosin.lab.network.lab_network import LinkMatch
from eosin.lab.options import FLOWING, FROZEN, BrokerOptions, checked_snapshot
from eosin.runtime.clock import SystemClock
from eosin.runtime.logging_format import setup_logging
from eosin.runtime.version import VERSION

if TYPE_CHECKING:
    from eosin.lab.http.application import ControlApplication
    from eosin.node.observability import MountedHttp
    from eosin.observe.http.host import HttpHost

COMMAND: Final = "lab"
PROG: Final = "eosin lab"
OTHERS: Final[dict[str, str]] = {
    **dict.fromkeys(("run", "certify", "scenarios"), "eosin.lab.run.command"),
    "replay": "eosin.lab.run.replay_command",
}
"""Commands that follow `eosin lab`, by the module that has their `main`."""
OK: Final = 0
TOKEN: Final = "EOSIN_LAB_TOKEN"  # the variable's name
ALLOWED_HOSTS: Final = "EOSIN_HTTP_ALLOWED_HOSTS"
CONTROL: Final = "127.0.0.1:9644"
ADVERTISED: Final = "advertised.listeners"
OPEN: Final = "eosin.allow.open.listeners"
EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "[::]"})
_STDIN: Final = 0


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    if arguments and arguments[0] in OTHERS:
        run: Callable[[Sequence[str]], int] = import_module(OTHERS[arguments[0]]).main
        return run(arguments)
    if arguments and not arguments[0].startswith("-"):
        meant = nearest(arguments[0], OTHERS)
        hint = did_you_mean(meant and f"{PROG} {meant}") or f"; there are {', '.join(OTHERS)}"
        return fail(COMMAND, f"no command {arguments[0]!r}{hint} ({PROG} --help)")
    chosen = parser().parse_args(arguments)
    try:
        options = lab_options(chosen)
        control = _control_socket(chosen.control)
    except LabError as refused:
        return fail(COMMAND, str(refused))
    setup_logging(level="warning", form="text")
    try:
        return asyncio.run(_serve(options, chosen, control))
    except PortTakenError as taken:
        return fail(COMMAND, taken.with_option(LISTEN))
    except LabError as refused:
        return fail(COMMAND, str(refused))
    finally:
        control.close()


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog=PROG,
        description="Run a broker for tests in any language, with scripted faults, a clock that jumps, crashes and a"
        " history, by HTTP (docs/lab.md). `eosin lab run` takes an application through incidents, and judges it;"
        " `eosin lab replay` repeats"
        " a run; `eosin lab certify` makes a scorecard of it; `eosin lab scenarios` lists them.",
        examples=[
            "eosin lab --topics orders:3",
            "eosin lab run -- python my_app.py",
            "eosin lab --control 0 --ready-file lab.address",
            "curl -X POST -H 'Content-Type: application/json' -d '{\"minutes\": 1}'"
            " http://127.0.0.1:9644/lab/v1/clock/advance",
        ],
    )
    add_broker_options(options)
    options.add_argument(
        "--control", metavar="[HOST:]PORT", default=CONTROL, help=f"serve the control API here ({CONTROL}; 0: any)"
    )
    options.add_argument("--token", metavar="TEXT", help=f"demand it from clients of the control API ({TOKEN})")
    options.add_argument("--clock", choices=(FLOWING, FROZEN), default=FLOWING, help="let time flow, or stand still")
    options.add_argument("--clock-at", type=int, metavar="MS", help="begin at this time, in ms since the epoch")
    options.add_argument("--record", choices=LEVELS, default=PROTOCOL, help=f"what the history keeps ({PROTOCOL})")
    options.add_argument(
        "--advertise-later",
        action="store_true",
        help="let clients wait until PUT /lab/v1/advertise has the address that they reach (a container's mapped port)",
    )
    ready = options.add_mutually_exclusive_group()
    ready.add_argument(
        "--ready-fd", type=int, metavar="N", help="write HOST:PORT and the control API's URL to this descriptor"
    )
    ready.add_argument("--ready-file", metavar="FILE", help="write them to this file when ready, a line each")
    options.add_argument(
        "--until-stdin-ends", action="store_true", help="end with the program at the other end of standard input"
    )
    return options


def lab_options(chosen: argparse.Namespace) -> BrokerOptions:
    """The options of the broker that were chosen. Raises LabError."""
    host, _, port = chosen.listen.rpartition(":")
    is_told = any(each.startswith(f"{ADVERTISED}=") for each in chosen.set)
    if chosen.advertise_later and host in EVERY_ADDRESS and not is_told:
        # Nobody is told this one: who comes before the PUT waits.
        chosen.set = [*chosen.set, f"{ADVERTISED}=PLAINTEXT://localhost:{port}"]
    if host in EVERY_ADDRESS and not any(each.startswith(f"{OPEN}=") for each in chosen.set):
        chosen.set = [*chosen.set, f"{OPEN}=true"]  # it keeps nothing, and whoever tests has said so
    return options_in(chosen)


def _control_socket(text: str) -> socket.socket:
    """The bound socket of the control API. Raises LabError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if colon else "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise LabError(f"--control is [HOST:]PORT, not {text!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, int(port)))
        bound.listen()
    except OSError as error:
        bound.close()
        raise LabError(f"cannot listen on {text}: {error.strerror}; --control 0 takes a free port") from None
    return bound


async def _serve(options: BrokerOptions, chosen: argparse.Namespace, control: socket.socket) -> int:
    """Serve until somebody stops it. Raises LabError."""
    token = chosen.token or os.environ.get(TOKEN) or None
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    mounted = _mounted(control)
    held = await ThreadedBroker(options, checked_snapshot(chosen.snapshot), http=mounted).start_async()
    if chosen.advertise_later:
        held.broker.network.partition(LinkMatch(), refuse=False)
    try:
        host, application = _http_host(held, mounted, control, token)
        await host.start()
        try:
            _report_ready(held, control, chosen)
            if chosen.until_stdin_ends:
                loop.add_reader(_STDIN, _read_on, loop, stop)
            await stop.wait()
        finally:
            application.close()
            await host.stop()
    finally:
        await held.close_async()
    return OK


def _mounted(control: socket.socket) -> "MountedHttp":
    """The place for the broker's metrics and its console. Raises LabError."""
    try:
        import eosin.observe.http.application
        import eosin.observe.http.host
        import eosin.observe.metrics.exposition  # noqa: F401
    except ImportError:
        raise LabError("the control API needs eosin[http]: pip install 'eosin[http]'") from None
    from eosin.node.observability import MountedHttp
    from eosin.observe.console.sessions import Sessions

    host, port = control.getsockname()[:2]
    return MountedHttp(_address(host, port), Sessions(SystemClock(), port=str(port)))


def _address(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _http_host(
    held: ThreadedBroker, mounted: "MountedHttp", control: socket.socket, token: str | None
) -> "tuple[HttpHost, ControlApplication]":
    """The server of the control API, and the API."""
    from eosin.lab.http.application import BASE, ControlApplication
    from eosin.lab.http.broker_http import BrokerHttp
    from eosin.lab.http.hosts import Lab
    from eosin.observe.http.guard import Advice, Guard
    from eosin.observe.http.host import HttpHost

    address = control.getsockname()[0]
    if token is None and not ipaddress.ip_address(address).is_loopback:
        print(
            f"eosin lab: everybody who reaches {address} controls this broker: --token keeps others out",
            file=sys.stderr,
        )
    application = ControlApplication(Lab(held), BrokerHttp(held, mounted))
    guard = Guard(
        application,
        clock=SystemClock(),
        allowed_hosts=[each.strip() for each in os.environ.get(ALLOWED_HOSTS, "").split(",") if each.strip()],
        token=token,
        knows_session=mounted.sessions.knows,
        advice=Advice(f"the token of --token or {TOKEN}", f"add the name to {ALLOWED_HOSTS}", BASE),
    )
    return HttpHost(guard, control), application


def _report_ready(held: ThreadedBroker, control: socket.socket, chosen: argparse.Namespace) -> None:
    """Report the addresses to whoever waits. Raises LabError."""
    host, port = control.getsockname()[:2]
    url = f"http://{_address(host, port)}/lab/v1"
    bootstrap, options = held.broker.bootstrap, held.broker.options
    text = f"{bootstrap}\n{url}\n"
    try:
        if chosen.ready_fd is not None:
            os.write(chosen.ready_fd, text.encode())
            os.close(chosen.ready_fd)
        elif chosen.ready_file is not None:
            path = Path(chosen.ready_file)
            written = path.with_name(f"{path.name}.{os.getpid()}")
            written.write_text(text)
            written.replace(path)
    except OSError as error:
        raise LabError(f"cannot say that it is ready: {error.strerror}") from None
    print(
        f"eosin {VERSION} LAB ready on {bootstrap}, control {url} in {seconds_since_start():.2f} s"
        f" ({options.disk} disk, behaviour {options.behaviour}, seed {held.broker.rules.seed})",
        flush=True,
    )


def _read_on(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stop when standard input ends."""
    if not os.read(_STDIN, 4096):
        loop.remove_reader(_STDIN)
        stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
