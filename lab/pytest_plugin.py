"""The fixtures of pytest: `eosin` and its kin (docs/testing-applications.md).

Every run of pytest in the environment loads this module. Always true: loading it imports pytest and the standard
library alone; Eosin is imported by the first fixture that is used.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from eosin.lab.broker_api import BrokerApi

FIXTURES: Final = ("eosin", "eosin_class", "eosin_module", "eosin_session")
"""Fixtures that are a broker, from the nearest scope to the widest."""
OPTIONS: Final = (
    "topics",
    "settings",
    "durability",
    "host",
    "port",
    "strict_clients",
    "disk",
    "seed",
    "snapshot",
    "clock",
    "clock_at",
    "record",
    "behaviour",
    "nodes",
)
"""Names that the marker `eosin` takes."""
_INI: Final = {
    "behaviour": "the behaviour of brokers: kafka (the default), kafka-3.9, kafka-2.5 or eosin",
    "seed": "the seed of brokers, a whole number",
    "durability": "memory, os or fsync (the default)",
    "disk": "lab (the default) or memory",
    "clock": "flowing (the default) or frozen",
    "record": "off, protocol (the default) or full",
    "topics": "topics of brokers, NAME[:PARTITIONS], with commas, spaces or lines in between",
    "nodes": "the number of nodes of brokers, a whole number",
    "snapshot": "the ready-made snapshot that brokers start from, as open-transaction",
    "host": "the host of brokers (127.0.0.1)",
    "strict_clients": "true: a client that waits for a response when its broker closes is an error",
}
"""Options that pytest's configuration may choose for every broker, `eosin_NAME`, and what they are."""
THREAD: Final = "thread"
PROCESS: Final = "process"
LONGEST_NAME: Final = 180
"""Of a test's, in the names of topics; Kafka allows 249 in all."""

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_numbers: Final = itertools.count(1)
_extra: Final = pytest.StashKey["list[BrokerApi]"]()
_seed: Final = pytest.StashKey[int]()


class NewTopic(Protocol):
    """The fixture `eosin_topic`."""

    def __call__(self, partitions: int = 1, **configs: object) -> str:
        """Create a topic for this test alone, and return its name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line, and the same in pytest's configuration."""
    group = parser.getgroup("eosin", "brokers of eosin")
    group.addoption("--eosin-mode", choices=(THREAD, PROCESS), help="where brokers run (thread, or ini eosin_mode)")
    group.addoption(
        "--eosin-bootstrap", metavar="HOST:PORT", help="test against this broker; what it cannot tell is skipped"
    )
    group.addoption("--eosin-behaviour", metavar="NAME", help="the behaviour of brokers whose mark names none")
    group.addoption("--eosin-seed", metavar="N", help="the seed of brokers whose mark names none: repeats a run")
    group.addoption("--eosin-save", metavar="DIR", help="keep the history of the brokers of failed tests here, as JSON")
    parser.addini("eosin_mode", "where brokers of eosin run: thread or process", default=THREAD)
    parser.addini("eosin_settings", "settings of every broker, NAME=VALUE, one a line", type="linelist", default=[])
    for name, about in _INI.items():
        parser.addini(f"eosin_{name}", about, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and refuse options that exclude each other."""
    chosen = [name for name in ("--eosin-behaviour", "--eosin-seed", "--eosin-mode") if config.getoption(name)]
    if chosen and config.getoption("--eosin-bootstrap"):
        raise pytest.UsageError(
            f"{' and '.join(chosen)} choose how brokers are that a run starts, and --eosin-bootstrap names one that"
            " runs already: leave out one or the other"
        )
    config.addinivalue_line(
        "markers", f"eosin({', '.join(f'{each}=' for each in OPTIONS)}): options of this test's broker"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Tell which options of the configuration an outside broker does not have."""
    bootstrap = config.getoption("--eosin-bootstrap")
    if not bootstrap:
        return []
    names = [f"eosin_{name}" for name in ("mode", "settings", *_INI) if name != "topics"]
    unused = [name for name in names if config.getini(name) not in ("", [], THREAD)]
    words = f"; not for it: {', '.join(unused)} of the configuration" if unused else ""
    return [f"eosin: tests ask the broker at {bootstrap}{words}"]


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the threads that are kept from one broker to the next."""
    threads = sys.modules.get("eosin.lab.lab_thread")
    if threads is not None:
        threads.end_idle_threads()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Fail a test whose faults never happened, and say of a failed test how its brokers are."""
    if call.when == "call" and call.excinfo is not None and "eosin.lab.broker_api" in sys.modules:
        call.excinfo = _for_the_caller(call.excinfo)
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if "eosin.lab.broker_api" not in sys.modules:
        return
    by_fixture = _brokers_of(item)
    brokers = [*by_fixture.values(), *item.stash.get(_extra, [])]
    if report.when == "call" and report.passed:
        complaints = _complaints(brokers if FIXTURES[0] in by_fixture else item.stash.get(_extra, []))
        if complaints:
            report.outcome, report.longrepr = "failed", "\n".join(complaints)
    _add_sections(item, report, brokers)
    if report.when == "call" and report.failed:
        _complaints(brokers, dismiss=True)


def _brokers_of(item: pytest.Item) -> "dict[str, BrokerApi]":
    """The brokers of a test by the fixture: a fixture of the same name may be another's."""
    from eosin.lab.broker_api import BrokerApi  # there since there were brokers

    arguments = getattr(item, "funcargs", {})
    return {name: arguments[name] for name in FIXTURES if isinstance(arguments.get(name), BrokerApi)}


def _for_the_caller(raised: "pytest.ExceptionInfo[BaseException]") -> "pytest.ExceptionInfo[BaseException]":
    """The error with the lines of the test alone, where its sentence says everything."""
    from eosin.lab.common.errors import EosinAssertion, LabError
    from eosin.lab.tracebacks import for_the_caller

    if not isinstance(raised.value, (LabError, EosinAssertion)):
        return raised
    return pytest.ExceptionInfo.from_exception(for_the_caller(raised.value))


def _complaints(brokers: "list[BrokerApi]", *, dismiss: bool = False) -> list[str]:
    """The reasons of brokers to fail a test that has passed; told once with `dismiss`."""
    from eosin.lab.common.errors import LabError  # there since there were brokers

    found: list[str] = []
    for each in brokers:
        try:
            found += each.complaints(dismiss=dismiss)
        except LabError:  # it is closed, or hangs, and the test has heard of that
            continue
    return found


def _add_sections(item: pytest.Item, report: pytest.TestReport, brokers: "list[BrokerApi]") -> None:
    if brokers and report.failed and report.when != "teardown":
        report.sections.append(("Eosin", _report_of(brokers)))
        folder = item.config.getoption("--eosin-save")
        if folder:
            report.sections.append(("Eosin, saved", _saved(folder, item, brokers)))


def _report_of(brokers: "list[BrokerApi]") -> str:
    """The report; one sentence where it fails, as it may with whatever has failed the test: the run goes on."""
    from eosin.lab.common.errors import LabError  # there since there were brokers

    try:
        from eosin.lab.report import report_of

        return report_of(brokers)
    except (LabError, ImportError, OSError, RuntimeError) as error:
        return f"nothing can be told of the brokers: {type(error).__name__}: {error}"


def _saved(folder: str, item: pytest.Item, brokers: "list[BrokerApi]") -> str:
    """Write the run of a failed test into a file; sentences about it."""
    from eosin.lab.common.errors import LabError

    name = _ILLEGAL.sub("-", item.nodeid).strip("-")
    path = Path(folder) / f"eosin-{name[-LONGEST_NAME:]}.json"
    try:
        from eosin.lab.common.failed_test import FailedTest
        from eosin.lab.report import saved_run

        config = item.config
        names = ("behaviour", "mode", "bootstrap")
        chosen: dict[str, Any] = {name: config.getoption(f"--eosin-{name}") or "" for name in names}
        saved, failed = saved_run(FailedTest(item.nodeid, str(config.rootpath), **chosen), brokers)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved)
    except (LabError, ImportError, OSError, RuntimeError) as error:
        return f"nothing can be saved at {path}: {type(error).__name__}: {error}"
    return f"the history of its brokers is in {path}\nto repeat it: {failed.command}\nor: eosin lab replay {path}"


@pytest.fixture
def eosin(request: pytest.FixtureRequest) -> "Iterator[BrokerApi]":
    """A fresh broker for this test."""
    yield from _served(request)


@pytest.fixture(scope="class")
def eosin_class(request: pytest.FixtureRequest) -> "Iterator[BrokerApi]":
    """One broker for the tests of a class."""
    yield from _served(request)


@pytest.fixture(scope="module")
def eosin_module(request: pytest.FixtureRequest) -> "Iterator[BrokerApi]":
    """One broker for the tests of a module."""
    yield from _served(request)


@pytest.fixture(scope="session")
def eosin_session(request: pytest.FixtureRequest) -> "Iterator[BrokerApi]":
    """One broker for this run, or for this worker of it: use `eosin_topic` and `eosin_id` with it."""
    yield from _served(request)


@pytest.fixture
def eosin_factory(request: pytest.FixtureRequest) -> "Iterator[Callable[..., BrokerApi]]":
    """`eosin_factory(**options)` is one more broker; all are closed at the end of the test."""
    made: list[BrokerApi] = []
    request.node.stash[_extra] = made

    def make(**options: Any) -> "BrokerApi":
        if request.config.getoption("--eosin-bootstrap"):
            pytest.skip("eosin_factory makes brokers, and --eosin-bootstrap names one")
        made.append(_broker(request, options))
        return made[-1]

    try:
        yield make
    finally:
        del request.node.stash[_extra]
        for each in reversed(made):
            each.close()


@pytest.fixture
def eosin_topic(request: pytest.FixtureRequest) -> NewTopic:
    """`eosin_topic(partitions=1, **configs)` is the name of a new topic, on the broker that the test uses."""
    broker: BrokerApi = request.getfixturevalue(
        next((name for name in FIXTURES if name in request.fixturenames), FIXTURES[0])
    )

    def create(partitions: int = 1, **configs: object) -> str:
        name = _unique(request, "")
        broker.topic(name).create(partitions, **configs)
        return name

    return create


@pytest.fixture
def eosin_id(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`eosin_id("invoicing")` is a transactional id, or a group, of this test alone."""
    return lambda name: _unique(request, f"{name}-")


def _served(request: pytest.FixtureRequest) -> "Iterator[BrokerApi]":
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("eosin"))):  # the nearest one last
        options |= marker.kwargs
    broker = _broker(request, options)
    try:
        yield broker
    finally:
        broker.close()


def _broker(request: pytest.FixtureRequest, options: dict[str, Any]) -> "BrokerApi":
    """A broker as the marker, the command line and the configuration want it."""
    from eosin.lab.common.errors import LabError, unknown
    from eosin.lab.options import partitions_by_topic

    config = request.config
    of_all = _of_all(config)
    for name in options:
        if name not in OPTIONS:
            raise unknown("option of a broker", name, OPTIONS)
    bootstrap = config.getoption("--eosin-bootstrap")
    if bootstrap:
        from eosin.lab.outside_broker import OutsideBroker

        others = sorted(set(options) - {"topics"})
        if others:
            pytest.skip(f"{', '.join(others)} cannot be chosen for the broker that --eosin-bootstrap names")
        outside = OutsideBroker(bootstrap, refuse=pytest.skip)
        outside.create_missing(partitions_by_topic(options.get("topics", of_all.get("topics", ()))))
        return outside
    settings = dict(each.partition("=")[::2] for each in config.getini("eosin_settings"))
    chosen = {
        "seed": _seed_of(request.node),
        **of_all,
        **options,
        "settings": {**settings, **options.get("settings", {})},
    }
    mode = config.getoption("--eosin-mode") or config.getini("eosin_mode")
    if mode == PROCESS:
        from eosin.lab.process_broker import ProcessBroker

        return ProcessBroker(**chosen)
    if mode != THREAD:
        raise LabError(f"eosin_mode is {THREAD} or {PROCESS}, not {mode!r}")
    from eosin.lab.broker import Broker

    return Broker(**chosen)


def _of_all(config: pytest.Config) -> dict[str, Any]:
    """The options of every broker, of the command line and else of the configuration. Raises LabError."""
    from eosin.lab.common.errors import LabError
    from eosin.lab.options import topics_in

    on_command_line = {name: config.getoption(f"--eosin-{name}") for name in ("behaviour", "seed")}
    found: dict[str, Any] = {name: on_command_line.get(name) or config.getini(f"eosin_{name}") for name in _INI}
    found = {name: text for name, text in found.items() if text}
    for name, where in {"seed": "--eosin-seed, or ini eosin_seed,", "nodes": "ini eosin_nodes"}.items():
        if name in found:
            try:
                found[name] = int(found[name])
            except ValueError:
                raise LabError(f"{where} is a whole number, not {found[name]!r}") from None
    if "topics" in found:
        found["topics"] = topics_in(found["topics"], "ini eosin_topics")
    if "strict_clients" in found:
        if found["strict_clients"] not in ("true", "false"):
            raise LabError(f"ini eosin_strict_clients is true or false, not {found['strict_clients']!r}")
        found["strict_clients"] = found["strict_clients"] == "true"
    return found


def _seed_of(node: Any) -> int:
    """A seed by chance, the same for all brokers of a test, a class, a module or a run: one number repeats it."""
    from eosin.runtime.chance import SystemChance

    if _seed not in node.stash:
        node.stash[_seed] = SystemChance().below(2**32)
    return node.stash[_seed]  # type: ignore[no-any-return]


def _unique(request: pytest.FixtureRequest, prefix: str) -> str:
    """A name of this test alone: in a broker that outlives this run, too."""
    run = ""
    if request.config.getoption("--eosin-bootstrap"):
        run = f"{_run_token(request.config)}-"
    test = _ILLEGAL.sub("-", request.node.name)[:LONGEST_NAME].strip("-")
    return f"{prefix}{test}-{run}{next(_numbers)}"


_token: Final = pytest.StashKey[str]()


def _run_token(config: pytest.Config) -> str:
    if _token not in config.stash:
        import uuid

        config.stash[_token] = uuid.uuid4().hex[:8]
    return config.stash[_token]
