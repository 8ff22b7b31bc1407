"""`eosin console`: the console's pages over any Kafka cluster, read-only, until Ctrl-C; with `--demo` the console of a
throwaway broker with traffic (console.md 7).

Exit code 0 after a clean stop; 2 with one sentence on stderr when it cannot start as asked. Always true: the HTTP
listener is on this machine alone; so are the broker and the clients of the demo, and its temporary directory is removed
at the end.
"""

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.remote_commands import add_connection, attempt
from eosin.cli.serve import CONSOLE_PORT, FAILED, OK, loop_factory, raise_file_limit, started, stop_on_signals
from eosin.node.configuration import load_config
from eosin.runtime.logging_format import setup_logging
from eosin.security.process import keep_files_private
from eosin.settings.broker import BrokerConfig
from eosin.settings.http import http_listener, is_loopback
from eosin.settings.listeners import parse_listeners
from eosin.settings.settings import SettingError

SETTINGS: Final = {
    "log.retention.bytes": str(16 * 1024 * 1024),
    "log.segment.bytes": str(4 * 1024 * 1024),
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "eosin.console.enable": "true",
    "eosin.log.level": "error",
}
"""A demo that is forgotten for days fills no disk; what it provokes is no warning to anybody."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    command = parser()
    options = command.parse_args(arguments)
    others = ("bootstrap_server", "command_config") if options.demo else ("listen",)
    for each in others:
        if getattr(options, each) != command.get_default(each):
            what = "has a broker of its own" if options.demo else "is for the broker of --demo"
            flag = "--demo" if options.demo else "--listen"
            beside = f"--{each.replace('_', '-')} is for another cluster" if options.demo else "there is none here"
            return fail("console", f"{flag} {what}: {beside}")
    try:
        listener = _loopback(options.listen)
        http = http_listener(options.http)
        if http is None or not is_loopback(http):
            raise SettingError(f"--http must be an address of this machine alone, not {options.http!r}")
    except SettingError as refused:
        return fail("console", str(refused))
    if not options.demo:
        from eosin.cli.cluster_console import show

        return attempt("console", lambda client: show(client, http, options), options)
    return _demo(listener, options.http)


def _demo(listener: str, http: str) -> int:
    keep_files_private()
    try:
        folder = Path(tempfile.mkdtemp(prefix="eosin-demo-"))
    except OSError as error:
        return fail("console", f"cannot make a temporary directory: {error.strerror}")
    try:
        flags = {"listeners": listener, "log.dirs": str(folder), "eosin.http.listener": http, **SETTINGS}
        config = load_config(flags=flags).config
        setup_logging(level=config.eosin_log_level, form=config.eosin_log_format)
        raise_file_limit()
        with asyncio.Runner(loop_factory=loop_factory(config.eosin_event_loop)) as runner:
            return runner.run(_show(config))
    except SettingError as refused:
        return fail("console", str(refused))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin console",
        description="Show any Kafka cluster in a browser, read-only, until Ctrl-C: transactions, what holds readers"
        " back, groups, topics, as far as Kafka's protocol tells. A broker of Eosin shows more of itself: eosin serve"
        " --console. With --demo: a throwaway broker on this machine, and clients that commit, abort, are fenced and"
        " run out of time.",
        examples=["eosin console --bootstrap-server kafka:9092", "eosin console --demo"],
    )
    options.add_argument("--demo", action="store_true", help="a broker of its own, with traffic")
    options.add_argument(
        "--http",
        metavar="[HOST:]PORT",
        default=str(CONSOLE_PORT),
        help=f"where the console is ({CONSOLE_PORT}; 0 takes a free port)",
    )
    options.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="where the demo's broker listens (a free port)"
    )
    add_connection(options)
    return options


def _loopback(text: str) -> str:
    """An address of this machine alone. Raises SettingError."""
    (found,) = parse_listeners([text], key="--listen")
    if found.name != "PLAINTEXT" or not is_loopback(found):
        raise SettingError(f"--listen must be an address of this machine alone, not {text!r}")
    return str(found)


async def _show(config: BrokerConfig) -> int:
    from eosin.cli.demo_traffic import DemoTraffic
    from eosin.client.errors import ClientError
    from eosin.node.node import Node
    from eosin.settings.start_error import StartError

    stop = stop_on_signals()
    with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop.set)
    try:
        server = await started(Node.alone(config), stop)
    except StartError as refused:
        return fail("console", str(refused))
    if server is None:
        return OK
    (address,) = server.addresses
    traffic = DemoTraffic(address, server.clock)
    lost: str | None = None
    try:
        await traffic.begin()
        assert server.observability is not None
        with contextlib.suppress(OSError):  # whoever reads it may be gone
            print(
                f"console: http://{server.observability.address}/\n"
                f"A broker at {address} with generated traffic, until Ctrl-C; its data goes with it. Try:\n"
                f"  eosin explain import-1 --bootstrap-server {address}",
                flush=True,
            )
        lost = await server.stopped(stop)
    except ClientError as error:
        lost = str(error)
    finally:
        await traffic.stop()
        is_clean = await server.shutdown()
    if lost is not None:
        return fail("console", lost, code=FAILED)
    return OK if is_clean else FAILED
