"""`eosin serve`: run a broker until SIGTERM or Ctrl-C.

Exit code 0 after a clean stop; 2 with one sentence on stderr when it cannot start as asked.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from argparse import SUPPRESS
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eosin.cli import __main__ as program
from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.standard_files import give_up
from eosin.node.configuration import load_config
from eosin.node.descriptors import LEAST_LIMIT, descriptor_limit
from eosin.runtime.logging_format import fields, setup_logging
from eosin.runtime.version import VERSION, is_compiled
from eosin.security.process import (
    UnsafeDirectory,
    check_directory,
    exposed,
    files_with_secrets,
    hide_memory,
    keep_files_private,
)
from eosin.settings.broker import DURABILITIES, BrokerConfig
from eosin.settings.listeners import parse_listeners
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig

if TYPE_CHECKING:
    from eosin.broker.security.first_users import FirstUser
    from eosin.node.node import Node
    from eosin.node.running import RunningNode
    from eosin.runtime.background import Background

log = logging.getLogger(__name__)

OK = 0
FAILED = 1
CONSOLE_PORT = 9100
"""The port of `--console`, if no setting gives an HTTP listener."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    try:
        loaded = configured(arguments)
    except SettingError as refused:
        return fail("serve", str(refused))
    config = loaded.config
    try:
        first_users = _first_users(arguments, config)
    except SettingError as refused:
        return fail("serve", str(refused))
    setup_logging(level=config.eosin_log_level, form=config.eosin_log_format)
    for warning in loaded.warnings:
        log.warning(warning)
    if any("password=" in word for word in arguments):
        log.warning(
            "everybody on this machine sees the password in the command line: use --add-scram-file for users, and"
            " --config for settings"
        )
    for warning in _exposed(arguments, config):
        log.warning(warning)
    keep_files_private()
    try:
        for warning in check_directory(config.data_dir) if config.data_dir is not None else ():
            log.warning(warning)
    except UnsafeDirectory as refused:
        return fail("serve", str(refused))
    if config.has_secured_links or any(protocol != "PLAINTEXT" for protocol in config.protocols.values()):
        hide_memory()
    raise_file_limit()
    limit = descriptor_limit()
    if limit is not None and limit < LEAST_LIMIT:
        return fail(
            "serve", f"the limit on open files is {limit}, and a broker needs {LEAST_LIMIT}: raise it (ulimit -n)"
        )
    with asyncio.Runner(loop_factory=loop_factory(config.eosin_event_loop)) as runner:
        return runner.run(_serve(config, first_users))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin serve",
        description="Run a broker until SIGTERM or Ctrl-C.",
        examples=[
            "eosin serve --data-dir data",
            "eosin serve --durability memory --listen 127.0.0.1:0",
            "eosin serve --config server.properties --listen 0.0.0.0:9092 --advertise broker.example:9092",
        ],
    )
    listen = "[NAME=]HOST:PORT"
    options.add_argument(
        "--listen", action="append", metavar="[NAME=][HOST:]PORT", help="listen here; may be repeated (127.0.0.1:9092)"
    )
    options.add_argument(
        "--advertise", action="append", metavar=listen, help="tell clients of that listener this address"
    )
    options.add_argument("--port", dest="listen", action="append", help=SUPPRESS)  # as other servers have it
    options.add_argument("--data-dir", metavar="DIR", help="where logs are kept (data)")
    options.add_argument("--durability", choices=DURABILITIES, help="what an acknowledged write has survived (fsync)")
    options.add_argument("--cluster-id", metavar="ID", help="the cluster that an empty data directory is formatted for")
    options.add_argument(
        "--add-scram",
        action="append",
        metavar="USER",
        default=[],
        help="a user for a broker that has none, as SCRAM-SHA-512=[name=NAME,password=...]; may be repeated",
    )
    options.add_argument("--add-scram-file", metavar="FILE", help="the same, one a line")
    options.add_argument("--config", metavar="FILE", help="a properties file with Kafka's names")
    options.add_argument(
        "--set", action="append", metavar="NAME=VALUE", default=[], help="set one setting; may be repeated"
    )
    options.add_argument("--http", metavar="[HOST:]PORT", help="health, metrics and explanations over HTTP (off)")
    options.add_argument(
        "--console",
        action="store_true",
        help=f"the live console in a browser, at --http or 127.0.0.1:{CONSOLE_PORT}",
    )
    options.add_argument(
        "--console-actions", action="store_true", help="let the console end transactions; needs eosin.http.token.file"
    )
    options.add_argument(
        "--allow-open",
        action="store_true",
        help="listen beyond this machine without asking anybody for a proof of who it is",
    )
    options.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="how much is logged (info)")
    options.add_argument("--loop", choices=("auto", "uvloop", "asyncio"), help="the event loop (auto)")
    return options


def configured(arguments: Sequence[str]) -> LoadedConfig:
    """The settings that a command line makes, with those of its `--config`. Raises SettingError."""
    options = parser().parse_args(arguments)
    flags = {
        "listeners": _listeners("--listen", options.listen),
        "advertised.listeners": _listeners("--advertise", options.advertise),
        "log.dirs": options.data_dir,
        "eosin.durability": options.durability,
        "eosin.cluster.id": options.cluster_id,
        "eosin.http.listener": options.http,
        "eosin.console.enable": "true" if options.console else None,
        "eosin.console.actions.enable": "true" if options.console_actions else None,
        "eosin.allow.open.listeners": "true" if options.allow_open else None,
        "eosin.log.level": options.log_level,
        "eosin.event.loop": options.loop or os.environ.get("EOSIN_LOOP"),
    }
    if options.data_dir is not None and "," in options.data_dir:
        raise SettingError(f"--data-dir must be one directory without a comma in its name, not {options.data_dir!r}")
    properties = _read(options.config) if options.config is not None else ""
    if options.console:  # what the file or --set says comes later, and counts
        properties = f"eosin.http.listener={CONSOLE_PORT}\n{properties}"
    return load_config(
        properties=properties,
        assignments=options.set,
        flags={key: text for key, text in flags.items() if text is not None},
    )


def _first_users(arguments: Sequence[str], config: BrokerConfig) -> "Sequence[FirstUser]":
    """The users that a command line names. Raises SettingError."""
    options = parser().parse_args(arguments)
    if not options.add_scram and options.add_scram_file is None:
        return ()
    from eosin.broker.security.first_users import parse_first_user, users_in_file

    if config.is_joined:
        raise SettingError("--add-scram is for a broker that runs alone: the controllers keep the users of this one")
    users = [parse_first_user(text, key="--add-scram") for text in options.add_scram]
    if options.add_scram_file is not None:
        users += users_in_file(options.add_scram_file, key="--add-scram-file")
    return users


def _exposed(arguments: Sequence[str], config: BrokerConfig) -> Iterable[str]:
    """Warnings about files with secrets that others may read."""
    options = parser().parse_args(arguments)
    paths = [each for each in (config.eosin_http_token_file, options.add_scram_file) if each]
    if options.config is not None:
        paths += files_with_secrets(_read(options.config), options.config)
    return exposed(paths)


def _listeners(flag: str, texts: Sequence[str] | None) -> str | None:
    if texts is None:
        return None
    addresses = [f"127.0.0.1:{text}" if text.isdecimal() else text for text in texts]  # a port alone is on this machine
    return ",".join(str(listener) for listener in parse_listeners(addresses, key=flag))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"cannot read the config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"cannot read the config file {path}: it is not UTF-8 text") from None


def loop_factory(choice: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of the event loop by `eosin.event.loop`; None for asyncio's own."""
    if choice == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if choice == "uvloop":
            log.warning("uvloop is not installed; running on asyncio's own loop")
        return None
    return uvloop.new_event_loop


async def _serve(config: BrokerConfig, first_users: "Sequence[FirstUser]") -> int:
    from eosin.node.node import Node
    from eosin.settings.start_error import StartError

    stop = stop_on_signals()
    try:
        server = await started(Node.of(config, first_users=first_users), stop)
    except StartError as refused:
        return fail("serve", str(refused))
    if server is None:
        return OK
    if server.has_certificates:
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no such signal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload)
    # What start-up built stays for good; without it a full collection has less to walk.
    server.services.partitions.freeze()
    http = "" if server.observability is None else server.observability.address
    line = ready_line(config, server.addresses, _seconds_since_start(), http=http, is_open=server.is_open)
    _say(
        line
        + (
            f"\nconsole: {'https' if config.eosin_http_ssl_enable else 'http'}://{http}/"
            if config.eosin_console_enable
            else ""
        )
    )
    background = _background()
    lost = await server.stopped(stop)
    await background.stop()
    if lost is not None:
        log.error(lost)
    return OK if await server.shutdown() and lost is None else FAILED


SWITCH_INTERVAL_S: Final = 0.0005
"""The event loop waits so long for a thread that computes, each time that it has something to do: ten such waits are in
a transaction. The interpreter's own 5 ms are meant for threads that are equal."""


def _background() -> "Background":
    """Work that concerns the process, whatever is served in it."""
    from eosin.node.freed_memory import CHECK_MS, FreedMemory
    from eosin.node.full_collections import COLLECT_MS, FullCollections
    from eosin.runtime.background import Background
    from eosin.runtime.clock import SystemClock

    background = Background(SystemClock())
    memory = FreedMemory.of_this_process()
    if memory is not None:
        background.every(CHECK_MS, "the look at freed memory", memory.check)
    background.every(COLLECT_MS, "the full garbage collection", FullCollections.of_this_process().check)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return background


def _say(line: str) -> None:
    """Print for whoever reads it: a broker serves without that, too."""
    try:
        print(line, flush=True)
    except OSError as error:
        log.warning("cannot write to standard output, %s: %s", error.strerror, line)
        give_up(sys.stdout)


def ready_line(
    config: BrokerConfig, addresses: Sequence[str], seconds: float, *, http: str = "", is_open: bool = False
) -> str:
    """The line that is printed when requests are accepted. `is_open`: others may read and write without a proof."""
    also = (f", {'https' if config.eosin_http_ssl_enable else 'http'} {http}" if http else "") + (
        ", open" if is_open else ""
    )
    where = (
        f"data {config.data_dir or 'none'}, durability {config.durability}{', compiled' if is_compiled() else ''}{also}"
    )
    return f"eosin {VERSION} ready on {', '.join(addresses)} in {seconds:.2f} s ({where})"


async def started(node: "Node", stop: asyncio.Event) -> "RunningNode | None":
    """Start the broker; None if `stop` is set meanwhile. Raises StartError."""
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
    try:
        return await starting
    except asyncio.CancelledError:
        return None


def stop_on_signals() -> asyncio.Event:
    """Set by SIGTERM and Ctrl-C, of which a second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        log.info("stopping", extra=fields(signal=signal.Signals(number).name))
        stop.set()
        # A second signal ends the process at once.
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(number, on_signal, number)
    return stop


def raise_file_limit() -> None:
    """A log has several files and a connection one; the usual soft limit of 1024 is soon too few."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        log.warning("cannot raise the limit on open files from %d: %s", soft, error)


def _seconds_since_start() -> float:
    """Seconds since this process was started, including the interpreter's start where the system knows it."""
    with contextlib.suppress(OSError, IndexError, ValueError, AttributeError):
        # Field 22 of proc(5), counted behind the command's name, which may hold spaces and brackets.
        began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - program.IMPORTED_AT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
