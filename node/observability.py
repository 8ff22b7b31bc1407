"""`Observability`: what a broker has when somebody wants to see into it: the flight recorder, metrics, the HTTP
listener, traces and the console (console.md 2 to 5).

Always true: a broker that is not asked for it imports none of it, and keeps nothing.
"""

import logging
import platform
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.broker.requests.timeout_errors import error_sent_to
from eosin.broker.security.open_listeners import is_open
from eosin.node.assembly import Watchers
from eosin.node.sockets import bound_socket
from eosin.observe.explain.notable_log import NotableLog
from eosin.observe.recorder.events import Notable
from eosin.observe.recorder.group_recorder import GroupRecorder
from eosin.observe.recorder.notable_file import WRITE_MS, NotableFile
from eosin.observe.recorder.recorder import DEFAULT_BYTES, FlightRecorder
from eosin.runtime.clock import Clock
from eosin.runtime.turns import next_turn
from eosin.settings.broker import BrokerConfig
from eosin.settings.http import http_listener, is_loopback
from eosin.settings.listeners import Listener
from eosin.settings.start_error import StartError
from eosin.settings.tracing import traces_url

if TYPE_CHECKING:
    from starlette.routing import Route

    from eosin.broker.services import Services
    from eosin.broker.traffic_stats import TrafficStats
    from eosin.model.cluster import Cluster
    from eosin.network.acceptor import BoundSocket
    from eosin.network.host import ConnectionHost
    from eosin.network.request_stats import RequestStats
    from eosin.observe.console.console import Console
    from eosin.observe.console.feed import Feed
    from eosin.observe.console.history import BrokerHistory
    from eosin.observe.console.sessions import Sessions
    from eosin.observe.http.guard import Application, Guard
    from eosin.observe.http.host import HttpHost
    from eosin.observe.http.knowledge import Knowledge
    from eosin.observe.metrics.exposition import MetricsExposition
    from eosin.observe.metrics.loop_timer import LoopTimer
    from eosin.observe.metrics.work_stats import FlushStats, StartStats, VerificationStats
    from eosin.observe.survey.survey import Survey
    from eosin.observe.tracing.tracing import Tracing
    from eosin.runtime.background import Background
    from eosin.security.tls.contexts import BuiltContext
    from eosin.security.tls.reload import StoreWatch
    from eosin.security.tls.settings import ListenerTlsSettings
    from eosin.storage.disk.interfaces import Disk

log = logging.getLogger(__name__)

SHORTEST_TOKEN: Final = 8
GROUPS_SHARE: Final = 8
"""An eighth of the recorder's memory is for consumer groups."""
RESTORED_PER_TURN: Final = 200
"""Notable events from before the start, taken back in one turn of the event loop."""
NEEDS_LIBRARIES: Final = "eosin.http.listener needs starlette, uvicorn and prometheus-client: pip install eosin"


class BoundHttp(NamedTuple):
    """The address of the HTTP listener, which nobody else can have any more."""

    listener: Listener
    socket: "BoundSocket"


class MountedHttp:
    """The place for the paths of the HTTP listener where somebody else serves them, beside paths of his own."""

    def __init__(self, address: str, sessions: "Sessions") -> None:
        """`address` is the HOST:PORT at which they are served; `sessions` those of the console's pages."""
        self.address: Final = address
        self.sessions: Final = sessions
        self.application: Application | None = None
        """The paths, to be called in the broker's event loop; None before the broker has started."""


class ServedHttp(NamedTuple):
    """The HTTP listener, once it serves."""

    http: "HttpHost | None"
    """None where somebody else serves its paths."""
    exposition: "MetricsExposition"
    timer: "LoopTimer"
    console: "Console | None"

    async def stop(self) -> None:
        """End."""
        if self.console is not None:
            await self.console.stop()
        self.timer.stop()
        if self.http is not None:
            await self.http.stop()


class Observability:
    """The parts that `config` asks for."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, disk: "Disk", http: BoundHttp | None, mounted: MountedHttp | None
    ) -> None:
        """Raises `StartError`."""
        address = "" if http is None else http.listener.address
        if mounted is not None:
            address = mounted.address
        self.config: Final = replace(config, eosin_http_listener=address) if address else config
        """The settings, with the port that was bound: DescribeConfigs tells it, so that `eosin explain` finds it."""
        self._clock = clock
        limit = config.eosin_recorder_max_bytes
        is_needed = self.config.eosin_http_listener or config.eosin_tracing_endpoint
        size = (DEFAULT_BYTES if is_needed else 0) if limit < 0 else limit
        for_groups = size // GROUPS_SHARE
        self._disk = disk
        self._file = NotableFile(disk, config.data_dir) if size and config.data_dir is not None else None
        self._tell = NotableLog(clock).tell
        self.recorder = (
            FlightRecorder(
                clock,
                max_bytes=size - for_groups,
                on_notable=self._noted,
                error_sent=lambda api, refused, who, commits: error_sent_to(api, refused, who, config, commits=commits),
            )
            if size
            else None
        )
        self.groups = GroupRecorder(clock, max_bytes=for_groups) if size else None
        self._feed = None if self.recorder is None else _feed(config, self.recorder)
        self._bound = http
        self._mounted = mounted
        self._served: ServedHttp | None = None
        self._tracing = _tracing(config)
        self._stores = _stores(config, clock)
        self._token = _token(config)
        self.address: Final = address
        """HOST:PORT of the HTTP listener; empty without one."""
        self._measures = _measures(self.config)

    @property
    def watchers(self) -> Watchers:
        """The observers of the broker's parts."""
        measures = self._measures
        if measures is None:
            return Watchers(recorder=self.recorder, group_recorder=self.groups)
        return Watchers(
            recorder=self.recorder,
            group_recorder=self.groups,
            requests=measures.requests,
            traffic=measures.traffic,
            verified=measures.verifications.record,
            flushed=measures.flushes.record,
            made_durable=measures.flushes.made_durable,
        )

    @property
    def served(self) -> "ServedHttp":
        """The HTTP listener, which has started."""
        assert self._served is not None, "a broker with an HTTP listener has started"
        return self._served

    def begin(self, cluster: "Cluster", background: "Background") -> None:
        """The logs are open, and what happens is recorded from now on. What an earlier start has kept is taken back in
        the background."""
        if self._measures is not None:
            self._measures.start.opened()
        if self.recorder is None:
            return
        if self._tracing is not None:
            self._tracing.attach(self.recorder)
            self._tracing.start(self._clock, cluster_id=cluster.cluster_id, node_id=self.config.node_id)
        if self._file is not None:
            restore = partial(self._restore, self.recorder, self._file)
            background.once("taking back what was notable before the start", restore)
            background.every(WRITE_MS, "keeping what is notable of transactions", self._file.write)

    def _noted(self, transactional_id: str, notable: Notable) -> None:
        self._tell(transactional_id, notable)
        if self._file is not None:
            self._file.add(transactional_id, notable)

    async def _restore(self, recorder: FlightRecorder, file: NotableFile) -> None:
        for number, kept in enumerate(await self._disk.off_loop(file.read), start=1):
            recorder.restore(kept.id, kept.event)
            if self._feed is not None:
                self._feed.noted(kept.id, kept.event)
            if number % RESTORED_PER_TURN == 0:
                await next_turn()

    def loaded(self) -> None:
        """The coordinators have read their logs."""
        if self._measures is not None:
            self._measures.start.reached("load")

    async def start(
        self,
        services: "Services",
        host: "ConnectionHost",
        background: "Background",
        *,
        is_loading: Callable[[], bool],
        is_stopping: Callable[[], bool],
        advertise: Callable[[str, str, int], None],
    ) -> None:
        """Answer HTTP requests. Raises `StartError`. `advertise` tells clients of a listener its host and port."""
        measures, bound, mounted = self._measures, self._bound, self._mounted
        if measures is None:
            return
        measures.start.reached("listen")
        from eosin.observe.http.application import application
        from eosin.observe.http.health import Health
        from eosin.observe.http.knowledge import Knowledge
        from eosin.observe.metrics.collector import Collector
        from eosin.observe.metrics.exposition import MetricsExposition
        from eosin.observe.metrics.loop_timer import LoopTimer
        from eosin.observe.survey.survey import Survey

        timer = LoopTimer(services.wire_clock)
        timer.start()
        survey = Survey(services)
        collector = Collector(
            services,
            survey,
            self.recorder,
            requests=measures.requests,
            traffic=measures.traffic,
            loop=timer,
            watch=host.loop_watch,
            flushes=measures.flushes,
            verifications=measures.verifications,
            start=measures.start,
            connections=lambda: host.connections,
            spans=None if self._tracing is None else self._tracing.queue,
        )
        exposition = MetricsExposition(collector, self._clock)
        knowledge = Knowledge(services, survey, self.recorder, self.groups, host.loop_watch, lambda: host.connections)
        sessions = self._sessions() if self.config.eosin_console_enable else None
        console: Console | None = None
        if sessions is not None:
            history = self._history(services, background, measures)
            console = self._console(services, survey, knowledge, history, sessions, host)
        told = application(
            Health(services, is_loading=is_loading, is_stopping=is_stopping),
            knowledge,
            exposition,
            [*self._advertising(advertise), *(() if console is None else console.routes())],
        )
        http = None if bound is None else self._host(told, sessions, bound)
        self._served = ServedHttp(http, exposition, timer, console)
        if http is not None:
            await http.start()
        elif mounted is not None:
            mounted.application = told

    def _host(self, told: "Application", sessions: "Sessions | None", bound: BoundHttp) -> "HttpHost":
        """The broker's own listener, which has not begun."""
        from eosin.observe.http.host import HttpHost

        stores = self._stores
        guard = self._guard(told, sessions, bound.listener)
        return HttpHost(guard, bound.socket, None if stores is None else lambda: stores.built.context)

    def _advertising(self, advertise: Callable[[str, str, int], None]) -> Iterator["Route"]:
        """The path for addresses that are told later, if any are."""
        held = self.config.held_listeners
        if held:
            from eosin.observe.http.advertising import Advertising
            from eosin.observe.http.application import advertising_route

            yield advertising_route(Advertising(sorted(held), advertise))

    def _guard(self, told: "Application", sessions: "Sessions | None", listener: Listener) -> "Guard":
        """The guard before the paths, which lets nobody else in."""
        from eosin.observe.http.advertising import PATH as ADVERTISE
        from eosin.observe.http.guard import Guard

        config, is_private = self.config, is_loopback(listener)
        # Whoever may do everything at a listener may say where it is.
        may_tell = self._token is None and all(is_open(config, name) for name in config.held_listeners)
        return Guard(
            told,
            clock=self._clock,
            allowed_hosts=(*config.eosin_http_allowed_hosts, *own_names(config, listener)),
            token=self._token,
            public_metrics=config.eosin_http_public_metrics or (is_private and self._token is None),
            open_paths=[ADVERTISE] if may_tell else (),
            is_private=is_private and any(is_open(config, name) for name in config.protocols),
            knows_session=None if sessions is None else sessions.knows,
        )

    def _history(self, services: "Services", background: "Background", measures: "_Measures") -> "BrokerHistory":
        """The history that the console draws, counted from now on."""
        from eosin.observe.console.history import EVERY_MS, BrokerHistory

        history = BrokerHistory(
            services.partitions,
            self.recorder,
            self._clock,
            requests=measures.requests,
            traffic=measures.traffic,
            flushes=measures.flushes,
        )
        asking = "asking the disk how much room there is"
        background.once(asking, history.measure_disk)
        background.every(EVERY_MS, asking, history.measure_disk)
        background.every(EVERY_MS, "counting for the console's charts", history.sample)
        return history

    def _console(
        self,
        services: "Services",
        survey: "Survey",
        knowledge: "Knowledge",
        history: "BrokerHistory",
        sessions: "Sessions",
        host: "ConnectionHost",
    ) -> "Console":
        from eosin.observe.console.console import Console

        return Console(
            services,
            survey,
            knowledge,
            self.recorder,
            self._feed,
            history,
            sessions,
            connections=lambda: list(host.connections),
            apis=lambda: host.apis,
        )

    def _sessions(self) -> "Sessions":
        if self._mounted is not None:
            return self._mounted.sessions
        from eosin.observe.console.sessions import Sessions

        return Sessions(self._clock, port=self.address.rpartition(":")[2], is_secure=self.config.eosin_http_ssl_enable)

    @property
    def has_certificates(self) -> bool:
        """True if there is something for `refresh` to read."""
        return self._stores is not None

    async def refresh(self, *, forced: bool = False) -> None:
        """Read changed certificates again; with `forced` in any case. New connections get them."""
        if self._stores is not None:
            await self._stores.refresh(forced=forced)

    async def stop(self) -> None:
        """End."""
        if self._served is not None:
            await self._served.stop()
        if self._file is not None:
            await self._file.write()
        if self._tracing is not None:
            await self._tracing.stop()
        self.close_socket()

    def close_socket(self) -> None:
        """Give the address of the HTTP listener back."""
        if self._bound is not None:
            self._bound.socket.close()


async def open_observability(
    config: BrokerConfig, clock: Clock, disk: "Disk", mounted: MountedHttp | None = None
) -> Observability:
    """The parts that `config` asks for, with a bound address; with `mounted` there is an HTTP listener already. Raises
    `StartError` when their libraries, or a token, are missing."""
    if config.eosin_http_listener:
        try:
            import prometheus_client  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError:
            raise StartError(NEEDS_LIBRARIES) from None
    closed = sorted(name for name in config.held_listeners if not is_open(config, name))
    if closed and not config.eosin_http_token_file:
        raise StartError(
            f"eosin.advertise.later needs eosin.http.token.file: not everybody may use {', '.join(closed)}, so not"
            " everybody may say where it is"
        )
    listener = http_listener(config.eosin_http_listener)
    http = None if listener is None else BoundHttp(*await bound_socket(listener, config))
    try:
        return Observability(config, clock, disk, http, None if http is not None else mounted)
    except StartError:
        if http is not None:
            http.socket.close()
        raise


def _stores(config: BrokerConfig, clock: Clock) -> "StoreWatch[ListenerTlsSettings, BuiltContext] | None":
    """The certificates of the HTTP listener. Raises `StartError`."""
    if not config.eosin_http_ssl_enable:
        return None
    from eosin.runtime.key_files import StoreError
    from eosin.security.tls.contexts import build_context
    from eosin.security.tls.reload import StoreWatch
    from eosin.security.tls.settings import http_tls_settings

    try:
        return StoreWatch(http_tls_settings(config), clock, build=build_context)
    except StoreError as refused:
        raise StartError(f"eosin.http.listener cannot speak TLS: {refused}") from None


def own_names(config: BrokerConfig, listener: Listener) -> Collection[str]:
    """The names of this machine: its own, and those by which the listeners are known."""
    advertised = [each.host for each in config.announced_listeners]
    return {platform.node().lower(), listener.host.lower(), *map(str.lower, advertised)} - {""}


class _Measures(NamedTuple):
    """The counters for the HTTP listener."""

    start: "StartStats"
    requests: "RequestStats"
    traffic: "TrafficStats"
    flushes: "FlushStats"
    verifications: "VerificationStats"


def _measures(config: BrokerConfig) -> _Measures | None:
    """The counters, if anything shows them."""
    if not config.eosin_http_listener:
        return None
    from eosin.broker.traffic_stats import TrafficStats
    from eosin.network.request_stats import RequestStats
    from eosin.observe.metrics.work_stats import FlushStats, StartStats, VerificationStats

    return _Measures(StartStats(), RequestStats(), TrafficStats(), FlushStats(), VerificationStats())


def _feed(config: BrokerConfig, recorder: FlightRecorder) -> "Feed | None":
    """The feed of the console, if there is one."""
    if not config.eosin_console_enable:
        return None
    from eosin.observe.console.feed import Feed

    return Feed(recorder)


def _tracing(config: BrokerConfig) -> "Tracing | None":
    """The tracing that `config` asks for. Raises `StartError`."""
    url = traces_url(config.eosin_tracing_endpoint)
    if not url:
        return None
    from eosin.observe.tracing.tracing import tracing_of

    return tracing_of(url, ratio=config.eosin_tracing_ratio, most_spans=config.eosin_tracing_queue_max_spans)


def _token(config: BrokerConfig) -> str | None:
    """The token that requests must carry; None for none. Raises `StartError`."""
    path = config.eosin_http_token_file
    if not path:
        return None
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise StartError(f"cannot read eosin.http.token.file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StartError(f"eosin.http.token.file {path} is not ASCII text") from None
    if len(token) < SHORTEST_TOKEN:
        raise StartError(f"the token in eosin.http.token.file {path} has less than {SHORTEST_TOKEN} characters")
    return token
