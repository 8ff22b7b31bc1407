"""`eosin serve`: run a broker until SIGTERM or Ctrl-C.

Exit code 0 after a clean stop; 2 with one sentence on stderr when it cannot start as asked.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from argparse import SUPPRESS
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.standard_files import give_up
from eosin.cli.image.state import VARIABLE, State
from eosin.cli.start_time import seconds_since_start
from eosin.node.configuration import load_config
from eosin.node.descriptors import LEAST_LIMIT, descriptor_limit
from eosin.runtime.logging_format import fields, setup_logging
from eosin.runtime.small_objects import keep_one_heap
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
from eosin.settings.listeners import EVERY_LISTENER, parse_listeners
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import is_lab_directory

if TYPE_CHECKING:
    from eosin.broker.security.first_users import FirstUser
    from eosin.cli.image.state import OpenListener
    from eosin.node.node import Node
    from eosin.node.running import RunningNode
    from eosin.runtime.background import Background
    from eosin.settings.environment.translation import Translation
    from eosin.settings.first_topics import FirstTopic

log = logging.getLogger(__name__)

OK = 0
FAILED = 1
CONSOLE_PORT = 9100
"""The port of `--console`, if no setting gives an HTTP listener."""


class _Broker(NamedTuple):
    """The broker that a command line asks for."""

    config: BrokerConfig
    first_users: "Sequence[FirstUser]"
    first_topics: "Sequence[FirstTopic]"
    in_image: bool
    """True if it stands in for Kafka in a container (`--environment`)."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        loaded = configured(arguments)
        config = loaded.config
        first_users = _first_users(arguments, loaded)
        setup_logging(level=config.eosin_log_level, form=config.eosin_log_format)
        topics = _first_topics(options.topics, loaded)
        for note in loaded.notes:
            log.info(note)
        for warning in (*loaded.warnings, *_exposed(arguments, config)):
            log.warning(warning)
        if options.print_config:
            return _print_config(loaded, topics)
        keep_files_private()
        in_container = options.environment or VARIABLE in os.environ
        if in_container:
            config = _in_container(config)
    except SettingError as refused:
        return fail("serve", str(refused))
    if any("password=" in word for word in arguments):
        log.warning(
            "everybody on this machine sees the password in the command line: use --add-scram-file for users, and"
            " --config for settings"
        )
    try:
        for warning in check_directory(config.data_dir) if config.data_dir is not None else ():
            log.warning(warning)
    except UnsafeDirectory as refused:
        if not in_container:
            return fail("serve", str(refused))
        log.warning(str(refused))  # volumes of containers often belong to somebody else, and Kafka would start
    if config.data_dir is not None and _is_for_tests(config.data_dir):
        return fail(
            "serve", f"the data directory {config.data_dir} is that of a broker for tests: name another with --data-dir"
        )
    if config.has_secured_links or any(protocol != "PLAINTEXT" for protocol in config.protocols.values()):
        hide_memory()
    raise_file_limit()
    keep_one_heap()
    limit = descriptor_limit()
    if limit is not None and limit < LEAST_LIMIT:
        return fail(
            "serve", f"the limit on open files is {limit}, and a broker needs {LEAST_LIMIT}: raise it (ulimit -n)"
        )
    with asyncio.Runner(loop_factory=loop_factory(config.eosin_event_loop)) as runner:
        return runner.run(_serve(_Broker(config, first_users, topics, options.environment)))


def _is_for_tests(data_dir: str) -> bool:
    try:
        return is_lab_directory(Path(data_dir, META_PROPERTIES).read_bytes())
    except OSError:
        return False


def _in_container(config: BrokerConfig) -> BrokerConfig:
    """Get the data directory of a container ready; the settings that fit it. Raises SettingError."""
    from eosin.cli.image.surroundings import kept_cluster_id, prepare

    if config.data_dir is None:
        return config
    prepare(config.data_dir)
    kept = kept_cluster_id(config.data_dir)
    if config.is_joined or config.eosin_cluster_id is None or kept in (None, config.eosin_cluster_id):
        return config
    log.warning(
        "the data directory %s belongs to cluster %s, which stays its id; the variable says %s",
        config.data_dir,
        kept,
        config.eosin_cluster_id,
    )
    return replace(config, eosin_cluster_id=None)


def _print_config(loaded: LoadedConfig, topics: "Sequence[FirstTopic]") -> int:
    from eosin.cli.image.printed_settings import printed_settings

    for line in printed_settings(loaded, topics):
        print(line)
    return OK


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
    options.add_argument(
        "--advertise-later",
        action="append",
        nargs="?",
        const=EVERY_LISTENER,
        metavar="NAME",
        help="let clients of that listener, or of all, wait until PUT /api/v1/advertise tells their address (--http)",
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
    options.add_argument(
        "--topics",
        metavar="NAME[:PARTITIONS],...",
        help="topics to make before the broker is ready, unless they are there",
    )
    _add_sources(options)
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


def _add_sources(options: Parser) -> None:
    """The options that say where settings come from."""
    options.add_argument("--config", metavar="FILE", help="a properties file with Kafka's names")
    options.add_argument(
        "--environment",
        action="store_true",
        help="stand in for Kafka in a container: its images' variables (KAFKA_...) are settings, too (docs/image.md)",
    )
    options.add_argument(
        "--set", action="append", metavar="NAME=VALUE", default=[], help="set one setting; may be repeated"
    )
    options.add_argument("--override", dest="set", action="append", help=SUPPRESS)  # as kafka-server-start.sh has it
    options.add_argument(
        "--print-config", action="store_true", help="print every setting and where its value comes from, and end"
    )


def configured(arguments: Sequence[str], variables: Mapping[str, str] = os.environ) -> LoadedConfig:
    """The settings that a command line makes, with those of its `--config`, and with `--environment` those of
    `variables`. Raises SettingError."""
    options = parser().parse_args(arguments)
    flags = {
        "listeners": _listeners("--listen", options.listen),
        "advertised.listeners": _listeners("--advertise", options.advertise),
        "eosin.advertise.later": ",".join(options.advertise_later) if options.advertise_later else None,
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
    environment, file, volume = (
        _container(options.config, variables) if options.environment else (None, options.config, "")
    )
    properties = _read(file) if file is not None else ""
    if environment is not None:
        environment = _with_directory(
            environment, volume, properties, [options.data_dir, options.durability, *options.set]
        )
    if options.console:  # what the file or --set says comes later, and counts
        properties = f"eosin.http.listener={CONSOLE_PORT}\n{properties}"
    return load_config(
        properties=properties,
        environment=environment,
        assignments=options.set,
        flags={key: text for key, text in flags.items() if text is not None},
    )


def _container(config: str | None, variables: Mapping[str, str]) -> "tuple[Translation, str | None, str]":
    """The settings of the container's variables, the file of settings, and the directory of its volume. Raises
    SettingError."""
    from eosin.cli.image.surroundings import surroundings

    around = surroundings(variables, config_file=config)
    return around.translation, around.config_file, around.data_dir


def _with_directory(
    environment: "Translation", volume: str, properties: str, words: Sequence[str | None]
) -> "Translation":
    """Keep data in the container's volume, unless a setting or one of the `words` typed says otherwise."""
    from eosin.protocol.properties import parse_properties

    named = {key for key, _ in parse_properties(properties)} & {"log.dirs", "log.dir"}
    said = [*(word or "" for word in words), *(f"{key}={text}" for key, text in environment.settings.items())]
    said += [f"{key}={text}" for key, text in parse_properties(properties)]
    if named or words[0] or any(each in ("memory", "eosin.durability=memory") for each in said):
        return environment
    if any(each.startswith(("log.dirs=", "log.dir=")) for each in said):
        return environment
    return replace(
        environment,
        settings={**environment.settings, "log.dirs": volume},
        origins={**environment.origins, "log.dirs": "volume"},
    )


def _first_topics(text: str | None, loaded: LoadedConfig) -> "Sequence[FirstTopic]":
    """The topics to make, those of the command line over the container's. Raises SettingError."""
    if text is not None:
        from eosin.settings.first_topics import parse_first_topics

        if loaded.config.is_joined:
            raise SettingError("--topics is for a broker that runs alone: use eosin topics create for a cluster")
        return parse_first_topics(text, key="--topics")
    if loaded.topics and loaded.config.is_joined:
        log.warning("the topics of KAFKA_CREATE_TOPICS are not made by a broker that joins a cluster")
        return ()
    return loaded.topics


def _first_users(arguments: Sequence[str], loaded: LoadedConfig) -> "Sequence[FirstUser]":
    """The users that a command line names, and those of a container. Raises SettingError."""
    options = parser().parse_args(arguments)
    config, of_container = loaded.config, list(loaded.users)
    if options.environment:
        of_container = [] if config.is_joined else [*of_container, *State(os.environ).users]
    if not options.add_scram and options.add_scram_file is None and not of_container:
        return ()
    from eosin.broker.security.first_users import parse_first_user, users_in_file

    if config.is_joined:
        raise SettingError("--add-scram is for a broker that runs alone: the controllers keep the users of this one")
    users = [parse_first_user(text, key="--add-scram") for text in options.add_scram]
    if options.add_scram_file is not None:
        users += users_in_file(options.add_scram_file, key="--add-scram-file")
    return [*users, *(parse_first_user(text, key="a user of the container") for text in of_container)]


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


async def _serve(broker: _Broker) -> int:
    from eosin.node.node import Node
    from eosin.settings.start_error import StartError

    _collect_again()
    config = broker.config
    stop = stop_on_signals()
    _leave_word(())
    if broker.in_image:
        from eosin.cli.image.readiness import BEGINNING

        _say(BEGINNING)
    try:
        node = Node.of(config, first_users=broker.first_users, first_topics=broker.first_topics)
        server = await started(node, stop)
    except StartError as refused:
        return fail("serve", str(refused))
    if server is None:
        return OK
    if server.has_certificates:
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no such signal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload)
    # What start-up built stays for good; without it a full collection has less to walk.
    server.services.partitions.freeze()
    background = _background()
    http = "" if server.observability is None else server.observability.address
    line = ready_line(config, server.addresses, seconds_since_start(), http=http, is_open=server.is_open)
    if config.eosin_console_enable:
        line += f"\nconsole: {'https' if config.eosin_http_ssl_enable else 'http'}://{http}/"
    _say(line)
    if broker.in_image:
        from eosin.cli.image.advertised import follow_changes

        follow_changes(server, os.environ)
        await _loaded(server, stop)
    if VARIABLE in os.environ:
        from eosin.cli.image.readiness import open_listeners

        _leave_word(open_listeners(config, server.addresses))
    if broker.in_image:
        from eosin.cli.image.readiness import ready_lines

        _say("\n".join(ready_lines(config.node_id)))
    lost = await server.stopped(stop)
    await background.stop()
    if lost is not None:
        log.error(lost)
    return OK if await server.shutdown() and lost is None else FAILED


def _collect_again() -> None:
    """The garbage collector has rested since the program began (`__main__`): its rounds through what is being imported
    took a tenth of a start, and found next to nothing."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


async def _loaded(server: "RunningNode", stop: asyncio.Event) -> None:
    """Wait for the coordinators, so that the first transaction of whoever waits for the container begins at once."""
    waits = [asyncio.ensure_future(each) for each in (server.loading.ended(), stop.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


def _leave_word(listeners: "Sequence[OpenListener]") -> None:
    """Say to the health checks of this container where the broker listens; nowhere else anything is kept."""
    if VARIABLE in os.environ:
        State(os.environ).keep_listeners(listeners)


SWITCH_INTERVAL_S: Final = 0.0001
"""The event loop waits so long for a thread that computes, each time that it has let go of the interpreter: ten times
in a transaction, and a hundred times in a batch of 1 MB under TLS, since each 16 KiB of that are read apart. With half
a millisecond others of a large request had their p99 at 46 to 95 ms, now at 10 to 14 (`make hostile`, `denied-names`
and `many-partitions`). The interpreter's own 5 ms are meant for threads that are equal."""


def _background() -> "Background":
    """Work that concerns the process, whatever is served in it."""
    from eosin.node.freed_memory import CHECK_MS, FreedMemory
    from eosin.node.full_collections import COLLECT_MS, FullCollections
    from eosin.runtime.background import Background
    from eosin.runtime.clock import SystemClock
    from eosin.runtime.small_objects import SMALL_OBJECTS

    SMALL_OBJECTS.enable()
    background = Background(SystemClock())
    memory = FreedMemory.of_this_process()
    if memory is not None:
        background.every(CHECK_MS, "the look at freed memory", memory.check)
    collections = FullCollections.of_this_process(asyncio.get_running_loop().call_soon_threadsafe)
    background.every(COLLECT_MS, "the full garbage collection", collections.check)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
